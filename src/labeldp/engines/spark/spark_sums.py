"""`SparkSums`: a frame of labels and public columns, whose exact sums the driver gets from one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that

from labeldp.arrays import Floats
from labeldp.domain import Domain, OutOfRange
from labeldp.engines.batches import check_boolean_bounds, checked_labels, label_numbers, outside
from labeldp.engines.passes import ExactSums, Integers, add_over_cells, centre_of, signed_sums, units_of
from labeldp.engines.spark.frames import arrow_type, by_index, column_index
from labeldp.engines.spark.jobs import collected, job, nothing_charged
from labeldp.engines.spark.session import check_encryption, check_frame
from labeldp.engines.spark.spark_input import refuse_faults
from labeldp.engines.spark.worker import Batches, encrypted_row, new_result_key
from labeldp.errors import InvalidInput, described
from labeldp.formatting import count_of

SUM_COUNTS = ("records", "clipped", "not_whole", "missing_labels", "not_finite")
"""The counts of every partition."""
SUM_TABLES = ("cells", "signs", "faults")
"""Tables of two rows of int64: sums and counts of cells, sums and counts of signs, and for every public column the
numbers of records where it is missing or invalid."""
SUM_SCHEMA = pa.schema([*((name, pa.int64()) for name in SUM_COUNTS), *((name, pa.binary()) for name in SUM_TABLES)])
"""The row that a task returns, encrypted."""
_HERE = "the frame"
_GIVEN = "a key that opens exact sums of labels"


@dataclass(frozen=True)
class SumTask:
    """A task that returns one encrypted row per partition. The event log shows its size, which depends only on the numbers of cells and columns.

    The first column of a batch contains labels, followed by the columns of cells and the columns of signs.

    Attributes
    ----------
    grid : Domain
        The bounds and the grid.
    lower, upper : int
        The range to which units are clipped.
    sizes : tuple of int
        The number of cells of each column of cells.
    signs : int
        The number of columns of signs.
    result_key : bytes
        The key that encrypts the row for the driver. By default a new one.
    """

    grid: Domain
    lower: int
    upper: int
    sizes: tuple[int, ...]
    signs: int
    result_key: bytes = field(default_factory=new_result_key, repr=False)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """The shapes of `SUM_TABLES`."""
        columns = (sum(self.sizes), self.signs, len(self.sizes) + self.signs)
        return {name: (2, number) for name, number in zip(SUM_TABLES, columns, strict=True)}

    def __call__(self, batches: Batches) -> Batches:
        totals = dict.fromkeys(SUM_COUNTS, 0)
        tables = {name: np.zeros(shape, np.int64) for name, shape in self.shapes.items()}
        for batch in batches:
            labels, found = self._labels(batch.column(0))
            for name, count in ({"records": batch.num_rows} | found).items():
                totals[name] += count
            public, faults = self._public(batch.columns[1:])
            tables["faults"] += faults
            if labels.size == batch.num_rows and not faults.any():
                self._add(labels, public, tables)
        values = [*totals.values(), *(table.tobytes() for table in tables.values())]
        yield encrypted_row(values, SUM_SCHEMA, self.result_key)

    def _labels(self, column: pa.Array) -> tuple[Floats, dict[str, int]]:
        """Return the labels as float64, and counts. The labels are empty if one is missing or not a number."""
        if column.null_count:
            return np.empty(0), {"missing_labels": column.null_count}
        labels = label_numbers(column, self.grid.unit, "the labels")
        if bad := int(np.count_nonzero(~np.isfinite(labels))):
            return np.empty(0), {"not_finite": bad}
        found = {"clipped": int(np.count_nonzero(outside(labels, self.grid)))}
        if self.grid.whole:
            found["not_whole"] = int(np.count_nonzero(labels != np.rint(labels)))
        return labels, found

    def _public(self, columns: Sequence[pa.Array]) -> tuple[list[NDArray[np.integer]], Integers]:
        """Return cells and signs as numbers, and the number of missing and invalid ones in each column."""
        faults = np.zeros(self.shapes["faults"], np.int64)
        faults[0] = [column.null_count for column in columns]
        if faults.any():
            return [], faults
        numbers: list[NDArray[np.integer]] = [np.asarray(column) for column in columns]
        for place, column in enumerate(numbers):
            if place < len(self.sizes):
                bad = (column < 0) | (column >= self.sizes[place])
            else:
                bad = (column != 1) & (column != -1)
            faults[1, place] = np.count_nonzero(bad)
        return numbers, faults

    def _add(self, labels: Floats, public: list[NDArray[np.integer]], tables: dict[str, Integers]) -> None:
        units = units_of(labels, self.grid, self.lower, self.upper)
        sums, counts = tables["cells"]
        ends = np.cumsum(self.sizes, dtype=np.int64).tolist()
        for codes, size, end in zip(public, self.sizes, ends, strict=False):
            add_over_cells(sums[end - size : end], codes, units, self.lower)
            np.add.at(counts[end - size : end], codes.astype(np.intp), 1)
        if self.signs:
            signs = np.stack(public[len(self.sizes) :], axis=1).astype(np.int8)
            tables["signs"] += signed_sums(units, signs, centre_of(self.lower, self.upper))


@dataclass(frozen=True)
class SparkSums:
    """A `SumInput` over a Spark frame. The protocol documents the methods.

    Attributes
    ----------
    frame : DataFrame
        The frame with the columns.
    label_column : str
        The name of the label column.
    cells : mapping of str to int or None
        The columns of cell numbers, and the number of cells of each, if given.
    signs : tuple of str
        The columns of signs.
    """

    frame: DataFrame
    label_column: str
    cells: Mapping[str, int | None]
    signs: tuple[str, ...]
    allow_unencrypted: bool = False

    def __post_init__(self) -> None:
        check_frame(self.frame)
        if not self.cells and not self.signs:
            raise InvalidInput("there is nothing to sum over: give columns of cell numbers (cells) or of signs (signs)")
        for name in (self.label_column, *self._public):
            column_index(self.frame, name, _HERE)
        if self.label_column in self._public:
            raise InvalidInput(
                f"the label column {self.label_column!r} cannot be a column of cells or signs too: these are public"
            )
        for name in self._public:
            kind = arrow_type(self.frame, name, _HERE)
            if not pa.types.is_integer(kind):
                what = "cell numbers" if name in self.cells else "signs"
                raise InvalidInput(
                    f"{_HERE}: the column {name!r} contains {kind}, and {what} are whole numbers of an integer type. Convert it first"
                )
        for name, size in self.cells.items():
            if size is not None and (isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1):
                raise InvalidInput(
                    f"the number of cells of {name!r} must be a whole number of at least 1, got {described(size)}"
                )
        check_encryption(self.frame.sparkSession, allow_unencrypted=self.allow_unencrypted, secret=_GIVEN)

    @classmethod
    def of(
        cls,
        frame: DataFrame,
        label: str,
        cells: str | Sequence[str] | Mapping[str, int],
        signs: str | Sequence[str],
        *,
        allow_unencrypted: bool,
    ) -> SparkSums:
        """Make one from the user's columns: one name, several, or for cells the numbers of cells by name."""
        sizes = cells if isinstance(cells, Mapping) else dict.fromkeys(_names(cells, "cells"))
        return cls(frame, label, sizes, _names(signs, "signs"), allow_unencrypted)

    @property
    def sign_columns(self) -> int:
        return len(self.signs)

    def sizes(self) -> tuple[int, ...]:
        unknown = [name for name, size in self.cells.items() if size is None]
        found: dict[str, int] = {}
        if unknown:
            largest = self._select(unknown).agg(*(F.max(str(place)) for place in range(len(unknown))))
            with nothing_charged(), job(self.frame.sparkSession, 0, None):
                row = largest.collect()[0]
            # a column without cell numbers raises an error when its records are read
            found = {
                name: max(-1 if number is None else number, 0) + 1 for name, number in zip(unknown, row, strict=True)
            }
        return tuple(int(found[name] if size is None else size) for name, size in self.cells.items())

    def sum_labels(
        self, grid: Domain, lower: int, upper: int, sizes: tuple[int, ...], out_of_range: OutOfRange
    ) -> ExactSums:
        labels = pa.array([], arrow_type(self.frame, self.label_column, _HERE))
        checked_labels(labels, self.label_column, 0, _HERE, grid.unit)
        check_boolean_bounds(str(labels.type), grid)
        task = SumTask(grid, lower, upper, sizes, len(self.signs))
        with nothing_charged():
            totals, tables = _run(self._select([self.label_column, *self._public]), task)
        refuse_faults(totals, self.label_column, grid, out_of_range)
        self._refuse_public(tables["faults"], sizes)
        return ExactSums(
            grid, lower, upper, totals["records"], totals["clipped"], sizes, *tables["cells"], *tables["signs"]
        )

    @property
    def _public(self) -> tuple[str, ...]:
        return (*self.cells, *self.signs)

    def _select(self, names: Sequence[str]) -> DataFrame:
        """Return these columns, named by their index in the list."""
        places = [str(column_index(self.frame, name, _HERE)) for name in names]
        return by_index(self.frame).select(*(F.col(old).alias(str(new)) for new, old in enumerate(places)))

    def _refuse_public(self, faults: Integers, sizes: tuple[int, ...]) -> None:
        repair = "Drop or repair these records first"
        for place, name in enumerate(self._public):
            missing, bad = (int(count) for count in faults[:, place])
            if missing:
                raise InvalidInput(f"the column {name!r} is missing in {count_of(missing, 'record')}. {repair}")
            if bad and place < len(sizes):
                raise InvalidInput(
                    f"cell numbers in {name!r} must be from 0 to {sizes[place] - 1:,}, the number of cells minus one, but the values of "
                    f"{count_of(bad, 'record')} are not. {repair}"
                )
            if bad:
                raise InvalidInput(
                    f"signs must be +1 or −1, but the signs of {count_of(bad, 'record')} in {name!r} are not. {repair}"
                )


def _run(frame: DataFrame, task: SumTask) -> tuple[dict[str, int], dict[str, Integers]]:
    """Return counts and tables of all partitions, added up. They go from worker to driver without a shuffle."""
    totals = dict.fromkeys(SUM_COUNTS, 0)
    tables = {name: np.zeros(shape, np.int64) for name, shape in task.shapes.items()}
    result_bytes = sum(table.nbytes for table in tables.values())
    for result in collected(frame, task, SUM_SCHEMA, result_bytes):
        for name in SUM_COUNTS:
            totals[name] += result[name]
        for name in SUM_TABLES:
            tables[name] += np.frombuffer(result[name], np.int64).reshape(tables[name].shape)
    return totals, tables


def _names(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"{what} must be names of columns, got {described(given)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{what} names the column {twice!r} twice")
    return tuple(names)
