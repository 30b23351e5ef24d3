"""The 1940 US census, read as the paper did: weeks worked in 1939, from eight fields about the person."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.paper.data.dataset import Dataset
from labeldp.paper.data.fixed_width import BLANK, FixedWidth
from labeldp.paper.data.vocabulary import RARE

CENSUS_LABEL = "WKSWORK1"
CENSUS_NUMERIC = ("AGE",)
CENSUS_VOCABULARIES: Mapping[str, tuple[int, int]] = {
    "SEX": (1, 2),
    "MARST": (1, 6),
    "CHBORN": (0, 100),
    "SCHOOL": (1, 2),
    "EMPSTAT": (0, 4),
    "OCC": (0, 1000),
    "IND": (0, 1000),
}
"""First code and number of codes of each categorical field: the paper's vocabularies."""

_FIELDS = (CENSUS_LABEL, *CENSUS_NUMERIC, *CENSUS_VOCABULARIES)
_WEEKS = 52
_Columns = Mapping[str, NDArray[np.int64]]

ARCHIVE_LAYOUT = FixedWidth(
    what="the 1940 census file EXT1940USCB.dat (H and P lines, P lines 273 characters wide)",
    width=273,
    fields={
        "SEX": (73, 73),
        "AGE": (74, 76),
        "MARST": (79, 79),
        "CHBORN": (83, 84),
        "SCHOOL": (127, 127),
        "EMPSTAT": (138, 138),
        "OCC": (142, 145),
        "IND": (149, 152),
        "WKSWORK1": (159, 160),
    },
    record="P",
    others="H",
)


def load_census(path: str | PathLike[str], ddi: str | PathLike[str] | None = None) -> Dataset:
    """Persons who worked at least a week, from any of three kinds of file, told apart by name and content:

    - `EXT1940USCB.dat`, the archive's hierarchical file;
    - an IPUMS extract, `.dat` or `.dat.gz` with its DDI codebook: `ddi`, or an `.xml` of the same name beside it;
    - a CSV extract, `.csv` or `.csv.gz`, with an upper-case header.

    Rows whose WKSWORK1 is 0 (did not work, or not asked) are dropped, as in the paper; so are codes above 52, which
    are no number of weeks. Codes outside the paper's vocabularies, and empty fields, become one item. Streamed:
    memory is about 25 bytes per person kept.
    """
    path = Path(path)
    labels, ages, codes = [], [], dict[str, list[NDArray[np.int16]]]((name, []) for name in CENSUS_VOCABULARIES)
    unknown = 0
    for columns in _blocks(path, None if ddi is None else Path(ddi)):
        weeks = columns[CENSUS_LABEL]
        kept = (weeks > 0) & (weeks <= _WEEKS)
        unknown += int(np.count_nonzero(weeks > _WEEKS))
        labels.append(weeks[kept].astype(np.uint8))
        ages.append(columns["AGE"][kept].astype(np.uint8))
        for name, (first, number) in CENSUS_VOCABULARIES.items():
            item = columns[name][kept] - first + 1
            codes[name].append(np.where((item < 1) | (item > number), 0, item).astype(np.int16))
    worked = np.concatenate(labels).astype(np.float64)
    if not len(worked):
        raise InvalidInput(f"{path.name} has nobody with {CENSUS_LABEL} from 1 to {_WEEKS}, nothing to learn from")
    features: dict[str, pa.Array] = {"AGE": pa.array(np.concatenate(ages).astype(np.float64))}
    for name, (first, number) in CENSUS_VOCABULARIES.items():
        dictionary = pa.array([RARE, *(str(code) for code in range(first, first + number))])
        features[name] = pa.DictionaryArray.from_arrays(pa.array(np.concatenate(codes[name])), dictionary)
    dropped = f", {unknown:,} with unknown weeks dropped" if unknown else ""
    return Dataset(
        name="census",
        features=pa.table(features),
        labels=worked,
        numeric=CENSUS_NUMERIC,
        categorical=tuple(CENSUS_VOCABULARIES),
        lower=0.0,
        upper=float(_WEEKS),
        integer=True,
        generated=False,
        description=f"genuine census records, {len(worked):,} persons who worked, from {path.name}{dropped}",
    )


