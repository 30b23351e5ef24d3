"""Noisy sums by group, of several bounded numbers for each record or of its place in a histogram, with the exact ε that they cost.

`score` and `report` are made of them. Groups are public and every record is in one of them, so a label touches the sums of one group only and
groups cost nothing. Sums of numbers get cube noise, which is as small for several of them as Laplace noise would be for half as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import MAX_EPSILON
from labeldp.engines.passes import add_over_cells
from labeldp.errors import InvalidInput
from labeldp.release.noisy_sums import LARGEST_SUM, cube_variance, laplace_variance
from labeldp.release.private_sums import stored_integers
from labeldp.release.sums_draw import SumsBudget, noise_scale
from labeldp.sampling.integer_noise import WIDEST, add_laplace, check_cube, cube_noise

UNITS = 2**18
"""A number becomes a whole number from 0 to this, so that its rounding is far smaller than any noise."""
KINDS = {"numbers": UNITS, "histograms": 2, "hits": 1}
"""The kinds of sums, and the most by which replacing one label changes them."""


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Noisy sums: one row for each group, one column for each question. Contains no label.

    Attributes
    ----------
    kind : {"numbers", "histograms", "hits"}
        Sums of numbers that were mapped from their public ends to 0 … `UNITS`; or the numbers of labels in the cells of a grid; or the
        numbers of labels of one of two classes in the cells of public records.
    values : array of int64 of shape (groups, questions)
        The noisy sums.
    scale : float
        The scale of the noise: z has a probability proportional to e^(−max|z|/scale) for all sums of a group together if they are of
        numbers, and to e^(−|z|/scale) for each count.
    counts : array of int64
        The number of records in each group, which is public.
    ends : array of float64 of shape (groups, questions, 2)
        The public ends of each number; for counts those of each cell.
    """

    kind: str
    values: NDArray[np.int64]
    scale: float
    counts: NDArray[np.int64]
    ends: Floats

    def __post_init__(self) -> None:
        shape = self.values.shape
        if self.kind not in KINDS or len(shape) != 2 or not min(shape):
            raise InvalidInput("noisy sums by group need a kind, and a number for each group and question")
        if self.counts.shape != shape[:1] or self.counts.min() < 1 or self.ends.shape != (*shape, 2):
            raise InvalidInput(
                "noisy sums by group need the number of records of each group and the ends of each number"
            )
        if not np.isfinite(self.ends).all() or (self.ends[..., 0] > self.ends[..., 1]).any():
            raise InvalidInput("the ends of noisy sums must be finite numbers in order")
        if not 0 < self.scale <= WIDEST or self.sensitivity > MAX_EPSILON * Fraction(self.scale):
            raise InvalidInput("the scale of noisy sums is one that no sampler draws")
        if (abs(self.values) > LARGEST_SUM).any():
            raise InvalidInput("a noisy sum is larger than 2^61")
        if self.kind == "numbers":
            check_cube(shape[1], self.scale)

    @property
    def sensitivity(self) -> int:
        """The most by which replacing one label changes the exact sums: in their maximum for numbers, added up for counts."""
        return KINDS[self.kind]

    @property
    def epsilon_exact(self) -> Fraction:
        """What the sums cost: the sensitivity over the scale."""
        return self.sensitivity / Fraction(self.scale)

    @property
    def variance(self) -> float:
        """The variance of the noise of each value."""
        return (
            cube_variance(self.values.shape[1], self.scale) if self.kind == "numbers" else laplace_variance(self.scale)
        )

    @property
    def _unit(self) -> Floats:
        return (self.ends[..., 1] - self.ends[..., 0]) / (UNITS * self.counts[:, None])

    @property
    def means(self) -> Floats:
        """The noisy mean of each number in each group."""
        return self.ends[..., 0] + self.values * self._unit

    @property
    def means_variance(self) -> Floats:
        """The variance of the noise of `means`. It is uncorrelated."""
        return self.variance * np.square(self._unit)

    def to_record(self) -> dict[str, Any]:
        """Return the sums for JSON, with integers as strings."""
        return {
            "kind": self.kind,
            "scale": self.scale,
            "epsilon": str(self.epsilon_exact),
            "counts": [str(one) for one in self.counts.tolist()],
            "values": [[str(one) for one in row] for row in self.values.tolist()],
            "ends": self.ends.tolist(),
        }


