"""One private answer: noisy sums, with all public data about them and their noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, frozen
from labeldp.domain import Domain
from labeldp.engines.passes import centre_of
from labeldp.errors import InvalidInput, described
from labeldp.formatting import ReprMixin, count_of, plain

KINDS = ("histogram", "cells", "signs")

LARGEST_SUM = 2**61
"""Exact sums are smaller than this, and noisy ones are clipped here."""

MOST_SUMS = 10_000_000
"""The maximum number of sums in one answer."""

MOST_WEIGHT = 2**18
"""The largest weight of a person, and the maximum number of rows of one."""
SCORES = Domain(-2.5, 2.5, 257)
"""The bounds and the grid of normal scores. A hundredth of normally distributed scores lie outside, and are moved to a bound."""
LEAST_PER_ROW = 64
"""The minimum weight of a row, if the largest weight allows it. Then rounding loses at most 1/64 of a person's weight."""


@dataclass(frozen=True)
class Weighting:
    """The weights of rows if the unit of privacy is a person. They are public.

    Attributes
    ----------
    persons : int
        The number of persons.
    each : int
        The weight of a person: a row of a person with k rows weighs ``each // k``, so that all of them weigh at most `each`.
    total : int
        The weight of all rows.
    """

    persons: int
    each: int
    total: int

    def __post_init__(self) -> None:
        if not (self.persons >= 2 and 1 <= self.each <= MOST_WEIGHT and 2 <= self.total <= self.persons * self.each):
            raise InvalidInput("the weights of persons are damaged")

    @classmethod
    def of(cls, persons: NDArray[np.int64]) -> tuple[Weighting, NDArray[np.int64]]:
        """Return the weighting and the weight of each row, given the index of each row's person."""
        owned = np.bincount(persons)
        each = cls.weight_for(int(owned.max()))
        weights = (each // owned)[persons]
        weights.flags.writeable = False
        return cls(owned.size, each, int(weights.sum())), weights

    @staticmethod
    def weight_for(most: int) -> int:
        """Return the weight of a person, if persons have at most this number of rows."""
        if most > MOST_WEIGHT:
            raise InvalidInput(
                f"one person has {most:,} rows, and {MOST_WEIGHT:,} can be weighted: is the column of persons the right one? If so, leave "
                "some rows of this person out"
            )
        return min(MOST_WEIGHT, 1 << (LEAST_PER_ROW * most - 1).bit_length())


class NoisyNumbers(ABC):
    """Numbers with noise in proportion to their sensitivity, which is what they cost."""

    kind: str
    values: NDArray[np.int64]
    scale: float
    place: int | None = None
    stated = ("sensitivity", "epsilon_exact")

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """The largest change of the exact numbers that is protected: of cube noise the maximum, otherwise the sum."""

    @property
    def epsilon_exact(self) -> Fraction:
        """What the numbers cost: the sensitivity divided by the scale.

        Answers about several classes cost less together than their sum, see `total_cost`.
        """
        return self.sensitivity / Fraction(self.scale) if self.scale else Fraction(0)

    @property
    def variance(self) -> float:
        """The variance of the noise of each value, in squares of the values' own steps.

        It is the variance of the discrete distribution, from `laplace_variance` or `cube_variance`.
        """
        if not self.scale:
            return 0.0
        cube = self.kind in ("signs", "numbers")
        return cube_variance(self.values.shape[-1], self.scale) if cube else laplace_variance(self.scale)


@dataclass(frozen=True, eq=False, repr=False)
class Answer(NoisyNumbers, ReprMixin):
    """Noisy sums of labels: the answer to one question to `SumQueries`. It contains no labels.

    A *unit* is the distance between two grid points of the domain, `domain.step`. With `grain` g the values are in steps of 1/g
    unit.

    Attributes
    ----------
    kind : {"histogram", "cells", "signs"}
        Counts of labels in equal parts of the grid; sums of (unit − clip[0]) over the cells of partitions; or sums of
        sign·(unit − centre), where centre is (clip[0] + clip[1]) // 2.
    values : array of int64
        The noisy numbers, one partition after the other.
    scale : float
        The scale of the noise, or 0.0 if there is none: noise z has a probability proportional to e^(−|z|/scale) for each
        number, and for signs to e^(−max|z|/scale) for all together.
    clip : tuple of (int, int)
        The range to which units were clipped.
    counts : array of int64
        The public number that belongs to each value: the grid points in the part, the records in the cell, or the sum
        of the column's signs.
    sizes : tuple of int
        The number of parts, of cells in each partition, or of columns.
    domain : Domain
        The bounds and the grid.
    grain : int
        The number of steps per unit, which is more than 1 only for signs.
    weight : int
        The weight of a person if that is the unit of privacy, and 1 if it is a record. Values and counts of records are
        in steps of 1/weight.
    residuals : bool
        Whether a public number of units was subtracted from each label before it was clipped and summed. `clip` is then
        a range of such differences. Never for histograms.
    place : int or None
        The index of the class, if each label counts as 1 if it is of that class and as 0 otherwise. `clip` is then within (0, 1).
    scored : bool
        Whether labels were replaced by normal scores first (`SumQueries.score`). `domain` is then `SCORES`. Never for histograms.

    Examples
    --------
    >>> from labeldp import PrivateSums
    >>> answer = PrivateSums.over_cells([30, 40, 90], [0, 0, 1], epsilon=1, domain=(0, 100)).answers[0]
    >>> answer.counts.tolist(), answer.sums.shape
    ([2, 1], (2,))
    """

    kind: str
    values: NDArray[np.int64]
    scale: float
    clip: tuple[int, int]
    counts: NDArray[np.int64]
    sizes: tuple[int, ...]
    domain: Domain
    grain: int = 1
    weight: int = 1
    residuals: bool = False
    place: int | None = None
    scored: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput(f"an answer is a histogram, or over cells, or against signs, not {described(self.kind)}")
        (lower, upper), least = self.clip, 1 - self.domain.count if self.residuals else 0
        if not least <= lower <= upper < self.domain.count:
            raise InvalidInput(f"the clip of an answer lies outside its grid of {self.domain.count:,} cells")
        if not self.sizes or min(self.sizes) < 1 or sum(self.sizes) > MOST_SUMS:
            raise InvalidInput(f"an answer has 1 to {MOST_SUMS:,} numbers")
        counted = self.kind == "histogram"
        if (len(self.sizes) > 1 and self.kind != "cells") or (counted and self.sizes[0] > self.domain.count):
            raise InvalidInput("the sizes of an answer do not fit its kind")
        if counted and self.residuals:
            raise InvalidInput("a histogram counts labels, not residuals")
        if self.place is not None and (
            counted or self.residuals or self.clip[1] > 1 or not 0 <= self.place < len(self.domain.classes or ())
        ):
            raise InvalidInput("the class of an answer does not fit its other fields")
        if self.scored and (counted or self.domain != SCORES):
            raise InvalidInput("normal scores of labels are summed on their own grid, and a histogram counts labels")
        for name in ("values", "counts"):
            numbers = getattr(self, name)
            if numbers.shape != (sum(self.sizes),) or numbers.dtype != np.int64:
                raise InvalidInput(f"an answer needs {sum(self.sizes):,} whole numbers as its {name}")
            object.__setattr__(self, name, frozen(numbers))
        if self.grain < 1 or (self.grain > 1 and self.kind != "signs"):
            raise InvalidInput("the grain of an answer does not fit its kind")
        if not 1 <= self.weight <= MOST_WEIGHT:
            raise InvalidInput("the weight of an answer is damaged")
        if not 0 <= self.scale < math.inf or (self.scale == 0) != (self.sensitivity == 0):
            raise InvalidInput("the scale of an answer must be positive, and 0 only where one label changes nothing")
        if self.kind == "histogram" and (self.counts != part_sizes(self.sizes[0], self.domain.count)).any():
            raise InvalidInput("the parts of a histogram must be equal parts of the grid")

    @property
    def sensitivity(self) -> int:
        """The largest change of the exact numbers from replacing one label, or all labels of a person.

        For signs it is the maximum over the numbers, otherwise the sum.
        """
        return sensitivity_of(self.kind, self.clip, self.sizes, self.domain, self.grain * self.weight)

    @property
    def sums(self) -> Floats:
        """The numbers in the unit of the labels or scores: noisy sums of clipped ones, or of residuals, by cell or column of signs.

        For a histogram they are noisy counts.
        """
        if self.kind == "histogram":
            return self.values / self.weight
        lower, upper = self.clip
        offset = lower if self.kind == "cells" else centre_of(lower, upper)
        start = offset * self.domain.step + (0.0 if self.residuals else self.domain.lower)
        return self.values * (self.domain.step / (self.grain * self.weight)) + self.totals * start

    @property
    def sums_variance(self) -> float:
        """The variance of the noise of each of `sums`."""
        step = 1.0 if self.kind == "histogram" else self.domain.step / self.grain
        return self.variance * (step / self.weight) ** 2

    @property
    def totals(self) -> Floats:
        """`counts` as numbers of records, or as numbers of persons with the same weight. Not for a histogram."""
        return self.counts / self.weight

    def means(self) -> Floats:
        """Return the noisy mean of the clipped labels, or residuals, in each cell.

        Returns
        -------
        array of float64
            The noise does not bias the means, so they may lie outside the bounds. NaN for a cell without records.

        Raises
        ------
        InvalidInput
            If the answer is not over cells.
        """
        if self.kind != "cells":
            raise InvalidInput(f"only answers over cells have means, and this answer is of the kind {self.kind!r}")
        empty = self.counts == 0
        return np.where(empty, np.nan, self.sums / np.where(empty, 1, self.totals))

    def _facts(self) -> dict[str, str]:
        noise = math.sqrt(self.sums_variance)
        return {
            "kind": self.kind,
            "numbers": f"{self.values.size:,}"
            + (f" in {count_of(len(self.sizes), 'partition')}" if len(self.sizes) > 1 else ""),
            "epsilon": f"{float(self.epsilon_exact):.6g}",
            "noise": f"±{plain(noise)}",
        }


def sensitivity_of(kind: str, clip: tuple[int, int], sizes: tuple[int, ...], domain: Domain, steps: int = 1) -> int:
    """Return `Answer.sensitivity`, if units and records are divided into this number of steps together.

    It is a separate function because the noise is scaled by it before the answer exists.
    """
    lower, upper = clip
    if kind == "histogram":
        first, last = parts_of(np.array(clip), sizes[0], domain.count)
        return 0 if first == last else 2 * steps
    if kind == "cells":
        return len(sizes) * (upper - lower) * steps
    if kind == "signs":
        return (upper - lower) * steps
    raise InvalidInput(f"the sensitivity of an answer of the kind {described(kind)} is unknown")


def total_cost(costs: Iterable[tuple[int | None, Fraction]]) -> Fraction:
    """Return the cost of answers together, given the class that each is about (None for all labels) and its cost.

    A replaced label leaves one class and joins another, so the answers about the two most expensive classes count, and all that are
    about no single class.
    """
    about: dict[int | None, Fraction] = {}
    for place, cost in costs:
        about[place] = about.get(place, Fraction(0)) + cost
    common = about.pop(None, Fraction(0))
    return common + sum(sorted(about.values())[-2:], Fraction(0))


def laplace_variance(scale: float) -> float:
    """Return the variance of integer Laplace noise: 2q/(1 − q)² with q = e^(−1/scale)."""
    return float(0.5 / math.sinh(0.5 / scale) ** 2)


def cube_variance(count: int, scale: float) -> float:
    """Return the variance of each number of cube noise, (p+1)(p+2)/3·scale² − 1/12 up to a tiny term.

    Given the radius r it is r(r + 1)/3. The formula is the mean of that over all r, by Euler and Maclaurin; its
    relative error is about (2π·scale)^−(p+1). If that exceeds 10^-12, the mean is summed directly, and for p = 1 it is
    Laplace noise.
    """
    if count == 1:
        return laplace_variance(scale)
    if (count + 1) * math.log(max(2 * math.pi * scale, 1e-300)) > math.log(1e12):
        return (count + 1) * (count + 2) / 3 * scale**2 - 1 / 12
    reach = np.arange(math.ceil(4 * scale * (count + 20)) + 64, dtype=np.float64)
    weights = count * np.log(2 * reach + 1) - reach / scale
    weights = np.exp(weights - weights.max())
    return float(weights @ (reach * (reach + 1)) / weights.sum() / 3)


def parts_of(units: NDArray[np.int64], parts: int, cells: int) -> NDArray[np.int64]:
    """Return the part that contains each unit, if the grid is cut into equal parts."""
    return units * parts // cells


def part_sizes(parts: int, cells: int) -> NDArray[np.int64]:
    """Return the number of grid points of each part."""
    first = -(-np.arange(parts + 1, dtype=np.int64) * cells // parts)
    return np.diff(first)
