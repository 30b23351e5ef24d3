"""Opens Parquet files so that a damaged one takes no more memory than its own size accounts for."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

WHOLE_BYTES = 1 << 25
"""A file up to this size is read as a whole. Its parts are then views, and none can be longer than the file."""

PIECE_BYTES = 1 << 20


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


def rows_in(parquet: pq.ParquetFile) -> int:
    """How many rows a read would give: those of all row groups, since nothing checks the total that a file states."""
    return sum(max(0, parquet.metadata.row_group(place).num_rows) for place in range(parquet.num_row_groups))
