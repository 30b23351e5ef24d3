"""Labels as whole numbers on a grid, and exact sums of them. Nothing here is private: these are the labels themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import as_numpy, offending_rows
from labeldp.central.answer import LARGEST_SUM, MOST_SUMS, centre_of, parts_of
from labeldp.domain import Domain, OutOfRange
from labeldp.errors import InvalidInput, described

FINE_CELLS = 2**20 + 1
"""The grid of a domain that has none. A fine one costs nothing, since the noise of a sum does not depend on it."""

MOST_SIGNS = 1 << 16
"""The most columns of signs in one answer."""

_ROWS = 1 << 14
"""Rows that are summed at a time. A sum of so many numbers below 2^33 stays below 2^53, where floats are exact."""

_ENTRIES = 1 << 16
"""Signs that are multiplied at a time, so few that BLAS starts no threads: with them, shared machines take 100 times as long."""

Integers = NDArray[np.int64]


class HeldLabels:
    """The labels of an experiment in grid units, clipped to a range that can only narrow.

    Privacy
    -------
    Every method returns exact sums, which are as sensitive as the labels.
    """

    def __init__(self, labels: Any, domain: Domain | tuple[float, float], out_of_range: OutOfRange) -> None:
        bounds = Domain.of(domain)
        values = bounds.check(labels, out_of_range)
        if values.size < 2:
            few = "there are no labels to sum" if values.size == 0 else "there is one label only"
            raise InvalidInput(f"{few}: sums are for at least two records. LabelRandomizer randomizes single labels")
        self.domain = bounds if bounds.cells is not None else bounds.with_cells(FINE_CELLS)
        self.records: int = values.size
        self.require_room(1)
        self.units: Integers = self.domain.cell(values).astype(np.int64)
        self.lower, self.upper = 0, self.domain.count - 1

    def require_room(self, grain: int) -> None:
        """Refuse sums that might leave int64."""
        if self.records * self.domain.count * grain >= LARGEST_SUM:
            raise InvalidInput(
                f"sums of {self.records:,} labels on a grid of {self.domain.count:,} cells may not fit into 64-bit integers: "
                "give the domain fewer cells"
            )

    def clip(self, lower: int, upper: int) -> None:
        """Clip all units to a range within the present one."""
        for name, value in (("lower", lower), ("upper", upper)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise InvalidInput(f"the {name} end of a clip is a whole number of grid units, got {described(value)}")
        if not self.lower <= lower <= upper <= self.upper:
            raise InvalidInput(
                f"a clip can only narrow: its ends must lie in order from {self.lower:,} to {self.upper:,}, got {described(lower)} "
                f"and {described(upper)}"
            )
        self.lower, self.upper = int(lower), int(upper)
        np.clip(self.units, self.lower, self.upper, out=self.units)

    def histogram(self, parts: int) -> Integers:
        """The number of labels in each of so many equal parts of the grid."""
        counts = np.bincount(parts_of(self.units, parts, self.domain.count), minlength=parts)
        return counts.astype(np.int64)

    def over_cells(self, codes: list[NDArray[np.integer]], sizes: tuple[int, ...]) -> Integers:
        """For each partition the sums of (unit − lower end of the clip) over its cells, one after the other."""
        sums = [np.zeros(size, np.int64) for size in sizes]
        for start in range(0, self.records, _ROWS):
            rows = slice(start, start + _ROWS)
            shifted = self.units[rows] - self.lower
            for one, partition in zip(sums, codes, strict=True):
                np.add.at(one, partition[rows].astype(np.intp), shifted)
        return np.concatenate(sums)

    def against_signs(self, signs: NDArray[np.integer], grain: int) -> tuple[Integers, Integers]:
        """Per column the sum of sign·(unit − centre)·grain, and the sum of the signs. Refuses anything but ±1.

        Each product is a float and exact: a partial sum is a whole number of at most 2^14·2^32 < 2^53 in size. The sums of
        blocks of rows are added as integers.
        """
        centre = centre_of(self.lower, self.upper)
        totals = np.zeros((2, signs.shape[1]), np.int64)
        rows = max(1, min(_ROWS, _ENTRIES // signs.shape[1]))
        for start in range(0, self.records, rows):
            block = signs[start : start + rows]
            wrong = (block != 1) & (block != -1)
            if wrong.any():
                bad = np.any((signs != 1) & (signs != -1), axis=1)
                raise InvalidInput(f"signs must be +1 or −1: {offending_rows(bad)} not")
            weights = np.ones((2, len(block)))
            weights[0] = self.units[start : start + rows] - centre
            totals += (weights @ block.astype(np.float64)).astype(np.int64)
        return totals[0] * grain, totals[1]


def checked_partitions(codes: Any, cells: Any, records: int) -> tuple[list[NDArray[np.integer]], tuple[int, ...]]:
    """Partitions as a list of arrays of cell numbers, and how many cells each has."""
    given = [_cell_numbers(one, records) for one in (codes if are_several(codes) else [codes])]
    if not given:
        raise InvalidInput("there is no partition to sum over")
    alike = np.ndim(cells) == 0 if isinstance(cells, np.ndarray) else not isinstance(cells, (list, tuple))
    sizes = [cells] * len(given) if alike else list(cells)
    if len(sizes) != len(given):
        raise InvalidInput(f"cells must be one number for each of the {len(given)} partitions, got {len(sizes)}")
    for number, (one, size) in enumerate(zip(given, sizes, strict=True)):
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            got = described(cells) if alike else f"{type(size).__name__} for partition {number}"
            raise InvalidInput(f"cells must be a whole number of at least 1, got {got}")
        outside = (one < 0) | (one >= size)
        if outside.any():
            raise InvalidInput(f"codes must be cell numbers from 0 to cells − 1: {offending_rows(outside)} outside")
    if sum(map(int, sizes)) > MOST_SUMS:
        raise InvalidInput(f"one answer has at most {MOST_SUMS:,} sums, and {sum(map(int, sizes)):,} were asked for")
    return given, tuple(map(int, sizes))


def are_several(codes: Any) -> bool:
    """Whether these are several partitions: a list of arrays, or an array with one row for each."""
    if isinstance(codes, np.ndarray):
        return codes.ndim == 2
    first = codes[0] if isinstance(codes, (list, tuple)) and codes else None
    return hasattr(first, "__len__") and not isinstance(first, (str, bytes))


def _cell_numbers(codes: Any, records: int) -> NDArray[np.integer]:
    numbers = as_numpy(codes, "codes")
    if numbers.ndim != 1:
        raise InvalidInput(f"codes must be one cell number for each record, got an array of shape {numbers.shape}")
    if numbers.dtype.kind not in "iu":
        raise InvalidInput(f"codes must be whole numbers of an integer type, got {numbers.dtype}: convert them first")
    if numbers.size != records:
        raise InvalidInput(
            f"codes must have one cell number for each of the {records:,} labels, got {numbers.size:,}. Several partitions are a "
            "list of such arrays, or an array with one row for each"
        )
    return numbers


def checked_signs(signs: Any, records: int) -> NDArray[np.integer]:
    """Signs as an array with a row for each record; whether they are ±1 is seen when they are summed."""
    try:
        table: NDArray[Any] = np.asarray(signs)
    except (TypeError, ValueError):
        raise InvalidInput("signs must be an array with a row for each record and a column for each sum") from None
    if table.ndim != 2 or table.shape[0] != records or not 1 <= table.shape[1] <= MOST_SIGNS:
        raise InvalidInput(
            f"signs must be an array with {records:,} rows, one for each label, and 1 to {MOST_SIGNS:,} columns, got shape {table.shape}"
        )
    if table.dtype.kind != "i":
        raise InvalidInput(f"signs must be signed integers, +1 or −1, got {table.dtype}: use np.int8")
    return table
