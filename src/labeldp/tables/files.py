"""Files of tables: their formats, some of their columns in batches of bounded size, and errors about damaged files.

Parquet files are opened so that a damaged file cannot take more memory than its size justifies.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from labeldp.errors import InvalidInput, why_unreadable
from labeldp.tables import csv_text

PARQUET_SUFFIXES = (".parquet", ".pq", ".parq")
BATCH_ROWS = 1 << 19
BATCH_BYTES = 1 << 26
"""A batch has at most `BATCH_ROWS` rows, and at most about `BATCH_BYTES` bytes if the ids are long."""
MAPPED_BATCH = 1 << 28
"""An Arrow file whose batches are larger on average is memory-mapped, since a batch might not fit into memory."""

WHOLE_BYTES = 1 << 25
"""A file up to this size is read as a whole. Its parts are then views, so none can be longer than the file."""

PIECE_BYTES = 1 << 20

ROWS_PER_BYTE = 16
"""The most rows per byte in a file of distinct ids. Consecutive ids, sorted and compressed with zstd, reach about 2. Equal ids
reach hundreds, because Parquet stores a repeated value as its number of repetitions."""

FEW_ROWS = 1 << 20
"""The limit on rows per byte does not apply to files with at most this number of rows."""

Progress = Callable[[int], None]
"""Called with the number of rows done since the last call."""
Phase = Callable[[str, int | None], Progress | None]
"""Called when a phase begins, with its name and its number of rows if known. Returns the callback for its progress."""


@contextmanager
def readable(
    file: Path, explain: Callable[[str], str] | None = None, advice: str = "Is the file complete and undamaged?"
) -> Iterator[None]:
    """Turn errors about a damaged file into `InvalidInput` that names the file and ends with `advice`.

    Arrow's messages may quote labels, so they are replaced. `explain` returns the whole message for the text of an
    error about the content of a text file.
    """
    try:
        yield
    except MemoryError as error:  # Arrow's is also an ArrowException
        raise InvalidInput(
            f"cannot read {file}: a part of it does not fit into memory. Is the file complete and undamaged? If so, use a "
            "machine with more memory, or write it in smaller row groups"
        ) from error
    except UnicodeDecodeError:  # from a name or metadata in the file; the error would contain the whole text
        raise InvalidInput(f"cannot read {file}: something in it is not UTF-8 text. Is the file undamaged?") from None
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        if explain is not None and isinstance(error, (pa.ArrowInvalid, pa.ArrowKeyError)):
            raise InvalidInput(explain(str(error))) from None
        raise InvalidInput(f"cannot read {file}: {why_unreadable(error)}. {advice}") from None


def read_columns(
    file: Path, wanted: list[str], delimiter: str | None, *, number: str | None = None, decimal: str = "."
) -> Iterator[pa.RecordBatch]:
    """Read these columns of one file, in batches of bounded size. In text files all but `number` are text."""
    found = table_format(file)
    if found.typed is None:
        sign = csv_text.delimiter_of(file) if delimiter is None else delimiter
        names = csv_text.header(file, sign)
        csv_text.refuse_missing_header(file, wanted, names)
        require_columns(wanted, names, file)
        return csv_text.read_csv(file, sign, wanted, several=len(names) > 1, number=number, decimal=decimal)
    return found.typed.read(file, wanted, None)


def count_records(file: Path, column: str, delimiter: str | None) -> int:
    """Return the number of rows: as the file states it, or by reading a column as text."""
    typed = table_format(file).typed
    stated = None if typed is None else typed.columns(file)[1]
    return sum(batch.num_rows for batch in read_columns(file, [column], delimiter)) if stated is None else stated


def estimate_records(file: Path) -> int | None:
    """Return the number of rows if it can be found without parsing them. For a text file it may be wrong: see `count_lines`."""
    typed = table_format(file).typed
    return csv_text.count_lines(file) if typed is None else typed.columns(file)[1]


def open_parquet(path: Path, *, piecewise: bool) -> pq.ParquetFile:
    """Open a Parquet file.

    Arrow allocates and fills the amount of memory that a header in the file requests, before it checks that the file
    has that size: 2.5 GB for a file of 1,270 bytes. So small files are read first and opened in memory.

    Parameters
    ----------
    path : Path
        The file.
    piecewise : bool
        Whether to read columns of a larger file in pieces, on demand, so that row groups need not fit into memory.
    """
    if path.stat().st_size <= WHOLE_BYTES:
        # In Arrow's memory, not in a Python object: an Arrow thread that frees Python's memory while Python exits
        # aborts the process, after all output, with exit code 134.
        with pa.OSFile(str(path)) as file:
            return pq.ParquetFile(pa.BufferReader(file.read_buffer()), pre_buffer=False)
    if piecewise:
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=PIECE_BYTES)
    return pq.ParquetFile(path)


def rows_in(metadata: pq.FileMetaData) -> int:
    """Return the number of rows in all row groups, which is the number that is read. The total in the footer is unchecked."""
    return sum(max(0, metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups))


def check_density(rows: int, path: Path) -> None:
    """Raise `InvalidInput` if a file of distinct ids is too small for its number of rows."""
    size = path.stat().st_size
    if rows > max(FEW_ROWS, ROWS_PER_BYTE * size):
        raise InvalidInput(
            f"{path} has {rows:,} rows in {size:,} bytes, which is too small for a different id in each row. The file is damaged or was "
            "forged: ask the sender for it again"
        )


def _parquet_columns(file: Path) -> tuple[pa.Schema, int]:
    with open_parquet(file, piecewise=True) as parquet:
        return parquet.schema_arrow, int(parquet.metadata.num_rows)


def read_parquet(file: Path, wanted: list[str], rows: int | None) -> Iterator[pa.RecordBatch]:
    """Read these columns of a Parquet file, with at most `rows` rows in a batch."""
    with open_parquet(file, piecewise=True) as parquet:
        require_columns(wanted, parquet.schema_arrow.names, file)
        for batch in parquet.iter_batches(rows or _rows_in_bytes(parquet.metadata), columns=wanted):
            yield batch.select(wanted)


def _ipc_columns(file: Path) -> tuple[pa.Schema, None]:
    with pa.OSFile(str(file)) as opened:
        return _ipc_reader(opened)[0].schema, None


def _read_ipc(file: Path, wanted: list[str], rows: int | None) -> Iterator[pa.RecordBatch]:  # noqa: ARG001 - features are cut later
    """Read these columns of an Arrow IPC file (Feather) or stream."""
    with pa.OSFile(str(file)) as opened:
        reader, is_stream = _ipc_reader(opened)
        names = reader.schema.names
        require_columns(wanted, names, file)
        if is_stream:
            for batch in reader:
                yield from _pieces(_sound(batch.select(wanted), file))
            return
        options = ipc.IpcReadOptions(included_fields=[names.index(name) for name in wanted])
        large = file.stat().st_size > MAPPED_BATCH * max(1, reader.num_record_batches)
        with pa.memory_map(str(file)) if large else pa.OSFile(str(file)) as again:
            narrow = ipc.open_file(again, options=options)
            for number in range(narrow.num_record_batches):
                yield from _pieces(_sound(narrow.get_batch(number).select(wanted), file))


def require_columns(wanted: Sequence[str], names: Sequence[str], where: object, advice: str = "") -> None:
    """Raise `InvalidInput`, with `advice`, if a column is missing, or if its name is not unique.

    Names that look like data are not shown: the file may lack a header line.
    """
    for name in wanted:
        if list(names).count(name) > 1:
            raise InvalidInput(f"{where} has {list(names).count(name)} columns named {name!r}: rename all but one")
        if name not in names:
            others = [other for other in names if other not in wanted]  # the id column is not a likely label
            shown = [other for other in others if not csv_text.looks_like_data(other)]
            close = get_close_matches(name, shown, n=3, cutoff=0.4)
            hint = (
                f"Did you mean {' or '.join(map(repr, close))}?"
                if close
                else f"It has {', '.join(map(repr, names[:20]))}."
                if len(shown) == len(others)
                else f"Its first line has {len(names)} entries that look like data: it needs a header line with column names."
            )
            raise InvalidInput(f"{where} has no column {name!r}{advice}. {hint}")


def _ipc_reader(opened: Any) -> tuple[Any, bool]:
    """Return the reader of an IPC file or stream, and whether it is a stream."""
    try:
        return ipc.open_file(opened), False
    except pa.ArrowInvalid:
        opened.seek(0)
        return ipc.open_stream(opened), True


def _sound(batch: pa.RecordBatch, file: Path) -> pa.RecordBatch:
    """Return the batch if its buffers are consistent. Arrow maps them unchecked, and could read out of bounds."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:  # its message may quote a value
        raise InvalidInput(f"cannot read {file}: its content contradicts itself. Is the file undamaged?") from None
    return batch


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    bytes_per_row = batch.get_total_buffer_size() // max(1, batch.num_rows)
    step = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, bytes_per_row)))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _rows_in_bytes(metadata: Any) -> int:
    """Return the maximum number of rows per batch, from the row group with the widest rows.

    All columns count, since pyarrow ends the process (`std::terminate`) on a request for the metadata of a damaged one.
    """
    widest = 1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows > 0:
            widest = max(widest, group.total_byte_size // group.num_rows)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // widest))


@dataclass(frozen=True)
class Typed:
    """How to read a format whose files state the types of their columns.

    Attributes
    ----------
    columns : callable
        Returns the columns of a file, and its number of rows if the file states it.
    read : callable
        Reads columns of a file in batches of bounded size, with at most a given number of rows.
    """

    columns: Callable[[Path], tuple[pa.Schema, int | None]]
    read: Callable[[Path, list[str], int | None], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class TableFormat:
    """A format of tables: an entry of `FORMATS`.

    Attributes
    ----------
    suffixes : tuple of str
        The suffixes of file names that identify the format.
    advised : str
        The suffixes that errors suggest.
    typed : Typed or None
        How to read it. None is for text with a header line and delimiters (`csv_text`), whose values are untyped.
    first_bytes : bytes or None
        The first bytes that identify a file with an unknown suffix.
    """

    suffixes: tuple[str, ...]
    advised: str
    typed: Typed | None
    first_bytes: bytes | None = None


FORMATS = (
    TableFormat(PARQUET_SUFFIXES, ".parquet", Typed(_parquet_columns, read_parquet), b"PAR1"),
    TableFormat(tuple(csv_text.TEXT_SUFFIXES), ".csv, .tsv (these two also with .gz)", None),
    TableFormat((".arrow", ".feather", ".ipc", ".arrows"), ".arrow or .feather", Typed(_ipc_columns, _read_ipc)),
)
"""All formats of files, for labels and for features."""


def table_format(file: Path) -> TableFormat:
    """Return the format of a file, from its name or its first bytes."""
    suffix = csv_text.file_format(file)
    for one in FORMATS:
        if suffix in one.suffixes:
            return one
    with file.open("rb") as opened:
        start = opened.read(16)
    for one in FORMATS:
        if one.first_bytes is not None and start.startswith(one.first_bytes):
            return one
    advised = ", ".join(one.advised for one in FORMATS)
    raise InvalidInput(f"cannot tell the format of {file}: name it {advised}")


def is_text(file: Path) -> bool:
    """Return whether the values of a file are text without types: then an empty id is missing, and errors name lines."""
    return table_format(file).typed is None
