"""`cells.parquet`, the file that the features party sends: an id, and public columns of signs or cell numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.arrays import as_numpy
from labeldp.engines.batches import checked_ids
from labeldp.errors import InvalidInput, why_unreadable
from labeldp.release.grid_labels import MOST_SIGNS
from labeldp.tables.files import check_density, open_parquet, rows_in

MOST_PARTITIONS = 1000
"""The maximum number of columns of cell numbers. Each gets an equal part of ε, so useful numbers are much smaller."""

SUMMED_CELLS = 1_000_000
"""The maximum total number of cells. Drawing noise for all of them takes 10 to 30 s, after the charge."""

MOST_NUMBERS = 1 << 31
"""The maximum number of values in a file: they must fit into memory."""

PER_LABEL = 100
"""The maximum number of records per label, except in small files. Nearly all records would not have a label."""

FEW_RECORDS = 1_000_000
"""A number of records that is always allowed, even with few labels."""

READ_AT_ONCE = 1 << 24
"""The approximate number of values that are read at once. Columns are stored as small integers afterwards."""


@dataclass(frozen=True, eq=False)
class CellColumns:
    """Columns for sums, by kind: columns of −1 and +1 are signs, all others contain cell numbers from 0.

    Attributes
    ----------
    columns : list of array of int
        All columns.
    signs, whole : tuple of int
        The indices of the columns of signs, and of the columns of cell numbers.
    """

    columns: list[NDArray[np.integer]]
    signs: tuple[int, ...]
    whole: tuple[int, ...]

    @classmethod
    def of(cls, columns: Sequence[Any], names: Sequence[str] | None = None) -> CellColumns:
        """Check the columns. Errors name them, but never show a value.

        Parameters
        ----------
        columns : sequence of array of int
            One number for each record.
        names : sequence of str, optional
            Their names in errors.
        """
        called = [repr(name)[:60] for name in names] if names is not None else [str(i) for i in range(len(columns))]
        if not len(columns):
            raise InvalidInput("give at least one column of signs or cell numbers to sum over")
        given, signs, whole = [], [], []
        for place, (one, name) in enumerate(zip(columns, called, strict=True)):
            numbers = as_numpy(one, f"column {name}")
            if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
                raise InvalidInput(f"column {name} must contain one whole number for each record, of an integer type")
            given.append(numbers)
            if numbers.size and numbers.min() < 0:
                if not np.isin(numbers, (-1, 1)).all():
                    raise InvalidInput(f"column {name} must contain either −1 and +1 only, or cell numbers from 0")
                signs.append(place)
            elif (numbers == 1).all():
                signs.append(place)
            else:
                whole.append(place)
        if len({one.size for one in given}) > 1:
            raise InvalidInput("all columns must have one number for each record")
        if len(signs) > MOST_SIGNS or len(whole) > MOST_PARTITIONS:
            raise InvalidInput(
                f"at most {MOST_SIGNS:,} columns of signs and {MOST_PARTITIONS:,} of cell numbers can be summed, got {len(signs):,} and "
                f"{len(whole):,}"
            )
        made = cls(given, tuple(signs), tuple(whole))
        if sum(made.sizes) > SUMMED_CELLS:
            most, place = max(zip(made.sizes, whole, strict=True))
            raise InvalidInput(
                f"the columns have {sum(made.sizes):,} cells in all, {most:,} of them in column {called[place]}, and at most "
                f"{SUMMED_CELLS:,} can be summed: number the cells of each column from 0 without gaps, or send coarser or fewer columns"
            )
        return made

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self.columns[0].size)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells in each column of cell numbers."""
        return tuple(int(self.columns[place].max()) + 1 for place in self.whole)

    @property
    def single(self) -> int:
        """The number of cells with a single record."""
        return sum(int(np.count_nonzero(np.bincount(self.columns[place]) == 1)) for place in self.whole)

    @property
    def groups(self) -> int:
        """The number of equal shares of ε: one for all signs together, and one for each column of cell numbers."""
        return bool(self.signs) + len(self.whole)

    def table_of_signs(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.int8]:
        """Return the columns of signs side by side, of all records or of these."""
        columns = [self.columns[place] for place in self.signs]
        return np.column_stack([(one if rows is None else one[rows]).astype(np.int8) for one in columns])


