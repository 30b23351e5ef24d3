"""Parquet files, opened so that a damaged file cannot take more memory than its size justifies."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import InvalidInput

WHOLE_BYTES = 1 << 25
"""A file up to this size is read as a whole. Its parts are then views, so none can be longer than the file."""

PIECE_BYTES = 1 << 20

ROWS_PER_BYTE = 16
"""The most rows per byte in a file of distinct ids. Consecutive ids, sorted and compressed with zstd, reach about 2. Equal ids
reach hundreds, because Parquet stores a repeated value as its number of repetitions."""

FEW_ROWS = 1 << 20
"""The limit on rows per byte does not apply to files with at most this number of rows."""


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
