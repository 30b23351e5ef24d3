"""`SparkSums`: a frame of labels and public columns, whose exact sums the driver gets from one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it that

from labeldp.domain import Domain, OutOfRange
from labeldp.engines.batches import check_boolean_bounds, checked_labels
from labeldp.engines.passes import ExactSums, Integers
from labeldp.engines.spark import summing
from labeldp.engines.spark.cluster import check_encryption, check_frame
from labeldp.engines.spark.columns import arrow_type, numbered, place_of
from labeldp.engines.spark.faults import refuse_label_faults
from labeldp.engines.spark.jobs import few_results, job, mapped, nothing_charged
from labeldp.engines.spark.sealed import unsealed
from labeldp.engines.spark.summing import COUNTED, TABLES, SumTask
from labeldp.errors import InvalidInput, described
from labeldp.shown import count_of

_HERE = "the frame"
_GIVEN = "a key that opens exact sums of labels"


@dataclass(frozen=True)
class SparkSums:
    """A `SumInput` over a Spark frame. See there for what the methods promise.

    Attributes
    ----------
    frame : DataFrame
        Where the columns are.
    label_column : str
        The name of the label column.
    cells : mapping of str to int or None
        The columns of cell numbers, and how many cells each has, where that was given.
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
            place_of(self.frame, name, _HERE)
        if self.label_column in self._public:
            raise InvalidInput(
                f"the label column {self.label_column!r} cannot be a column of cells or signs too: these are public"
            )
        for name in self._public:
            kind = arrow_type(self.frame, name, _HERE)
            if not pa.types.is_integer(kind):
                what = "cell numbers" if name in self.cells else "signs"
                raise InvalidInput(
                    f"{_HERE}: the column {name!r} holds {kind}, and {what} are whole numbers of an integer type. Convert it first"
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
        """From the columns as users name them: one name, several, or for cells the numbers of cells by name."""
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
            # a column without a cell number in it is refused when its records are read
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
        refuse_label_faults(totals, self.label_column, grid, out_of_range)
        self._refuse_public(tables["faults"], sizes)
        return ExactSums(
            grid, lower, upper, totals["records"], totals["clipped"], sizes, *tables["cells"], *tables["signs"]
        )

    @property
    def _public(self) -> tuple[str, ...]:
        return (*self.cells, *self.signs)

    def _select(self, names: Sequence[str]) -> DataFrame:
        """These columns, called by their places in the list."""
        places = [str(place_of(self.frame, name, _HERE)) for name in names]
        return numbered(self.frame).select(*(F.col(old).alias(str(new)) for new, old in enumerate(places)))

    def _refuse_public(self, faults: Integers, sizes: tuple[int, ...]) -> None:
        repair = "Drop or repair these records first"
        for place, name in enumerate(self._public):
            missing, bad = (int(count) for count in faults[:, place])
            if missing:
                raise InvalidInput(f"the column {name!r} is missing in {count_of(missing, 'record')}. {repair}")
            if bad and place < len(sizes):
                raise InvalidInput(
                    f"cell numbers in {name!r} must be from 0 to {sizes[place] - 1:,}, the number of cells less one, but those of "
                    f"{count_of(bad, 'record')} are not. {repair}"
                )
            if bad:
                raise InvalidInput(
                    f"signs must be +1 or −1, but those of {count_of(bad, 'record')} in {name!r} are not. {repair}"
                )


def _run(frame: DataFrame, task: SumTask) -> tuple[dict[str, int], dict[str, Integers]]:
    """Counts and tables of all partitions, added up. They go from worker to driver, through no shuffle."""
    totals = dict.fromkeys(COUNTED, 0)
    tables = {name: np.zeros(shape, np.int64) for name, shape in task.shapes.items()}
    result_bytes = sum(table.nbytes for table in tables.values())
    with job(frame.sparkSession, 0, None):
        returned = mapped(few_results(frame, result_bytes), task, summing.DDL).collect()
    for row in returned:
        result = unsealed(row["sealed"], task.seal, summing.SCHEMA)
        for name in COUNTED:
            totals[name] += result[name]
        for name in TABLES:
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
