"""Parquet, Arrow, CSV and TSV files in record batches of bounded size. The last two may be gzip-compressed."""

import csv
import gzip
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv
from pyarrow import ipc

from labeldp.engines.columns import first_line
from labeldp.errors import InvalidInput

BATCH_ROWS = 1 << 19
BATCH_BYTES = 1 << 26
"""A batch has at most `BATCH_ROWS` rows, and at most about `BATCH_BYTES` bytes if the ids are long."""

MAPPED_BATCH = 1 << 28
"""An Arrow file whose batches are larger on average is memory-mapped, since a batch might not fit into memory."""
BLOCK_BYTES = 1 << 24


def read_parquet(file: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    """These columns of a Parquet file."""
    with pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20) as parquet:
        require_columns(wanted, parquet.schema_arrow.names, file)
        yield from parquet.iter_batches(_rows_in_bytes(parquet.metadata, wanted), columns=wanted)


def parquet_rows(file: Path) -> int:
    """The number of rows, from the file's metadata."""
    return int(pq.read_metadata(file).num_rows)


def read_ipc(file: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    """These columns of an Arrow IPC file (Feather) or stream."""
    with pa.OSFile(str(file)) as opened:
        try:
            reader: Any = ipc.open_file(opened)
        except pa.ArrowInvalid:
            opened.seek(0)
            reader = ipc.open_stream(opened)
            require_columns(wanted, reader.schema.names, file)
            for batch in reader:
                yield from _pieces(batch.select(wanted))
            return
        names = reader.schema.names
        require_columns(wanted, names, file)
        options = ipc.IpcReadOptions(included_fields=[names.index(name) for name in wanted])
        large = file.stat().st_size > MAPPED_BATCH * max(1, reader.num_record_batches)
        with pa.memory_map(str(file)) if large else pa.OSFile(str(file)) as again:
            narrow = ipc.open_file(again, options=options)
            for number in range(narrow.num_record_batches):
                yield from _pieces(narrow.get_batch(number).select(wanted))


def read_text(file: Path, delimiter: str, wanted: list[str], *, number: str | None) -> Iterator[pa.RecordBatch]:
    """These columns: `number` as float64, all others as text. No type is guessed, and no other column is decoded."""
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


def require_columns(wanted: list[str], names: list[str], file: Path) -> None:
    """Refuses a file without one of the wanted columns, or with two of the same name."""
    for name in wanted:
        if names.count(name) > 1:
            raise InvalidInput(f"{file} has {names.count(name)} columns named {name!r}: rename all but one")
        if name not in names:
            others = [other for other in names if other not in wanted]  # the id column is not a likely label
            close = get_close_matches(name, others, n=3, cutoff=0.4)
            hint = (
                f"Did you mean {' or '.join(map(repr, close))}?"
                if close
                else f"It has {', '.join(map(repr, names[:20]))}."
            )
            raise InvalidInput(f"{file} has no column {name!r}. {hint}")


def magic(file: Path) -> bytes:
    """The first four bytes, by which formats mark their files."""
    with file.open("rb") as opened:
        return opened.read(4)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    bytes_per_row = batch.get_total_buffer_size() // max(1, batch.num_rows)
    step = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, bytes_per_row)))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _rows_in_bytes(metadata: Any, wanted: list[str]) -> int:
    """How many rows a batch may have, from the row group whose rows are widest."""
    widest = 1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows:
            chunks = (group.column(place) for place in range(group.num_columns))
            size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in wanted)
            widest = max(widest, size // group.num_rows)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // widest))


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
