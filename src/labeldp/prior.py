"""Priors on the labels, and the private histogram that estimates one.

The budget split and the noise scale are exact: `ε₁ = 2/Fraction(scale)` follows from the float scale that OpenDP's
sampler really uses, and `ε₂ = ε − ε₁` from that.
"""

from __future__ import annotations

import csv
import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, label_array
from labeldp.budget import Epsilon, exact, float_up, writing, written
from labeldp.domain import Domain, OutOfRange
from labeldp.errors import InvalidInput

MAX_PRIOR_CELLS = 10_000_000


class BudgetWarning(UserWarning):
    """The budget is spent in a way the user may want to change."""


@dataclass(frozen=True, eq=False, repr=False)
class Prior:
    """A distribution on label values: strictly increasing `values`, `masses` that sum to one.

    `epsilon_exact` is what it cost to estimate: zero for public knowledge.

    >>> Prior([0, 10, 50], [2, 1, 1]).mean
    15.0
    """

    values: Floats
    masses: Floats
    epsilon_exact: Fraction = Fraction(0)

    def __init__(self, values: Any, masses: Any, epsilon_exact: Fraction = Fraction(0)) -> None:
        if epsilon_exact < 0:
            raise InvalidInput(f"a prior cannot have cost less than nothing, got {epsilon_exact}")
        points = label_array(values, "prior values").copy()
        weights = label_array(masses, "prior masses").copy()
        if points.size == 0:
            raise InvalidInput("a prior needs at least one value")
        if points.shape != weights.shape:
            raise InvalidInput(f"a prior needs one mass per value, got {points.size} values and {weights.size} masses")
        if (weights < 0).any():
            raise InvalidInput(
                f"prior masses must not be negative: mass {int(np.argmax(weights < 0))} is {weights.min():g}"
            )
        order = np.argsort(points, kind="stable")
        points, weights = points[order], weights[order]
        same = np.flatnonzero(np.diff(points) <= 0)
        if same.size:
            raise InvalidInput(
                f"prior values must differ: {points[same[0]]:g} is given twice. Add their masses up first."
            )
        top = weights.max()
        if top <= 0:
            raise InvalidInput("prior masses must not all be zero")
        if abs(math.fsum(weights / top) * top - 1) > 1e-12:  # masses that sum to one stay as they are, bit by bit
            weights /= top  # first, so that a sum of huge masses cannot overflow
            weights /= math.fsum(weights)
        for array in (points, weights):
            array.flags.writeable = False
        object.__setattr__(self, "values", points)
        object.__setattr__(self, "masses", weights)
        object.__setattr__(self, "epsilon_exact", epsilon_exact)

    @classmethod
    def uniform(cls, domain: Domain) -> Prior:
        """Equal mass on every cell of a grid."""
        return cls(domain.grid, np.ones(len(domain.grid)))

    @classmethod
    def from_counts(cls, labels: Any) -> Prior:
        """The distribution of `labels` as they stand. For public data only: it reveals them."""
        values, counts = np.unique(label_array(labels), return_counts=True)
        return cls(values, counts)

    @classmethod
    def from_csv(cls, path: str | Path) -> Prior:
        """A CSV file with the columns `value` and `mass`, and `epsilon` if it cost something to estimate."""
        if not Path(path).is_file():
            raise InvalidInput(f"there is no file {path}; a prior is a CSV with the columns value and mass")
        values, masses, cost = [], [], Fraction(0)
        try:
            with Path(path).open(newline="", encoding="utf-8-sig") as file:
                rows = csv.DictReader(file)
                if rows.fieldnames is None or not {"value", "mass"} <= set(rows.fieldnames):
                    found = rows.fieldnames or "nothing"
                    raise InvalidInput(f"{path}: a prior needs the columns value and mass, found {found}")
                for number, row in enumerate(rows, start=2):
                    try:
                        values.append(float(row["value"]))
                        masses.append(float(row["mass"]))
                        cost = max(cost, written(row.get("epsilon") or "0"))
                    except InvalidInput as error:
                        raise InvalidInput(f"{path}, line {number}: {error}") from error
                    except (TypeError, ValueError) as error:
                        raise InvalidInput(
                            f"{path}, line {number}: value and mass must be numbers, got {row}"
                        ) from error
        except csv.Error as error:
            raise InvalidInput(f"{path}: not a CSV file of a prior: {error}") from error
        try:
            return cls(values, masses, cost)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from error

    def to_csv(self, path: str | Path) -> None:
        """Write the columns `value` and `mass`, losslessly, and `epsilon` for a private prior: its cost stays with it."""
        cost = f",{writing(self.epsilon_exact)}" if self.epsilon_exact else ""
        pairs = zip(self.values.tolist(), self.masses.tolist(), strict=True)
        lines = [f"{value!r},{mass!r}{cost}" for value, mass in pairs]
        Path(path).write_text("\n".join(["value,mass" + (",epsilon" if cost else ""), *lines, ""]), encoding="utf-8")

    @property
    def mean(self) -> float:
        """The expected label."""
        return float(self.masses @ self.values)

    @property
    def variance(self) -> float:
        """The variance of the label, which is the error of always answering the mean."""
        return float(self.masses @ (self.values - self.mean) ** 2)

    @property
    def epsilon(self) -> float:
        """What estimating this prior cost, rounded up."""
        return float_up(self.epsilon_exact)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prior):
            return NotImplemented
        return (
            np.array_equal(self.values, other.values)
            and np.array_equal(self.masses, other.masses)
            and self.epsilon_exact == other.epsilon_exact
        )

    def __hash__(self) -> int:
        return hash((self.values.tobytes(), self.masses.tobytes()))

    def __repr__(self) -> str:
        cost = "public" if self.epsilon_exact == 0 else f"ε = {self.epsilon:.4g}"
        return (
            f"Prior({self.values.size} values from {self.values[0]:g} to {self.values[-1]:g}, "
            f"mean {self.mean:.4g}, sd {math.sqrt(self.variance):.4g}, {cost})"
        )