@dataclass(frozen=True, eq=False)
class CellsFile:
    """The ids and the columns of a file of cells.

    Attributes
    ----------
    path : Path
        The file.
    id_column : str
        The name of its first column, which contains the ids.
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
    def read(cls, path: Path, id_type: str | None = None, labels: int | None = None) -> CellsFile:
        """Read and check a Parquet file whose first column contains ids and whose others contain whole numbers.

        Parameters
        ----------
        path : Path
            The file.
        id_type : {"int", "str"}, optional
            Convert the ids to this type.
        labels : int, optional
            The number of labels. A file with far more records is rejected before it is read.
        """
        if not path.is_file():
            raise InvalidInput(f"there is no file {path}: check the path")
        try:
            with open_parquet(path, piecewise=True) as parquet:
                rows = rows_in(parquet.metadata)
                check_density(rows, path)
                _check_size(rows, parquet.metadata.num_columns, labels, path)
                names = parquet.schema_arrow.names
                _check_schema(parquet.schema_arrow, path)
                ids = checked_ids(_read(parquet, names[:1], rows, path)[0], names[0], 0, path, id_type)
                given, step = [], max(1, READ_AT_ONCE // rows)
                for start in range(1, len(names), step):
                    some = names[start : start + step]
                    columns = _read(parquet, some, rows, path)
                    given += [_numbers(column, name, path) for column, name in zip(columns, some, strict=True)]
        except InvalidInput:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"cannot read {path}: {why_unreadable(error)}. It must be the cells.parquet that labeldp cells wrote"
            ) from None
        try:
            checked = CellColumns.of(given, names[1:])
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None
        return cls(path, names[0], ids, tuple(names[1:]), checked)


def write_cells(table: pa.Table, path: Path) -> None:
    """Write the file to send, without metadata from the program that made the features."""
    pq.write_table(table.replace_schema_metadata(None), path, compression="zstd")


def _check_size(rows: int, columns: int, labels: int | None, path: Path) -> None:
    """Raise `InvalidInput` for an unsuitable file, judged by its footer, before anything is read."""
    if rows < 1:
        raise InvalidInput(f"{path} contains no records: ask the features party for the file again")
    if columns < 2:
        raise InvalidInput(f"{path} must have a column of ids and at least one column of signs or cell numbers")
    if columns - 1 > MOST_SIGNS + MOST_PARTITIONS:
        raise InvalidInput(
            f"{path} has {columns:,} columns, and at most {MOST_SIGNS:,} of signs and {MOST_PARTITIONS:,} of cell numbers can be summed: "
            "ask for fewer"
        )
    if rows * columns > MOST_NUMBERS:
        raise InvalidInput(
            f"{path} has {rows * columns:,} numbers, more than the {MOST_NUMBERS:,} that are read: ask for fewer columns"
        )
    if labels is not None and rows > max(FEW_RECORDS, PER_LABEL * labels):
        raise InvalidInput(
            f"{path} has {rows:,} records, and there are {labels:,} labels: is it the right file? Ask the features party for cells of "
            "the records that have labels"
        )


def _check_schema(schema: pa.Schema, path: Path) -> None:
    name, times = Counter(schema.names).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"{path} has several columns named {name!r:.60}: rename all but one")
    if pa.types.is_nested(schema.types[0]):
        raise InvalidInput(
            f"{path}: the first column, {schema.names[0]!r:.60}, contains {schema.types[0]!s:.60}. It must contain ids, integers or text"
        )
    for field in list(schema)[1:]:
        if not pa.types.is_integer(field.type):
            raise InvalidInput(
                f"{path}: the column {field.name!r:.60} contains {field.type}. The first column contains ids, and all others must contain whole "
                "numbers: signs (−1 and +1) or cell numbers from 0"
            )


def _read(parquet: pq.ParquetFile, names: list[str], rows: int, path: Path) -> list[pa.Array]:
    """Return these columns, each with the number of rows in the footer."""
    table = parquet.read(names)
    if table.num_rows != rows:
        raise InvalidInput(f"{path} is damaged: a column does not have {rows:,} rows. Copy the file again")
    wholes = [table.column(name).combine_chunks() for name in names]
    return [pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one for one in wholes]


def _numbers(column: pa.Array, name: str, path: Path) -> np.ndarray:
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise InvalidInput(
            f"{path}: the column {name!r:.60} lacks a number in row {row + 1} (rows count from 1). Ask for cells that labeldp cells wrote"
        )
    numbers = np.asarray(column)
    low, high = int(numbers.min()), int(numbers.max())
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return numbers.astype(kind)
    return numbers
