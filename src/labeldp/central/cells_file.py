"""`cells.parquet`, the file that the features party sends: an id, and columns of signs or cell numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp.central.cell_columns import CellColumns
from labeldp.central.one_round import CellsPlan
from labeldp.engines.columns import checked_ids
from labeldp.errors import InvalidInput, why_unreadable
from labeldp.parquet_file import open_parquet

MOST_NUMBERS = 1 << 31
"""A file with more numbers than this is not read: they must fit into memory."""


@dataclass(frozen=True, eq=False)
class CellsFile:
    """The ids and the columns of a file of cells.

    Attributes
    ----------
    path : Path
        The file.
    id_column : str
        The name of its first column, which holds the ids.
    ids : pyarrow.Array
        The ids.
    names : tuple of str
        The names of the other columns.
    columns : CellColumns
        Their numbers.
    """

    path: Path
    id_column: str
    ids: pa.Array
    names: tuple[str, ...]
    columns: CellColumns

    @classmethod
    def read(cls, path: Path, id_type: str | None = None) -> CellsFile:
        """Read and check a Parquet file whose first column holds ids and whose others hold whole numbers."""
        if not path.is_file():
            raise InvalidInput(f"there is no file {path}")
        try:
            with open_parquet(path, piecewise=True) as parquet:
                numbers = parquet.metadata.num_rows * parquet.metadata.num_columns
                if numbers > MOST_NUMBERS:
                    raise InvalidInput(f"{path} has {numbers:,} numbers, more than the {MOST_NUMBERS:,} that are read")
                _check_schema(parquet.schema_arrow, path)
                table = parquet.read()
        except InvalidInput:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"cannot read {path}: {why_unreadable(error)}. It must be the cells.parquet that labeldp cells wrote"
            ) from None
        if not table.num_rows:
            raise InvalidInput(f"{path} holds no records")
        names = table.schema.names
        ids = checked_ids(_one(table.column(0)), names[0], 0, path, id_type)
        given = [_numbers(_one(table.column(place)), names[place], path) for place in range(1, len(names))]
        try:
            columns = CellColumns.of(given, names[1:])
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None
        return cls(path, names[0], ids, tuple(names[1:]), columns)


def cells_table(plan: CellsPlan, features: pa.Table, ids: pa.Array, id_column: str) -> pa.Table:
    """The ids and the columns to send, in the order of the ids, which says nothing about the file of features.

    Columns of signs are int8; names say nothing about the features.
    """
    sent = plan.columns(features)
    order = np.asarray(pc.array_sort_indices(ids))
    names = [f"c{place}" for place in range(len(sent))]
    if id_column in names:
        raise InvalidInput(f"the id column cannot be called {id_column!r}, as the columns to send are: rename it")
    return pa.table([ids.take(pa.array(order)), *(pa.array(one[order]) for one in sent)], [id_column, *names])


def write_cells(table: pa.Table, path: Path) -> None:
    """Write the file to send, without notes of any program that made the features."""
    pq.write_table(table.replace_schema_metadata(None), path, compression="zstd")


def _check_schema(schema: pa.Schema, path: Path) -> None:
    if len(schema) < 2:
        raise InvalidInput(f"{path} must have a column of ids and at least one column of signs or cell numbers")
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise InvalidInput(f"{path} has several columns named {name!r:.60}: rename all but one")
    for field in list(schema)[1:]:
        if not pa.types.is_integer(field.type):
            raise InvalidInput(
                f"{path}: the column {field.name!r:.60} holds {field.type}. The first column holds ids, and all others must hold whole "
                "numbers: signs (−1 and +1) or cell numbers from 0"
            )


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _numbers(column: pa.Array, name: str, path: Path) -> np.ndarray:
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise InvalidInput(f"{path}: the column {name!r:.60} has no number in row {row} (rows count from 0)")
    return np.asarray(column)
