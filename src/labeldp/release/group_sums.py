"""Noisy sums by group, of several bounded numbers for each record or of its cell in a histogram, with their exact ε.

`score` and `report` consist of them. Groups are public and every record is in one of them, so a label affects the sums
of only one group, and groups cost nothing. If the unit of privacy is a person, rows are weighted (`Rows`), so that all
labels of a person together change the sums at most as much as one label would. Sums of numbers get cube noise, which
for n sums is about as small as Laplace noise for n/2 sums, or smaller noise if the cube is cut (`noise_body.py`).
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
from labeldp.release.noise_body import CUBE, UNITS, Body, Changes
from labeldp.release.noisy_sums import LARGEST_SUM, cube_variance, laplace_variance
from labeldp.release.private_sums import stored_integers
from labeldp.release.sums_draw import SumsBudget, noise_scale
from labeldp.sampling.integer_noise import WIDEST, add_laplace, check_cube, cube_noise

KINDS = {"numbers": UNITS, "histograms": 2 * UNITS, "hits": UNITS}
"""The kinds of sums, and the largest change from replacing one label, or all labels of a person."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """The summed rows, in parts: all rows of one person in one group, or single rows without persons. Everything here is public.

    The parts of a person weigh at most `UNITS` together, each in proportion to its number of rows. Numbers of a part
    are averaged before they are summed. If all labels of a person are replaced, the changes of all sums, each in units
    of its part's weight, add up to at most `UNITS`.

    Attributes
    ----------
    used : array of int64
        The indices of the rows that are in a group. All other attributes refer to these.
    codes : array of int64
        The group of each row.
    persons : array of int64 or None
        The index of each row's person.
    parts : array of int64
        The part of each row.
    sizes, weights, groups : array of int64
        The number of rows, the weight and the group of each part.
    """

    used: Codes
    codes: Codes
    persons: Codes | None
    parts: Codes
    sizes: Codes
    weights: Codes
    groups: Codes

    @classmethod
    def of(cls, codes: Codes, persons: Codes | None = None) -> Rows:
        """Return rows with these groups, from 0; −1 leaves a row out. Raise `InvalidInput` for a person with too many rows."""
        used = np.flatnonzero(codes >= 0)
        codes = codes[used]
        if persons is None:
            ones = np.ones(used.size, np.int64)
            return cls(used, codes, None, np.arange(used.size), ones, UNITS * ones, codes)
        persons = persons[used]
        groups = int(codes.max(initial=0)) + 1
        found, parts, sizes = np.unique(persons * groups + codes, return_inverse=True, return_counts=True)
        owned = np.bincount(persons)
        if owned.max(initial=0) > UNITS:
            raise InvalidInput(
                f"one person has {owned.max():,} rows, and {UNITS:,} can be weighted: is the column of persons the right one? If so, leave some "
                "rows of this person out"
            )
        weights = UNITS * sizes // owned[found // groups]
        return cls(used, codes, persons, parts, sizes, weights, found % groups)

    def means(self, numbers: Floats) -> Floats:
        """Return the mean of a number of each row over each part."""
        return numbers if self.persons is None else np.bincount(self.parts, numbers) / self.sizes

    def group_means(self, numbers: Floats) -> Floats:
        """Return the weighted mean of a number of each row over each group."""
        return np.bincount(self.groups, self.weights * self.means(numbers)) / self.group_weights()

    @property
    def shares(self) -> Floats:
        """The share of each row in its person's weight, or 1 without persons."""
        return (self.weights / (UNITS * self.sizes))[self.parts]

    def group_weights(self) -> Codes:
        """Return the weight of each group."""
        return np.bincount(self.groups, self.weights).astype(np.int64)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Noisy sums: one row for each group, one column for each question. It contains no labels.

    Attributes
    ----------
    kind : {"numbers", "histograms", "hits"}
        Sums of numbers, mapped from their public bounds to 0 … weight; or the weights of the labels in the cells of a
        grid; or the weights of the labels of one of two classes in cells of public records.
    values : array of int64 of shape (groups, questions)
        The noisy sums.
    scale : float
        The scale of the noise: z has a probability proportional to e^(−max|z|/scale) for all sums of a group together if they are of
        numbers, and to e^(−|z|/scale) for each count. If the cube is cut, max|z| is the smallest size of the body that contains z.
    counts : array of int64
        The number of records in each group, which is public.
    weights : array of int64
        The weight of each group: `UNITS` for each record, or at most that for each person. It is also public.
    ends : array of float64 of shape (groups, questions, 2)
        The public bounds of each number; for counts, the bounds of each cell.
    body : Body
        The shape of the noise of numbers.
    """

    kind: str
    values: NDArray[np.int64]
    scale: float
    counts: NDArray[np.int64]
    weights: NDArray[np.int64]
    ends: Floats
    body: Body = CUBE

    def __post_init__(self) -> None:
        shape = self.values.shape
        if self.kind not in KINDS or len(shape) != 2 or not min(shape):
            raise InvalidInput("noisy sums by group need a kind, and a number for each group and question")
        if self.counts.shape != shape[:1] or self.counts.min() < 1 or self.ends.shape != (*shape, 2):
            raise InvalidInput(
                "noisy sums by group need the number of records of each group and the ends of each number"
            )
        if (
            self.weights.shape != shape[:1]
            or not (self.weights > 0).all()
            or (self.weights > UNITS * self.counts).any()
        ):
            raise InvalidInput("noisy sums by group need the weight of each group")
        if not np.isfinite(self.ends).all() or (self.ends[..., 0] > self.ends[..., 1]).any():
            raise InvalidInput("the ends of noisy sums must be finite numbers in order")
        if not 0 < self.scale <= WIDEST or self.sensitivity > MAX_EPSILON * Fraction(self.scale):
            raise InvalidInput("the scale of noisy sums is not one that a sampler can use")
        if (abs(self.values) > LARGEST_SUM).any():
            raise InvalidInput("a noisy sum is larger than 2^61")
        if self.kind == "numbers":
            check_cube(shape[1], self.scale)
        sides, first = self.body.coefficients.shape
        if sides and (self.kind != "numbers" or first > shape[1] or len(self.body.limits) != shape[0]):
            raise InvalidInput("the shape of the noise does not fit the sums")

    @property
    def sensitivity(self) -> int:
        """The largest change of the exact sums from replacing one label, or all labels of a person.

        For numbers it is the smallest size of the body that contains the changes in each group, summed over groups. For the other kinds it is
        the sum of all changes.
        """
        return KINDS[self.kind]

    def check_unit(self, persons: int | None) -> None:
        """Raise `InvalidInput` unless the weights are valid for records, or for this number of persons."""
        fits = self.weights == UNITS * self.counts if persons is None else self.weights <= UNITS * persons
        if not fits.all():
            raise InvalidInput("the weights of noisy sums do not fit the unit of privacy")

    @property
    def epsilon_exact(self) -> Fraction:
        """The cost of the sums: the sensitivity divided by the scale."""
        return self.sensitivity / Fraction(self.scale)

    @property
    def variance(self) -> float:
        """The variance of the noise of each value, if the cube is not cut."""
        return (
            cube_variance(self.values.shape[1], self.scale) if self.kind == "numbers" else laplace_variance(self.scale)
        )

    @property
    def sizes(self) -> Floats:
        """The number of records of each group, or the number of persons equivalent to its weight."""
        return self.weights / UNITS

    @property
    def _unit(self) -> Floats:
        return (self.ends[..., 1] - self.ends[..., 0]) / self.weights[:, None]

    @property
    def means(self) -> Floats:
        """The noisy mean of each number in each group."""
        return self.ends[..., 0] + self.values * self._unit

    @property
    def means_variance(self) -> Floats:
        """The variance of the noise of `means`, if the cube is not cut. It is uncorrelated then."""
        return self.variance * np.square(self._unit)

    def means_covariance(self, group: int) -> Floats:
        """Return the covariance of the noise of the means of numbers in a group."""
        unit = self._unit[group]
        return self.body.covariance(group, unit.size, self.scale) * np.outer(unit, unit)

    def to_record(self) -> dict[str, Any]:
        """Return the sums for JSON, with integers as strings."""
        return {
            "kind": self.kind,
            "scale": self.scale,
            "epsilon": str(self.epsilon_exact),
            "counts": [str(one) for one in self.counts.tolist()],
            "weights": [str(one) for one in self.weights.tolist()],
            "values": [[str(one) for one in row] for row in self.values.tolist()],
            "ends": self.ends.tolist(),
            "combinations": self.body.coefficients.tolist(),
            "limits": [[str(one) for one in row] for row in self.body.limits.tolist()],
        }


@dataclass(frozen=True)
class StoredGroupSums:
    """Noisy sums by group in JSON."""

    kind: str
    scale: float
    epsilon: str
    counts: list[Any]
    weights: list[Any]
    values: list[Any]
    ends: list[Any]
    combinations: list[Any]
    limits: list[Any]

    def sums(self) -> GroupSums:
        """Return the sums. The cost is not trusted but computed again."""
        try:
            ends = np.array(self.ends, np.float64)
            rows = [stored_integers(row, "values") for row in self.values]
            counts, weights = stored_integers(self.counts, "counts"), stored_integers(self.weights, "weights")
            limits = [stored_integers(row, "limits") for row in self.limits]
            body = Body(np.array(self.combinations, np.int64), np.array(limits)) if self.combinations else CUBE
            made = GroupSums(self.kind, np.array(rows, np.int64), self.scale, counts, weights, ends, body)
        except (TypeError, ValueError):
            raise InvalidInput("the noisy sums by group are damaged") from None
        if made.to_record() != vars(self):
            raise InvalidInput("the epsilon of noisy sums does not match their other fields")
        return made


def check_numbers(questions: int, records: int, epsilon: Fraction) -> None:
    """Raise `InvalidInput`, before the charge, for sums of numbers that might overflow 64 bits."""
    check_cube(questions, noise_scale(UNITS, epsilon))
    if records * UNITS >= LARGEST_SUM // 2:
        raise InvalidInput(
            f"sums of {records:,} records may not fit into 64-bit integers: take fewer records at a time"
        )


def draw_numbers(
    budget: SumsBudget, numbers: Sequence[Floats], ends: Floats, rows: Rows, epsilon: Fraction
) -> GroupSums:
    """Sum numbers over groups, with cube noise for the questions of each group.

    Parameters
    ----------
    budget : SumsBudget
        The budget to charge.
    numbers : sequence of array of float64
        For each question a number for each part (`Rows.means`), a function of its labels and of public numbers.
    ends : array of float64 of shape (groups, questions, 2)
        Public bounds of the numbers. Numbers outside are clipped to them.
    rows : Rows
        The parts with their groups and weights.
    epsilon : Fraction
        The budget for the sums.
    """
    return add_noise(budget, exact_numbers(numbers, ends, rows), ends, rows, epsilon)


def exact_numbers(
    numbers: Sequence[Floats], ends: Floats, rows: Rows, changes: Changes | None = None
) -> NDArray[np.int64]:
    """Return the exact sums by group and question. They add up over batches of rows.

    With `changes`, combinations of the first numbers are kept within their limits.
    """
    where = rows.groups

    def units(columns: Sequence[Floats]) -> NDArray[np.int64]:
        return np.stack([_units(column, ends[where, place], rows.weights) for place, column in enumerate(columns)])

    parts = units(numbers)
    if changes is not None:
        size = len(changes.public)
        parts[:size] = changes.enforced(parts[:size], units(changes.public), rows.weights, where)
    exact = np.zeros((len(numbers), len(ends)), np.int64)
    for sums, column in zip(exact, parts, strict=True):
        add_over_cells(sums, where, column, 0)
    return exact.T


def add_noise(
    budget: SumsBudget,
    exact: NDArray[np.int64],
    ends: Floats,
    rows: Rows,
    epsilon: Fraction,
    body: Body = CUBE,
) -> GroupSums:
    """Add noise with the shape of `body` to exact sums, and take its cost from the budget."""
    groups, questions = exact.shape
    scale = noise_scale(UNITS, budget.share(epsilon))
    check_cube(questions, scale)
    budget.remaining -= UNITS / Fraction(scale)
    sides = [body.sides(group) if len(body.limits) else () for group in range(groups)]
    noise = np.array([cube_noise(questions, scale, one) for one in sides])
    counts, weights = np.bincount(rows.codes), rows.group_weights()
    return GroupSums("numbers", _cut(exact + noise), scale, counts, weights, ends, body)


def _units(numbers: Floats, ends: Floats, weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers as integers from 0 to the weight of each part."""
    low, high = ends.T
    width = np.where(high > low, high - low, 1.0)
    units: NDArray[np.int64] = np.clip(np.rint((numbers - low) / width * weights), 0, weights).astype(np.int64)
    units[high <= low] = 0
    return units


