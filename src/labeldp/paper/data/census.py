"""The 1940 US census, read as the paper did: weeks worked in 1939, from eight fields about the person."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from labeldp.errors import InvalidInput, MissingExtra
from labeldp.paper.data.dataset import RARE, Dataset, located, reading
from labeldp.tables.csv_text import looks_like_data

BLANK = -1
"""The value of an empty field."""
Integers = NDArray[np.int64]
Block = tuple[Integers, dict[str, Integers]]
"""Line numbers, and one array of values for each field."""

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


@dataclass(frozen=True)
class FixedWidth:
    """The layout of a file: what it is called, its line width, and its fields as (first, last) columns counted from 1.

    With `record` and `other`, column 1 holds a letter: lines with the letter `record` are read, lines with the letter
    `other` are skipped and may have another width.
    """

    description: str
    width: int
    fields: Mapping[str, tuple[int, int]]
    record: str = ""
    other: str = ""

    def read(self, path: Path, block_bytes: int = 1 << 24) -> Iterator[Block]:
        """Yield the fields of every line, one block at a time. Memory is a few blocks. Empty fields are `BLANK`.

        Raises InvalidInput with the line number for a line of another width or a field that is not a whole number.
        """
        with reading(path, self.description, lambda message: f"{located(path, message)}. Expected {self.description}."):
            reader = pa.csv.open_csv(
                path,
                read_options=pa.csv.ReadOptions(column_names=["text"], use_threads=False, block_size=block_bytes),
                # The delimiter is a control character that such files do not contain: a line is one value.
                parse_options=pa.csv.ParseOptions(delimiter="\x1f", quote_char=False, ignore_empty_lines=False),
                convert_options=pa.csv.ConvertOptions(column_types={"text": pa.binary()}, null_values=[]),
            )
            first_line = 1
            for batch in reader:
                yield self._parse(path, batch["text"], first_line)
                first_line += batch.num_rows

    def _parse(self, path: Path, text: pa.BinaryArray, first_line: int) -> Block:
        lines = np.arange(first_line, first_line + len(text))
        if self.record:
            wanted, skipped = (
                pc.starts_with(text, letter).to_numpy(zero_copy_only=False) for letter in (self.record, self.other)
            )
            self._refuse(path, lines, ~(wanted | skipped), f"column 1 should be {self.record} or {self.other}")
            text, lines = text.filter(wanted), lines[wanted]
        widths = pc.binary_length(text).to_numpy()
        wrong = widths != self.width
        found = widths[wrong.argmax()] if wrong.any() else ""
        self._refuse(path, lines, wrong, f"the line should be {self.width} characters wide, not {found}")
        text = text.cast(pa.binary(self.width))
        matrix = np.frombuffer(text.buffers()[1], np.uint8).reshape(-1, self.width)[text.offset :][: len(text)]
        columns = {}
        for name, (first, last) in self.fields.items():
            columns[name], bad = _numbers(matrix[:, first - 1 : last])
            self._refuse(path, lines, bad, f"columns {first}-{last} ({name}) should hold a whole number")
        return lines, columns

    def _refuse(self, path: Path, lines: Integers, bad: NDArray[np.bool_], expected: str) -> None:
        if bad.any():
            raise InvalidInput(
                f"{path.name}, line {lines[bad.argmax()]}: {expected}. "
                f"Expected {self.description}; the file may be damaged, cut off, or another one."
            )


def _numbers(characters: NDArray[np.uint8]) -> tuple[Integers, NDArray[np.bool_]]:
    """Whole numbers on the right of their field, after zeros or spaces; `BLANK` for all spaces. And which are malformed."""
    value = np.zeros(len(characters), np.int64)
    started, bad = np.zeros((2, len(characters)), np.bool_)
    for character in characters.T:
        blank, digit = character == ord(" "), character - np.uint8(ord("0"))
        bad |= np.where(blank, started, digit > 9)
        started |= ~blank
        value = value * 10 + np.where(blank, 0, digit)
    return np.where(started, value, BLANK), bad


ARCHIVE_LAYOUT = FixedWidth(
    description="the 1940 census file EXT1940USCB.dat (H and P lines, P lines 273 characters wide)",
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
    other="H",
)


def load_census(path: str | PathLike[str], ddi: str | PathLike[str] | None = None) -> Dataset:
    r"""Load the persons who worked at least a week in 1939 from a file of the 1940 US census.

    Three kinds of file are distinguished by name and content: the archive's hierarchical `EXT1940USCB.dat`; an IPUMS
    extract (`.dat` or `.dat.gz`) with its DDI codebook; a CSV extract (`.csv` or `.csv.gz`) with an upper-case header.

    As in the paper, rows whose WKSWORK1 is 0 (did not work, or not asked) are dropped. Codes above 52 are not numbers
    of weeks and are also dropped. Codes outside the paper's vocabularies and empty fields become one item. The file is
    streamed: memory is about 25 bytes for each person kept.

    Parameters
    ----------
    path : str or path
        The file.
    ddi : str or path, optional
        The codebook of an IPUMS extract. By default an `.xml` of the same name next to it, if there is one.

    Returns
    -------
    Dataset
        Weeks worked, age, and seven categorical fields.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged or another one. The message names the line where it can.
    MissingExtra
        If a codebook is to be read and `ipumspy` is not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from labeldp.paper.data import load_census
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "extract.csv")
    ...     lines = ["WKSWORK1,AGE,SEX,MARST,CHBORN,SCHOOL,EMPSTAT,OCC,IND", "52,34,1,1,0,1,1,266,16", "0,9,2,6,0,2,0,0,0"]
    ...     _ = path.write_text("\n".join(lines))
    ...     persons = load_census(path)
    >>> persons.labels
    array([52.])
    >>> persons.features["OCC"].to_pylist()
    ['266']

    """
    path = Path(path)
    labels, ages, codes = [], [], dict[str, list[NDArray[np.int16]]]((name, []) for name in CENSUS_VOCABULARIES)
    unknown = 0
    for lines, columns in _blocks(path, None if ddi is None else Path(ddi)):
        for required in (CENSUS_LABEL, "AGE"):
            empty = columns[required] == BLANK
            if empty.any():
                raise InvalidInput(
                    f"{path.name}, line {lines[empty.argmax()]}: {required} is empty, expected a whole number"
                )
        weeks = columns[CENSUS_LABEL]
        kept = (weeks > 0) & (weeks <= _WEEKS)
        unknown += int(np.count_nonzero(weeks > _WEEKS))
        labels.append(weeks[kept].astype(np.uint8))
        ages.append(columns["AGE"][kept].astype(np.uint8))
        for name, (first, number) in CENSUS_VOCABULARIES.items():
            item = columns[name][kept] - first + 1
            codes[name].append(np.where((item < 1) | (item > number), 0, item).astype(np.int16))
    worked = np.concatenate([np.empty(0, np.uint8), *labels]).astype(np.float64)
    if not len(worked):
        raise InvalidInput(
            f"{path.name} contains no person with {CENSUS_LABEL} from 1 to {_WEEKS}: there is nothing to train on"
        )
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
        upper=float(_WEEKS),
        description=f"genuine census records, {len(worked):,} persons who worked, from {path.name}{dropped}",
    )


def ipums_layout(ddi: str | PathLike[str], fields: tuple[str, ...] = _FIELDS) -> FixedWidth:
    """Return where an IPUMS extract keeps the given fields, read from its DDI codebook with `ipumspy`."""
    try:
        from ipumspy import readers
        from ipumspy.readers import CitationWarning
    except ImportError as error:
        raise MissingExtra("reading an IPUMS codebook needs ipumspy: pip install 'labeldp[data]'") from error
    ddi = Path(ddi)
    try:
        with warnings.catch_warnings():
            # The terms (cite IPUMS) are stated in docs/research/reproduction.md#data.
            warnings.simplefilter("ignore", CitationWarning)
            codebook = readers.read_ipums_ddi(ddi)
    except Exception as error:
        raise InvalidInput(f"{ddi.name} is not a DDI codebook of an IPUMS extract ({error})") from error
    if codebook.file_description.structure != "rectangular":
        raise InvalidInput(f"{ddi.name} describes a hierarchical extract; ask IPUMS for a rectangular one (or CSV)")
    # ipumspy counts from 0 and excludes the end; the layout counts from 1 and includes it.
    places = {variable.name: (variable.start + 1, variable.end) for variable in codebook.data_description}
    _require(ddi, fields, list(places))
    return FixedWidth(
        description=f"the IPUMS extract that {ddi.name} describes",
        width=max(last for _, last in places.values()),
        fields={name: places[name] for name in fields},
    )


def _blocks(path: Path, ddi: Path | None) -> Iterator[Block]:
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        return _csv_blocks(path)
    if not name.endswith((".dat", ".dat.gz")):
        raise InvalidInput(f"{path.name}: expected EXT1940USCB.dat, an IPUMS extract (.dat, .dat.gz) or a .csv")
    neighbour = path.with_name(path.name.removesuffix(".gz")).with_suffix(".xml")
    if ddi is None and neighbour.is_file():
        ddi = neighbour
    return (ARCHIVE_LAYOUT if ddi is None else ipums_layout(ddi)).read(path)


def _csv_blocks(path: Path) -> Iterator[Block]:
    with reading(
        path,
        "a CSV extract of the census",
        lambda message: f"{located(path, message)}: this is not a CSV extract of whole numbers",
    ):
        # With one thread only do errors of pyarrow carry the row number.
        options = pa.csv.ReadOptions(use_threads=False, block_size=1 << 23)
        _require(path, _FIELDS, pa.csv.open_csv(path, read_options=options).schema.names)
        reader = pa.csv.open_csv(
            path,
            read_options=options,
            parse_options=pa.csv.ParseOptions(ignore_empty_lines=False),
            convert_options=pa.csv.ConvertOptions(
                include_columns=list(_FIELDS), column_types=dict.fromkeys(_FIELDS, pa.int64())
            ),
        )
        first_line = 2
        for batch in reader:
            lines = np.arange(first_line, first_line + batch.num_rows)
            yield lines, {name: batch[name].fill_null(BLANK).to_numpy() for name in _FIELDS}
            first_line += batch.num_rows


def _require(path: Path, fields: Sequence[str], found: Sequence[str]) -> None:
    missing = [name for name in fields if name not in found]
    if missing:
        raise InvalidInput(
            f"{path.name} lacks {', '.join(missing)}; an extract needs {', '.join(fields)} (upper case). "
            # Names that are probably values are not shown. Our own names have one digit at most (WKSWORK1).
            + (
                "Its first line looks like data."
                if any(map(looks_like_data, found))
                else f"It has {', '.join(found[:20])}."
            )
        )