@dataclass(frozen=True)
class BudgetSplit:
    """How ε is divided between the prior and the labels. `prior + labels == total`, exactly.

    `advice` says what is unwise about it. Whoever is about to spend the budget warns (`warn`), before and once.
    """

    total: Fraction
    prior: Fraction
    labels: Fraction
    scale: float
    advice: str | None = None

    @classmethod
    def spending(cls, most: Fraction, total: Fraction, advice: str | None) -> BudgetSplit:
        """At most `most` for the prior, by the float scale that is noisy enough; the rest for the labels."""
        scale = float_up(2 / most)
        spent = 2 / Fraction(scale)
        return cls(total, spent, total - spent, scale, advice)

    def warn(self, stacklevel: int = 2) -> None:
        """Issue the advice, if there is any, as a `BudgetWarning`."""
        if self.advice is not None:
            warnings.warn(self.advice, BudgetWarning, stacklevel=stacklevel + 1)


def split_budget(epsilon: Epsilon, cells: int, records: int) -> BudgetSplit:
    """The paper's ε₁ = √(cells/records), at most half of ε, and the rest for the labels.

    Refuses a grid with more than n·ε² cells: its noise would drown the histogram.
    """
    total = exact(epsilon)
    check_histogram(cells, records)
    most = math.floor(records * total**2)
    if cells > most:
        reach = (
            f"Use at most {most:,} cells"
            if most >= 2
            else f"Use at least {math.ceil(2 / total**2):,} records or a larger epsilon"
        )
        raise InvalidInput(
            f"{cells:,} cells are more than {records:,} records carry at epsilon = {float(total):g} "
            f"(cells must not exceed records × epsilon²). {reach}, or give a public prior, which costs nothing."
        )
    wanted = math.sqrt(cells / records)
    half = total / 2
    advice = (
        f"the prior would like ε₁ = √({cells:,}/{records:,}) = {wanted:.3g} and gets half of epsilon, {float(half):.3g}. "
        "Fewer cells leave more of the budget for the labels."
    )
    spent = min(half, Fraction(wanted))
    return BudgetSplit.spending(spent, total, advice if Fraction(wanted) > half else None)


def check_histogram(cells: int, records: int) -> None:
    """Refuses a private histogram of no records, or of more cells than one is made for."""
    if records < 1:
        raise InvalidInput("there are no labels: a private prior needs at least one record")
    if cells > MAX_PRIOR_CELLS:
        raise InvalidInput(f"a private prior on {cells:,} cells is too large: give at most {MAX_PRIOR_CELLS:,} cells")


def private_prior(
    labels: Any, domain: Domain | tuple[float, float], epsilon: Epsilon, *, out_of_range: OutOfRange = "clip"
) -> Prior:
    """An ε-label-DP estimate of the distribution of `labels` on the domain's grid.

    Privacy: replacing one label moves two counts by one, so integer Laplace noise of scale 2/ε on every cell (OpenDP's
    exact sampler) makes the histogram ε-DP; clipping at zero and normalising are post-processing. `epsilon_exact` of
    the result is 2/scale, never above the ε asked for.
    """
    budget = exact(epsilon)
    values = label_array(labels)
    grid = Domain.of(domain).resolve(values.size, float(budget))
    counts = histogram(grid.check(values, out_of_range), grid)
    return prior_from_counts(counts, grid, float_up(2 / budget))


def histogram(labels: Floats, domain: Domain) -> NDArray[np.int64]:
    """Exact counts per cell: as private as the labels themselves."""
    return np.bincount(domain.cell(labels), minlength=len(domain.grid)).astype(np.int64)


def prior_from_counts(counts: NDArray[np.int64], domain: Domain, scale: float) -> Prior:
    """The private prior from exact counts and a noise scale: 2/scale-DP. Nothing left after clipping: uniform."""
    noisy = np.maximum(noisy_counts(counts, scale), 0)
    masses = noisy.astype(np.float64) if noisy.any() else np.ones(noisy.size)
    return Prior(domain.grid, masses, 2 / Fraction(scale))


def noisy_counts(counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Counts with integer Laplace noise from OpenDP's exact sampler: 2/scale-DP for replacing one label."""
    from opendp.domains import atom_domain, vector_domain  # the prelude would load scikit-learn as well
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    noisy = make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)
    return np.asarray(noisy(counts.tolist()), np.int64)