def draw_histograms(
    budget: SumsBudget,
    cells: NDArray[np.int64],
    ends: Floats,
    rows: Rows,
    epsilon: Fraction,
    kind: str = "histograms",
) -> GroupSums:
    """Sum the weights of labels by group and cell, with Laplace noise: replacing a label changes two sums of its group by its weight.

    `cells` contains the cell of each row's label and `ends` the bounds of all cells; the other parameters are as in
    `draw_numbers`. For "hits", the cell of a row depends on public data if its label is of the counted class, and is −1
    otherwise. A sum then changes by at most the weight of a person's rows in its cell, and all sums together by at most
    `UNITS`.
    """
    asked = budget.share(epsilon)
    scale = noise_scale(KINDS[kind], asked)
    counts, size = np.bincount(rows.codes), len(ends)
    exact = np.zeros(
        (counts.size, size + 1), np.int64
    )  # the last cell is for labels that are not counted, but share the weight
    places = rows.codes * (size + 1) + np.where(cells < 0, size, cells)
    found = Rows.of(places, rows.persons)  # its weights depend on labels, unlike the weights of `rows`
    add_over_cells(exact.reshape(-1), found.groups, found.weights, 0)
    budget.remaining -= KINDS[kind] / Fraction(scale)
    noisy = _cut(add_laplace(exact[:, :size].reshape(-1), scale)).reshape(counts.size, size)
    return GroupSums(kind, noisy, scale, counts, rows.group_weights(), np.broadcast_to(ends, (counts.size, size, 2)))


def _cut(noisy: NDArray[np.int64]) -> NDArray[np.int64]:
    """Clip the noisy sums. Sums are below 2^60 and noise is clipped at 2^62, so the result is a function of the noisy sum."""
    return np.clip(noisy, -LARGEST_SUM, LARGEST_SUM)
