"""Parquet, Arrow, CSV and TSV files in record batches of bounded size. The last two may be gzip-compressed."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv
from pyarrow import ipc

from labeldp.engines.arrow import text
from labeldp.errors import InvalidInput
from labeldp.parquet_file import open_parquet

BATCH_ROWS = 1 << 19
BATCH_BYTES = 1 << 26
"""A batch has at most `BATCH_ROWS` rows, and at most about `BATCH_BYTES` bytes if the ids are long."""

MAPPED_BATCH = 1 << 28
"""An Arrow file whose batches are larger on average is memory-mapped, since a batch might not fit into memory."""
BLOCK_BYTES = 1 << 24
"""Of text files. A record must fit into one or two of them."""


def read_parquet(file: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    """These columns of a Parquet file."""
    with open_parquet(file, piecewise=True) as parquet:
        require_columns(wanted, parquet.schema_arrow.names, file)
        yield from parquet.iter_batches(_rows_in_bytes(parquet.metadata), columns=wanted)


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
                yield from _pieces(_sound(batch.select(wanted), file))
            return
        names = reader.schema.names
        require_columns(wanted, names, file)
        options = ipc.IpcReadOptions(included_fields=[names.index(name) for name in wanted])
        large = file.stat().st_size > MAPPED_BATCH * max(1, reader.num_record_batches)
        with pa.memory_map(str(file)) if large else pa.OSFile(str(file)) as again:
            narrow = ipc.open_file(again, options=options)
            for number in range(narrow.num_record_batches):
                yield from _pieces(_sound(narrow.get_batch(number).select(wanted), file))


def read_text(
    file: Path, delimiter: str | None, wanted: list[str], *, number: str | None, decimal: str = "."
) -> Iterator[pa.RecordBatch]:
    """Read these columns: `number` as float64, or as booleans if it has nothing else, and all others as text.

    No type is guessed, and no other column is decoded. Without a delimiter, the header line shows it. Errors name rows and
    columns, never a value.
    """
    sign = text.delimiter_of(file) if delimiter is None else delimiter
    names = text.header(file, sign)
    text.refuse_missing_header(file, wanted, names)
    require_columns(wanted, names, file)
    said, begun = None, False
    for kind in (pa.float64(), pa.bool_()):
        said_before = said
        try:
            for batch in _text_batches(file, sign, wanted, number, kind, decimal):
                begun = True
                yield batch
        except pa.ArrowInvalid as error:
            said = said_before or str(error)
        else:
            return
        if begun or "conversion error to double" not in said:
            break
    # The rest is outside of the except clause: Arrow's text may show labels, and an error raised there would carry it along.
    if "conversion error to double" in str(said):
        raise InvalidInput(
            f"cannot read {file}: the label column {number!r} must have numbers only, with {decimal!r} for decimals (--decimal)"
        )
    raise InvalidInput(f"cannot read {file}: {text.problem(str(said), file, sign)}")


def require_columns(wanted: list[str], names: list[str], file: Path | str) -> None:
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
                if not any(map(text.looks_like_data, names))
                else f"Its first line has {len(names)} entries that look like data: it needs a header line with column names."
            )
            raise InvalidInput(f"{file} has no column {name!r}. {hint}")


def magic(file: Path) -> bytes:
    """The first four bytes, by which formats mark their files."""
    with file.open("rb") as opened:
        return opened.read(4)


def _sound(batch: pa.RecordBatch, file: Path) -> pa.RecordBatch:
    """The batch, if its buffers hold what they say. Arrow maps them as they are, and would read beyond them otherwise."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:  # its text may show a value
        raise InvalidInput(f"cannot read {file}: its content contradicts itself. Is the file undamaged?") from None
    return batch


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    bytes_per_row = batch.get_total_buffer_size() // max(1, batch.num_rows)
    step = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, bytes_per_row)))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _rows_in_bytes(metadata: Any) -> int:
    """How many rows a batch may have, from the row group whose rows are widest.

    All columns count, since pyarrow ends the process (`std::terminate`) where it is asked for the metadata of one that is damaged.
    """
    widest = 1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows > 0:
            widest = max(widest, group.total_byte_size // group.num_rows)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // widest))


def _text_batches(
    file: Path, delimiter: str, wanted: list[str], number: str | None, kind: pa.DataType, decimal: str
) -> Iterator[pa.RecordBatch]:
    types = {name: kind if name == number else pa.large_string() for name in wanted}
    several = (
        len(text.header(file, delimiter)) > 1
    )  # in a file of one column an empty line is a record without its label
    with pa.input_stream(str(file), compression="gzip" if text.is_packed(file) else None) as stream:
        yield from arrow_csv.open_csv(
            stream,
            read_options=arrow_csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=several
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=wanted,
                column_types=types,
                strings_can_be_null=False,
                decimal_point=decimal,
                true_values=text.TRUE,
                false_values=text.FALSE,
            ),
        )
