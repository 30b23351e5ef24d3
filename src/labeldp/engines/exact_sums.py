"""Exact sums of labels in whole numbers: what every engine computes from its records, and what it hands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.domain import Domain, OutOfRange

_ROWS = 1 << 14
"""Rows that are summed at a time. A sum of so many numbers below 2^33 stays below 2^53, where floats are exact."""

_ENTRIES = 1 << 16
"""Signs that are multiplied at a time, so few that BLAS starts no threads: with them, shared machines take 100 times as long."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class ExactSums:
    """What an engine has summed. `clipped` and both sums are as private as the labels; the rest is public.

    Attributes
    ----------
    domain : Domain
        The grid.
    lower, upper : int
        The range to which units were clipped.
    records : int
        The number of labels.
    clipped : int
        How many labels lie outside the domain.
    sizes : tuple of int
        The number of cells of each partition.
    cell_sums, cell_counts : array of int64
        For each cell the sum of (unit − lower) and the number of records, one partition after the other.
    sign_sums, sign_counts : array of int64
        For each column of signs the sum of sign·(unit − centre) and the sum of the signs.
    """

    domain: Domain
    lower: int
    upper: int
    records: int
    clipped: int
    sizes: tuple[int, ...]
    cell_sums: Integers
    cell_counts: Integers
    sign_sums: Integers
    sign_counts: Integers


class SumInput(Protocol):
    """Labels and public columns as an engine reads them. Errors name columns and numbers of records and show no label."""

    @property
    def sign_columns(self) -> int:
        """How many columns of signs there are."""

    def sizes(self) -> tuple[int, ...]:
        """How many cells each partition has: what was given, or the largest cell number and one. Reads no label."""

    def sum_labels(
        self, grid: Domain, lower: int, upper: int, sizes: tuple[int, ...], out_of_range: OutOfRange
    ) -> ExactSums:
        """All sums, from one pass over the labels. Refuses labels, cells and signs that cannot be summed."""


def units_of(labels: Floats, grid: Domain, lower: int, upper: int) -> Integers:
    """Finite labels in grid units, clipped."""
    return np.clip(grid.cell(labels).astype(np.int64), lower, upper)


def add_over_cells(sums: Integers, codes: NDArray[np.integer], units: Integers, lower: int) -> None:
    """Adds (unit − lower) of every record to the sum of its cell."""
    for start in range(0, units.size, _ROWS):
        rows = slice(start, start + _ROWS)
        np.add.at(sums, codes[rows].astype(np.intp), units[rows] - lower)


def signed_sums(units: Integers, signs: NDArray[np.integer], centre: int) -> Integers:
    """Two rows: per column the sum of sign·(unit − centre), and the sum of the signs, which must be ±1.

    Each product is a float and exact: a partial sum is a whole number of at most 2^14·2^32 < 2^53 in size. The sums of blocks of
    rows are added as integers.
    """
    totals = np.zeros((2, signs.shape[1]), np.int64)
    for rows in row_blocks(*signs.shape):
        weights = np.ones((2, units[rows].size))
        weights[0] = units[rows] - centre
        totals += (weights @ signs[rows].astype(np.float64)).astype(np.int64)
    return totals


def row_blocks(records: int, columns: int) -> list[slice]:
    """The rows of a table of signs, cut so that a block is summed exactly and in little memory."""
    rows = max(1, min(_ROWS, _ENTRIES // columns))
    return [slice(start, start + rows) for start in range(0, records, rows)]


def centre_of(lower: int, upper: int) -> int:
    """The whole number that signed sums subtract from each unit."""
    return (lower + upper) // 2
