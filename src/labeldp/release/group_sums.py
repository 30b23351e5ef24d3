"""Noisy sums by group, of several bounded numbers for each record or of its cell in a histogram, with their exact ε.

`score` and `report` consist of them. Groups are public and every record is in one of them, so a label affects the sums
of only one group, and groups cost nothing. If the unit of privacy is a person, rows are weighted (`Rows`), so that all
labels of a person together change the sums at most as much as one label would. Sums of numbers get cube noise, which
for n sums is about as small as Laplace noise for n/2 sums.

One label moves several sums at once, and some combinations of them by less than the single sums would allow: (y − f)² and |y − f| move together.
Cube noise allows all combinations. Noise that is uniform in a smaller `Body`, at a random size, is smaller, and costs the same as long as the body
contains every change from one label (the K-norm mechanism of Hardt and Talwar, 2010). `docs/concepts/private-sums.md` has the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import MAX_EPSILON
from labeldp.engines.passes import add_over_cells
from labeldp.errors import InvalidInput
from labeldp.release.grid_labels import SumsBudget, noise_scale
from labeldp.release.noisy_sums import LARGEST_SUM, NoisyNumbers, cube_variance
from labeldp.sampling.integer_noise import WIDEST, Side, add_laplace, check_cube, cube_noise

UNITS = 2**18
"""The weight of a record, or of all rows of a person together. A number is mapped to an integer from 0 to its weight."""
NARROWEST = 8
"""The body contains the cube divided by this, so that drawing noise in it does not take long."""
MOST_COEFFICIENT, MOST_SIDES = 16, 100

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
class Body:
    """For each group, limits of the changes of combinations of its first sums. Everything here is public.

    Attributes
    ----------
    coefficients : array of int64 of shape (sides, first sums)
        The combinations.
    limits : array of int64 of shape (groups, sides)
        The largest change of each from replacing one label of weight `UNITS`, or less for a smaller weight.
    """

    coefficients: NDArray[np.int64]
    limits: NDArray[np.int64]

    def __post_init__(self) -> None:
        shapes = self.coefficients.ndim, self.limits.ndim, self.limits.shape[1:]
        if shapes != (2, 2, (len(self.coefficients),)) or not 1 <= len(self.coefficients) <= MOST_SIDES:
            raise InvalidInput("the shape of the noise needs a limit for each group and combination of sums")
        sizes = abs(self.coefficients).sum(axis=1)
        if (abs(self.coefficients) > MOST_COEFFICIENT).any() or (self.limits * NARROWEST < UNITS * sizes).any():
            raise InvalidInput("the shape of the noise of sums is damaged")

    @classmethod
    def of(cls, coefficients: NDArray[np.int64], widths: Floats, weights: NDArray[np.int64]) -> Body:
        """Return the body for changes of these widths by group and combination, in shares of a part's weight.

        `weights` is the smallest weight of a part in each group: the limits leave room for rounding.
        """
        sizes = abs(coefficients).sum(axis=1)
        most = np.maximum(widths + (sizes + 4) / weights[:, None], sizes / NARROWEST)
        return cls(coefficients, np.ceil(UNITS * most).astype(np.int64))

    def sides(self, group: int) -> list[Side]:
        """Return the sides of a group for `cube_noise`."""
        rows = self.coefficients.tolist()
        return [(row, Fraction(one, UNITS)) for row, one in zip(rows, self.limits[group].tolist(), strict=True)]

    def covariance(self, group: int, count: int, scale: float) -> Floats:
        """Return the covariance of the noise of `count` sums with this scale. Sums that are in no combination keep that of the cube."""
        found = np.eye(count) * cube_variance(count, scale)
        size = self.coefficients.shape[1]
        rows = tuple(map(tuple, self.coefficients.tolist()))
        inner = _second_moments(rows, tuple((self.limits[group] / UNITS).tolist()))
        found[:size, :size] = (count + 1) * (count + 2) * scale**2 * inner
        return found


@dataclass(frozen=True, eq=False)
class Changes:
    """What the labels of each part can do to combinations of its numbers, in shares of its weight.

    Attributes
    ----------
    body : Body
        The limits.
    least : array of float64 of shape (sides, parts)
        The least value of each combination for any labels of the part.
    public : sequence of array of float64
        The numbers of each part for one public label.
    """

    body: Body
    least: Floats
    public: Sequence[Floats]

    def enforced(
        self, units: NDArray[np.int64], public: NDArray[np.int64], weights: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the integers of each part, with those for the public label where they, by rounding, leave what the limits allow.

        For any rounding of floats, two labels of a part give combinations that differ by at most limit·weight/`UNITS`.
        """
        size = self.body.coefficients.shape[1]
        outside = np.zeros(weights.size, bool)
        for side, row in enumerate(self.body.coefficients):
            low = np.floor(self.least[side] * weights - abs(row).sum() / 2 - 1).astype(np.int64)
            high = low + self.body.limits[groups, side] * weights // UNITS
            if ((row @ public[:size] < low) | (row @ public[:size] > high)).any():
                raise InvalidInput("predictions are too far apart for this score: clip them first")
            outside |= (row @ units[:size] < low) | (row @ units[:size] > high)
        return np.where(outside, public, units)


@lru_cache(maxsize=1000)
def _second_moments(rows: tuple[tuple[int, ...], ...], limits: tuple[float, ...]) -> Floats:
    """Return the second moments of a point that is uniform in the cube from −1 to 1, cut by |row·z| ≤ limit.

    Its surface is triangulated. With the origin each triangle is a simplex, whose moments follow from its corners.
    """
    from scipy.spatial import ConvexHull, HalfspaceIntersection

    size = len(rows[0])
    normals = np.vstack([np.eye(size), rows])
    ends = np.r_[np.ones(size), limits]
    half = np.column_stack([np.vstack([normals, -normals]), -np.r_[ends, ends]])
    points = HalfspaceIntersection(half, np.zeros(size)).intersections
    corners = points[ConvexHull(points, qhull_options="Qt").simplices]
    volumes = abs(np.linalg.det(corners))
    sums = corners.sum(axis=1)
    each = np.einsum("nia,nib->nab", corners, corners) + sums[:, :, None] * sums[:, None, :]
    found: Floats = np.tensordot(volumes / volumes.sum(), each, 1) / ((size + 1) * (size + 2))
    return found


@dataclass(frozen=True, eq=False)
class GroupSums(NoisyNumbers):
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
    body : Body or None
        The shape of the noise of numbers, if the cube is cut.
    """

    kind: str
    values: NDArray[np.int64]
    scale: float
    counts: NDArray[np.int64]
    weights: NDArray[np.int64]
    ends: Floats
    body: Body | None = None

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
        if self.body is not None and (
            self.kind != "numbers" or self.body.coefficients.shape[1] > shape[1] or len(self.body.limits) != shape[0]
        ):
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
        if self.body is None:
            return np.diag(self.means_variance[group])
        unit = self._unit[group]
        return self.body.covariance(group, unit.size, self.scale) * np.outer(unit, unit)


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
    body: Body | None = None,
) -> GroupSums:
    """Add noise with the shape of `body` to exact sums, and take its cost from the budget."""
    groups, questions = exact.shape
    scale = noise_scale(UNITS, budget.share(epsilon))
    check_cube(questions, scale)
    budget.remaining -= UNITS / Fraction(scale)
    noise = np.array([cube_noise(questions, scale, body.sides(group) if body else ()) for group in range(groups)])
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
