"""Tables of features from files: Parquet (a file or a folder of parts), CSV, TSV (plain or gzip), Arrow IPC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp.engines.arrow.source import IPC_SUFFIXES, PARQUET_SUFFIXES, TEXT_SUFFIXES
from labeldp.errors import InvalidInput
from labeldp.training.tables import closest


def read_table(path: Path) -> pa.Table:
    """The whole table. Errors name the file and what is wrong with it."""
    if not path.exists():
        raise InvalidInput(f"there is no file {path}")
    try:
        if path.is_dir():
            import pyarrow.parquet as pq

            return pq.read_table(path)
        return _reader(path)(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {str(error).splitlines()[0]}") from error


def column(table: pa.Table, name: str, path: Path) -> pa.ChunkedArray:
    """One column of the table that was read from `path`."""
    if table.schema.names.count(name) > 1:
        raise InvalidInput(f"{path} has several columns named {name!r}: rename all but one")
    if name not in table.schema.names:
        raise InvalidInput(f"{path} has no column {name!r}{closest(name, table.schema.names)}")
    return table.column(name)


def _reader(path: Path) -> Any:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in TEXT_SUFFIXES:
        from pyarrow import csv

        options = csv.ParseOptions(delimiter=TEXT_SUFFIXES[suffix])
        return lambda file: csv.read_csv(file, parse_options=options)
    if suffix in IPC_SUFFIXES:
        from pyarrow import feather

        return feather.read_table
    if suffix in PARQUET_SUFFIXES:
        import pyarrow.parquet as pq

        return pq.read_table
    raise InvalidInput(f"cannot tell what {path} is: name it .parquet, .csv, .tsv (these also with .gz) or .arrow")
