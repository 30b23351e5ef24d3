"""Reading the genuine Criteo Sponsored Search Conversion log, with the paper's preprocessing."""

import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from labeldp.errors import InvalidInput
from labeldp.paper.calibrated import CRITEO_CLIP
from labeldp.paper.data.dataset import MIN_COUNT, Dataset, with_vocabulary
from labeldp.paper.data.text_errors import reading

CRITEO_NUMERIC = ("time_delay_for_conversion", "nb_clicks_1week", "product_price")
CRITEO_CATEGORICAL = (
    "product_age_group",
    "device_type",
    "audience_id",
    "product_gender",
    "product_brand",
    *(f"product_category{level}" for level in range(1, 8)),
    "product_country",
    "product_id",
    "product_title",
    "partner_id",
    "user_id",
)
CRITEO_SCHEMA = pa.schema(
    [
        ("Sale", pa.int64()),
        ("SalesAmountInEuro", pa.float64()),
        ("time_delay_for_conversion", pa.int64()),
        ("click_timestamp", pa.int64()),
        ("nb_clicks_1week", pa.int64()),
        ("product_price", pa.float64()),
        *((name, pa.string()) for name in CRITEO_CATEGORICAL),
    ]
)
"""Names, order and types of the fields in the file."""


def load_criteo(
    path: str | PathLike[str], *, min_count: int = MIN_COUNT, clip: float = CRITEO_CLIP, generated: bool = False
) -> Dataset:
    """Load the purchases of a Criteo log (`CriteoSearchData`) as the paper did.

    Rows without a sale amount are dropped. `-1` (missing) is a category like any other and stays -1 in numeric columns.
    The file is streamed: memory grows with the purchases kept (one row in nine), not with the file.

    Parameters
    ----------
    path : str or path
        The log: tab-separated, 23 fields, no header. It may be compressed (.gz).
    min_count : int
        Values of a categorical column that fewer purchases have become one item.
    clip : float
        Amounts above this become this.
    generated : bool
        Whether the file was made by `write_criteo_like`. The data set's name and description then state this.

    Returns
    -------
    Dataset
        Sale amounts, three numeric and 17 categorical columns.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged or another one (see `criteo_batches`), or contains no purchases.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from labeldp.paper.data import load_criteo, write_criteo_like
    >>> with TemporaryDirectory() as folder:
    ...     write_criteo_like(Path(folder, "log.tsv"), 1000, sales=0.5)
    ...     purchases = load_criteo(Path(folder, "log.tsv"), generated=True)
    >>> purchases.description
    'generated Criteo-like purchases, 513 rows from log.tsv'

    """
    path = Path(path)
    kept = [batch for batch in map(_purchases, criteo_batches(path)) if batch.num_rows]
    if not kept:
        raise InvalidInput(
            f"{path.name} contains no row with a sale amount (field 2 is -1 everywhere): there is nothing to train on"
        )
    table = pa.Table.from_batches(kept)
    features = {name: table[name].cast(pa.float64()) for name in CRITEO_NUMERIC}
    features |= {name: with_vocabulary(table[name], min_count) for name in CRITEO_CATEGORICAL}
    kind = "generated Criteo-like purchases" if generated else "purchases of the genuine Criteo log"
    return Dataset(
        name="criteo-like" if generated else "criteo",
        features=pa.table(features),
        labels=np.minimum(table["SalesAmountInEuro"].to_numpy(), clip),
        numeric=CRITEO_NUMERIC,
        categorical=CRITEO_CATEGORICAL,
        upper=clip,
        description=f"{kind}, {table.num_rows:,} rows from {path.name}",
    )


def criteo_batches(path: str | PathLike[str]) -> Iterator[pa.RecordBatch]:
    """Read every row of a Criteo log, one batch at a time, in constant memory.

    Parameters
    ----------
    path : str or path
        The log: tab-separated, 23 fields, no header. It may be compressed (.gz).

    Yields
    ------
    pyarrow.RecordBatch
        The next rows, with the 23 columns of the log.

    Raises
    ------
    InvalidInput
        If the file is missing, or a line does not have 23 fields or holds text where a number belongs. The message names
        the line.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from labeldp.paper.data import criteo_batches, write_criteo_like
    >>> with TemporaryDirectory() as folder:
    ...     write_criteo_like(Path(folder, "log.tsv"), 1000, sales=0.5)
    ...     sum(batch.num_rows for batch in criteo_batches(Path(folder, "log.tsv")))
    1000

    """
    path = Path(path)
    with reading(path, "the Criteo log, 23 tab-separated fields in each line", lambda text: _explained(path, text)):
        reader = pa.csv.open_csv(
            path,
            # With one thread only do errors of pyarrow carry the row number.
            read_options=pa.csv.ReadOptions(column_names=CRITEO_SCHEMA.names, use_threads=False, block_size=1 << 23),
            parse_options=pa.csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
            convert_options=pa.csv.ConvertOptions(
                column_types=CRITEO_SCHEMA, strings_can_be_null=False, null_values=[], check_utf8=True
            ),
        )
        first_line = 1
        for batch in reader:
            _check(path, batch, first_line)
            yield batch
            first_line += batch.num_rows


def _purchases(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch = batch.filter(pc.greater_equal(batch["SalesAmountInEuro"], 0.0))
    columns = {name: batch[name] for name in ("SalesAmountInEuro", *CRITEO_NUMERIC)}
    for name in CRITEO_CATEGORICAL:
        # Missing is spelled both ways in the log.
        values = pc.if_else(pc.equal(batch[name], "-1.0"), "-1", batch[name])
        columns[name] = values.dictionary_encode()
    return pa.record_batch(columns)


def _check(path: Path, batch: pa.RecordBatch, first_line: int) -> None:
    sale, amount = batch["Sale"], batch["SalesAmountInEuro"]
    tests = (
        (pc.is_in(sale, pa.array([0, 1])), "field 1 (Sale) should be 0 or 1"),
        (
            pc.and_(pc.is_finite(amount), pc.or_(pc.greater_equal(amount, 0.0), pc.equal(amount, -1.0))),
            "field 2 (SalesAmountInEuro) should be an amount of at least 0, or -1 without a sale",
        ),
    )
    for valid, expected in tests:
        wrong = np.flatnonzero(~valid.to_numpy(zero_copy_only=False))
        if len(wrong):
            raise InvalidInput(f"{path.name}, line {first_line + int(wrong[0])}: {expected}")


def _explained(path: Path, message: str) -> str:
    """Return an error of pyarrow, in words that a user can act on."""
    row = re.search(r"Row #(\d+)", message)
    where = f"{path.name}, line {row[1]}" if row else path.name
    if fields := re.search(r"Expected 23 columns, got (\d+)", message):
        found = int(fields[1])
        more = " Is it comma-separated, or another file?" if found == 1 else " The file may be damaged or cut off."
        return f"{where}: expected 23 tab-separated fields (the Criteo log, no header), found {found}.{more}"
    if value := re.search(r"column #(\d+):.* to (\w+): invalid value '(.*)'", message, re.DOTALL):
        field = CRITEO_SCHEMA.field(int(value[1]))
        kind = "a whole number" if field.type == pa.int64() else "a number"
        header = " The file should not have a header line." if value[3] == field.name else ""
        return f"{where}: field {int(value[1]) + 1} ({field.name}) should be {kind}.{header}"
    return f"{where}: not a Criteo log of 23 tab-separated fields"
