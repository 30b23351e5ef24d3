"""Exact sums on the workers: check the records of a partition and sum their labels over cells and against signs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.engines.batches import label_numbers, outside
from labeldp.engines.passes import Integers, add_over_cells, centre_of, signed_sums, units_of
from labeldp.engines.spark.guard import Batches
from labeldp.engines.spark.sealed import new_key, sealed

COUNTED = ("records", "clipped", "not_whole", "missing_labels", "not_finite")
"""What is counted in every partition."""
TABLES = ("cells", "signs", "faults")
"""Tables of two rows of int64: sums and counts of cells, those of signs, and of every public column the records where it is missing or
cannot be used."""
SCHEMA = pa.schema([*((name, pa.int64()) for name in COUNTED), *((name, pa.binary()) for name in TABLES)])
"""What a task has found. It leaves the worker sealed, in one column."""
DDL = "sealed binary"


@dataclass(frozen=True)
class SumTask:
    """Gives one sealed row per partition. Its size depends on the numbers of cells and columns only: the event log shows it.

    The first column of a batch holds labels, then come those of cells and those of signs.

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
    seal : bytes
        The key under which the row goes to the driver. By default a new one.
    """

    grid: Domain
    lower: int
    upper: int
    sizes: tuple[int, ...]
    signs: int
    seal: bytes = field(default_factory=new_key, repr=False)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """The shapes of `TABLES`."""
        columns = (sum(self.sizes), self.signs, len(self.sizes) + self.signs)
        return {name: (2, number) for name, number in zip(TABLES, columns, strict=True)}

    def __call__(self, batches: Batches) -> Batches:
        totals = dict.fromkeys(COUNTED, 0)
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
        columns = [pa.array([value], kind) for value, kind in zip(values, SCHEMA.types, strict=True)]
        yield pa.record_batch([[sealed(pa.record_batch(columns, schema=SCHEMA), self.seal)]], names=["sealed"])

    def _labels(self, column: pa.Array) -> tuple[Floats, dict[str, int]]:
        """The labels as float64, and what was counted. If one is missing or no number, there are none."""
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
        """Cells and signs as numbers, and how many of each column are missing or cannot be used."""
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
