"""The shape of the noise of several sums: a cube, cut to what one label can move.

One label moves several sums at once, and some combinations of them by less than the single sums would allow: (y − f)² and |y − f| move together.
Cube noise allows all combinations. Noise that is uniform in a smaller body, at a random size, is smaller, and costs the same as long as the body
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
from labeldp.errors import InvalidInput
from labeldp.release.noisy_sums import cube_variance
from labeldp.sampling.integer_noise import Side

UNITS = 2**18
"""The weight of a record, or of all rows of a person together. A number is mapped to an integer from 0 to its weight."""
NARROWEST = 8
"""The body contains the cube divided by this, so that drawing noise in it does not take long."""
MOST_COEFFICIENT, MOST_SIDES = 16, 100


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
        if shapes != (2, 2, (len(self.coefficients),)) or len(self.coefficients) > MOST_SIDES:
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
        if size:
            rows = tuple(map(tuple, self.coefficients.tolist()))
            inner = _second_moments(rows, tuple((self.limits[group] / UNITS).tolist()))
            found[:size, :size] = (count + 1) * (count + 2) * scale**2 * inner
        return found


CUBE = Body(np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int64))
"""No combinations: cube noise."""


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
