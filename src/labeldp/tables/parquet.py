"""Parquet files, opened so that a damaged one takes no more memory than its size justifies."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import InvalidInput

WHOLE_BYTES = 1 << 25
"""A file up to this size is read as a whole. Its parts are then views, and none can be longer than the file."""

PIECE_BYTES = 1 << 20

ROWS_PER_BYTE = 16
"""The most rows per byte in a file of distinct ids. Consecutive ids, sorted and compressed with zstd, reach about 2. Equal ids
reach hundreds, because Parquet stores a repeated value as its number of repetitions."""

FEW_ROWS = 1 << 20
"""The limit on rows per byte does not apply to files with at most this number of rows."""


def open_parquet(path: Path, *, piecewise: bool) -> pq.ParquetFile:
    """Open a Parquet file.

    Arrow reserves, and fills, as much memory as a header in the file asks for before it looks whether that many bytes are there.
    That was 2.5 GB for a file of 1,270 bytes. So small files are read first and opened in memory.

    Parameters
    ----------
    path : Path
        The file.
    piecewise : bool
        Whether columns of a larger file are read in pieces as they are needed, so that no row group has to fit into memory.
    """
    if path.stat().st_size <= WHOLE_BYTES:
        # In Arrow's memory and not in a Python object: a thread of Arrow that lets go of Python's memory while Python exits aborts
        # the process, after all output and with exit code 134.
        with pa.OSFile(str(path)) as file:
            return pq.ParquetFile(pa.BufferReader(file.read_buffer()), pre_buffer=False)
    if piecewise:
        return pq.ParquetFile(path, pre_buffer=False, buffer_size=PIECE_BYTES)
    return pq.ParquetFile(path)


def rows_in(metadata: pq.FileMetaData) -> int:
    """Return the number of rows in all row groups, which is what a read gives. Nothing checks the total in the footer."""
    return sum(max(0, metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups))


def check_density(rows: int, path: Path) -> None:
    """Raise `InvalidInput` if a file of distinct ids is too small for its number of rows."""
    size = path.stat().st_size
    if rows > max(FEW_ROWS, ROWS_PER_BYTE * size):
        raise InvalidInput(
            f"{path} has {rows:,} rows in {size:,} bytes, which is too small for a different id in each row. The file is damaged or was "
            "forged: ask the sender for it again"
        )