def ipums_layout(ddi: str | PathLike[str], fields: tuple[str, ...] = _FIELDS) -> FixedWidth:
    """Where an IPUMS extract keeps the given fields, from its DDI codebook (read with `ipumspy`)."""
    try:
        from ipumspy import readers
        from ipumspy.readers import CitationWarning
    except ImportError as error:
        raise InvalidInput("reading an IPUMS codebook needs ipumspy: pip install 'labeldp[data]'") from error
    ddi = Path(ddi)
    try:
        with warnings.catch_warnings():
            # The terms (cite IPUMS) are stated in docs/data.md.
            warnings.simplefilter("ignore", CitationWarning)
            codebook = readers.read_ipums_ddi(ddi)
    except Exception as error:
        raise InvalidInput(f"{ddi.name} is not a DDI codebook of an IPUMS extract ({error})") from error
    if codebook.file_description.structure != "rectangular":
        raise InvalidInput(f"{ddi.name} describes a hierarchical extract; ask IPUMS for a rectangular one (or CSV)")
    # ipumspy counts from 0 and excludes the end; the layout counts from 1 and includes it.
    places = {variable.name: (variable.start + 1, variable.end) for variable in codebook.data_description}
    _require(ddi, fields, places)
    return FixedWidth(
        what=f"the IPUMS extract that {ddi.name} describes",
        width=max(last for _, last in places.values()),
        fields={name: places[name] for name in fields},
    )


def _blocks(path: Path, ddi: Path | None) -> Iterator[_Columns]:
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        yield from _csv(path)
        return
    if not name.endswith((".dat", ".dat.gz")):
        raise InvalidInput(f"{path.name}: expected EXT1940USCB.dat, an IPUMS extract (.dat, .dat.gz) or a .csv")
    beside = path.with_name(path.name.removesuffix(".gz")).with_suffix(".xml")
    if ddi is None and beside.is_file():
        ddi = beside
    layout = ARCHIVE_LAYOUT if ddi is None else ipums_layout(ddi)
    for block in layout.read(path):
        for required in (CENSUS_LABEL, "AGE"):
            if (block[required] == BLANK).any():
                raise InvalidInput(f"{path.name}: {required} is empty in some lines; expected {layout.what}")
        yield block


def _csv(path: Path) -> Iterator[_Columns]:
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file; expected a CSV extract of the census")
    try:
        # One thread: only then do errors of pyarrow carry the row number.
        header = pa.csv.open_csv(path, read_options=pa.csv.ReadOptions(use_threads=False)).schema.names
        _require(path, _FIELDS, header)
        reader = pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=1 << 23),
            parse_options=pa.csv.ParseOptions(ignore_empty_lines=False),
            convert_options=pa.csv.ConvertOptions(
                include_columns=list(_FIELDS), column_types=dict.fromkeys(_FIELDS, pa.int64())
            ),
        )
        line = 2
        for batch in reader:
            for required in (CENSUS_LABEL, "AGE"):
                if batch[required].null_count:
                    row = batch[required].is_null().to_numpy(zero_copy_only=False).argmax()
                    raise InvalidInput(f"{path.name}, line {line + row}: {required} is empty, expected a whole number")
            line += batch.num_rows
            yield {name: batch[name].fill_null(BLANK).to_numpy() for name in _FIELDS}
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{path.name}: not a CSV extract of whole numbers ({error})") from error
    except OSError as error:
        raise InvalidInput(f"{path.name} cannot be read to its end ({error}); it may be cut off") from error


def _require(path: Path, fields: tuple[str, ...], found: object) -> None:
    assert isinstance(found, list | dict)
    missing = [name for name in fields if name not in found]
    if missing:
        raise InvalidInput(
            f"{path.name} lacks {', '.join(missing)}; an extract needs {', '.join(fields)} (upper case). "
            f"It has {', '.join(list(found)[:20])}."
        )