@dataclass(frozen=True)
class StoredGroupSums:
    """Noisy sums by group in JSON."""

    kind: str
    scale: float
    epsilon: str
    counts: list[Any]
    values: list[Any]
    ends: list[Any]

    def sums(self) -> GroupSums:
        """Return the sums. The cost is not believed but computed."""
        try:
            ends = np.array(self.ends, np.float64)
            rows = [stored_integers(row, "values") for row in self.values]
            made = GroupSums(
                self.kind, np.array(rows, np.int64), self.scale, stored_integers(self.counts, "counts"), ends
            )
        except (TypeError, ValueError):
            raise InvalidInput("the noisy sums by group are damaged") from None
        if made.to_record() != vars(self):
            raise InvalidInput("the epsilon of noisy sums is not what follows from their other fields")
        return made


def check_numbers(questions: int, records: int, epsilon: Fraction) -> None:
    """Raise `InvalidInput`, before the charge, for sums of numbers that might leave 64 bits after it."""
    check_cube(questions, noise_scale(UNITS, epsilon))
    if records * UNITS >= LARGEST_SUM // 2:
        raise InvalidInput(
            f"sums of {records:,} records may not fit into 64-bit integers: take fewer records at a time"
        )


def draw_numbers(
    budget: SumsBudget, numbers: Sequence[Floats], ends: Floats, codes: NDArray[np.int64], epsilon: Fraction
) -> GroupSums:
    """Sum numbers, each one column for all records, over groups, with cube noise for the questions of each group.

    Parameters
    ----------
    budget : SumsBudget
        What pays for it.
    numbers : sequence of array of float64
        For each question a number for each record, a function of its label and of public numbers.
    ends : array of float64 of shape (groups, questions, 2)
        Public bounds of the numbers. Numbers outside are moved to them.
    codes : array of int64
        The group of each record. −1 leaves a record out.
    epsilon : Fraction
        What the sums may cost.
    """
    asked = budget.share(epsilon)
    scale = noise_scale(UNITS, asked)
    check_cube(len(numbers), scale)
    used = codes >= 0
    where, groups = codes[used], len(ends)
    exact = np.zeros((len(numbers), groups), np.int64)
    for question, column in enumerate(numbers):
        low, high = ends[where, question].T
        width = np.where(high > low, high - low, 1.0)
        units = np.clip(np.rint((column[used] - low) / width * UNITS), 0, UNITS).astype(np.int64)
        units[high <= low] = 0
        add_over_cells(exact[question], where, units, 0)
    budget.remaining -= UNITS / Fraction(scale)
    noise = np.array([cube_noise(len(numbers), scale) for _ in range(groups)])
    return GroupSums("numbers", _cut(exact.T + noise), scale, np.bincount(where, minlength=groups), ends)


def draw_histograms(
    budget: SumsBudget,
    cells: NDArray[np.int64],
    ends: Floats,
    codes: NDArray[np.int64],
    groups: int,
    epsilon: Fraction,
    kind: str = "histograms",
) -> GroupSums:
    """Count labels by group and cell, with Laplace noise of scale 2/ε: replacing a label moves two counts of its group by one.

    `cells` has the cell of each label, `ends` the ends of all cells; the other parameters are those of `draw_numbers`. For "hits", the cell of a
    label is given by what is public if it is of the class that is counted, and −1 if not, so that one count moves by one.
    """
    asked = budget.share(epsilon)
    scale = noise_scale(KINDS[kind], asked)
    size, used = len(ends), codes >= 0
    counted = used & (cells >= 0)
    exact = np.bincount(codes[counted] * size + cells[counted], minlength=groups * size).astype(np.int64)
    budget.remaining -= KINDS[kind] / Fraction(scale)
    noisy = _cut(add_laplace(exact, scale)).reshape(groups, size)
    counts = np.bincount(codes[used], minlength=groups)
    return GroupSums(kind, noisy, scale, counts, np.broadcast_to(ends, (groups, size, 2)))


def _cut(noisy: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums are below 2^60 and noise is cut off at 2^62, so what is cut off here is a function of the noisy sum."""
    return np.clip(noisy, -LARGEST_SUM, LARGEST_SUM)
