"""CSV and TSV files, plain or gzip-compressed, as record batches."""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from labeldp.engines.arrow.files import require_columns
from labeldp.engines.columns import first_line
from labeldp.errors import InvalidInput

BLOCK_BYTES = 1 << 24


def read_text(file: Path, delimiter: str, wanted: list[str], *, number: str | None) -> Iterator[pa.RecordBatch]:
    """These columns: `number` as float64, all others as text. No type is guessed, and no other column is decoded."""
    from pyarrow import csv as arrow_csv

    packed = file.suffix.lower() == ".gz"
    require_columns(wanted, _header(file, delimiter, packed=packed), file)
    types = {name: pa.float64() if name == number else pa.large_string() for name in wanted}
    with pa.input_stream(str(file), compression="gzip" if packed else None) as stream:
        try:
            yield from arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES),
                parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=wanted, column_types=types, strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid as error:
            raise InvalidInput(f"cannot read {file}: {first_line(error)}. {_hint(str(error), number)}") from error


def _header(file: Path, delimiter: str, *, packed: bool) -> list[str]:
    with gzip.open(file, "rb") if packed else file.open("rb") as opened:
        start = opened.read(2)
    if start in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(f"{file} is UTF-16 text: save it as UTF-8")
    opener = gzip.open if packed else open
    try:
        with opener(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as text:
            header = next(csv.reader(text, delimiter=delimiter), None)
    except csv.Error as error:
        raise InvalidInput(f"cannot read the header line of {file}: {error}") from error
    if not header:
        raise InvalidInput(f"{file} is empty: it needs a header line with column names")
    return header


def _hint(error: str, number: str | None) -> str:
    if "conversion error to double" in error:
        return f"The label column {number!r} must hold numbers only, with a point for decimals."
    if "UTF8" in error:
        return "The ids must be UTF-8 text: save the file as UTF-8."
    if "straddling" in error or "out of sync" in error:
        return "Is there a quotation mark that is opened and never closed?"
    return "Every row needs the columns of the header line."
