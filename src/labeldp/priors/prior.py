"""A distribution on label values, public or estimated at a cost in ε, and its CSV file."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, label_array
from labeldp.budget import MAX_EPSILON, Priced, abbreviated, format_amount, parse_amount
from labeldp.domain import Domain, check_size
from labeldp.errors import InvalidInput, described, expect, is_number
from labeldp.formatting import Tabular, plain_number
from labeldp.sampling.integer_noise import WIDEST

if TYPE_CHECKING:
    import pyarrow as pa

_MOST = 2**53
"""The largest count in a message: floats represent all integers up to here."""
SMALLEST_SCALE = 2 / MAX_EPSILON
"""Counts with less noise would cost more than the largest ε."""

MOST_COST = 1_000_000
"""The largest ε that a prior may have cost, equal to the limit of a ledger. Beyond it, e^ε could not be computed."""


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """The number of labels in each cell, plus integer Laplace noise.

    A prior is estimated from such counts. Intervals use the counts themselves, because the distribution of their noise
    is known.

    Parameters
    ----------
    values : array of int
        The noisy count of each cell. Some may be negative.
    scale : float
        The scale of the noise: noise z has a probability proportional to e^(−|z|/scale).
    records : int
        The number of labels that were counted, which is public.

    Raises
    ------
    InvalidInput
        If a count is not a whole number, or the scale or the number of records is impossible.

    Privacy
    -------
    Counts with such noise are 2/scale-DP for replacing one label. They are what was released, so publishing
    them costs nothing beyond the cost of the prior.

    Examples
    --------
    >>> from labeldp.priors import NoisyCounts
    >>> counts = NoisyCounts([510, 287, -3], scale=4.0, records=800)
    >>> counts.epsilon_exact
    Fraction(1, 2)
    """

    values: NDArray[np.int64]
    scale: float
    records: int

    def __post_init__(self) -> None:
        given = self.values.tolist() if isinstance(self.values, np.ndarray) else list(self.values)
        if not all(type(count) is int and abs(count) <= _MOST for count in given):
            raise InvalidInput("noisy counts must be whole numbers of at most 2^53")
        if not is_number(self.scale, SMALLEST_SCALE, WIDEST):
            raise InvalidInput(
                f"the scale of noisy counts must be a number from {SMALLEST_SCALE:g} to 2^55, got {described(self.scale)}. "
                "Ask for the message again"
            )
        if type(self.records) is not int or not 0 <= self.records <= _MOST:
            raise InvalidInput(f"the number of counted labels must be a whole number, got {described(self.records)}")
        values = np.array(given, np.int64)
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "scale", float(self.scale))

    @property
    def epsilon_exact(self) -> Fraction:
        """The ε of the counts: 2/scale, because replacing one label changes two counts by one each."""
        return 2 / Fraction(self.scale)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise of one count, 2a/(1 − a)² with a = e^(−1/scale)."""
        return float(0.5 / math.sinh(0.5 / self.scale) ** 2)

    @property
    def noise_kurtosis(self) -> float:
        """The excess kurtosis of the noise of one count: 3 for a large scale, more for a small one."""
        return 3.0 + 1.0 / self.noise_variance

    def to_json(self) -> dict[str, Any]:
        """Return the fields in a form that JSON can store."""
        return {"values": self.values.tolist(), "scale": self.scale, "records": self.records}

    @classmethod
    def from_json(cls, record: Any) -> NoisyCounts:
        """Return the counts that `to_json` wrote. Raise `InvalidInput` for anything else."""
        if not isinstance(record, dict) or not isinstance(record.get("values"), list):
            raise InvalidInput("the noisy counts of the prior are missing or damaged")
        return cls(record["values"], record.get("scale"), record.get("records"))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, repr=False)
class Prior(Priced, Tabular):
    """A distribution on label values, known before the labels are randomized.

    It has a length, compares by value, and becomes a data frame with the columns `value` and `mass`.

    Parameters
    ----------
    values : array-like of float
        The possible labels, all different, in any order.
    masses : array-like of float
        The probability of each, up to a common factor.
    epsilon_exact : fractions.Fraction, default 0
        The ε that estimating the distribution cost; 0 for public knowledge.
    counts : NoisyCounts, optional
        The noisy histogram from which the distribution was made, one count per value. With it, estimates from private
        labels have narrower intervals. It is ignored in comparisons and not written to CSV files.

    Attributes
    ----------
    values : array of float64
        The labels in increasing order. Read-only.
    masses : array of float64
        Their probabilities, which sum to one. Read-only.

    Raises
    ------
    InvalidInput
        If a value is given twice, or a mass is negative, or all masses are zero, or the counts do not fit.

    Privacy
    -------
    A prior estimated from labels carries its cost: `private_prior` sets `epsilon_exact`, and files keep it.

    Examples
    --------
    >>> from labeldp import Prior
    >>> prior = Prior([0, 10, 50], [2, 1, 1])
    >>> prior
    Prior(values=3, range=0 to 50, mean=15, sd=20.62, cost=public)
    >>> len(prior)
    3
    >>> prior.to_pandas()
       value  mass
    0    0.0  0.50
    1   10.0  0.25
    2   50.0  0.25
    """

    values: Floats
    masses: Floats
    epsilon_exact: Fraction = Fraction(0)
    counts: NoisyCounts | None = None

    def __init__(
        self, values: Any, masses: Any, epsilon_exact: Fraction = Fraction(0), counts: NoisyCounts | None = None
    ) -> None:
        if epsilon_exact < 0:
            raise InvalidInput(f"the epsilon that a prior cost must not be negative, got {abbreviated(epsilon_exact)}")
        if epsilon_exact > MOST_COST:
            raise InvalidInput(
                f"the epsilon that a prior cost must be at most {MOST_COST:,}, got {abbreviated(epsilon_exact)}: it gives "
                "no protection. If the prior is public, leave the epsilon out"
            )
        points = label_array(values, "prior values").copy()
        weights = label_array(masses, "prior masses").copy()
        if points.size == 0:
            raise InvalidInput("a prior needs at least one value")
        check_size(points, "prior values")
        if points.shape != weights.shape:
            raise InvalidInput(f"a prior needs one mass per value, got {points.size} values and {weights.size} masses")
        if (weights < 0).any():
            first = int(np.argmax(weights < 0))
            raise InvalidInput(f"prior masses must not be negative: that at index {first} is")
        if counts is not None and counts.values.size != points.size:
            raise InvalidInput(f"a prior needs one noisy count per value, got {counts.values.size} for {points.size}")
        if counts is not None and counts.epsilon_exact != epsilon_exact:
            raise InvalidInput("the noise of the prior's counts does not match the epsilon that the prior cost")
        order = np.argsort(points, kind="stable")
        points, weights = points[order], weights[order]
        same = np.flatnonzero(np.diff(points) <= 0)
        if same.size:
            first, second = sorted(order[same[0] : same[0] + 2].tolist())
            raise InvalidInput(
                f"prior values must differ: those at index {first} and index {second} are the same. Give it once, with "
                "the sum of its masses."
            )
        top = weights.max()
        if top <= 0:
            raise InvalidInput("prior masses must not all be zero")
        if abs(math.fsum(weights / top) * top - 1) > 1e-12:  # masses that sum to one already keep every bit
            weights /= top  # first, so that a sum of huge masses cannot overflow
            weights /= math.fsum(weights)
        for array in (points, weights):
            array.flags.writeable = False
        object.__setattr__(self, "values", points)
        object.__setattr__(self, "masses", weights)
        object.__setattr__(self, "epsilon_exact", epsilon_exact)
        object.__setattr__(self, "counts", None if counts is None else replace(counts, values=counts.values[order]))

    @classmethod
    def uniform(cls, domain: Domain | tuple[float, float]) -> Prior:
        """Return the prior with equal mass on every cell of a grid.

        Parameters
        ----------
        domain : Domain
            A domain with a number of cells. A tuple of bounds is not enough.

        Returns
        -------
        Prior
            A public prior, which costs nothing.

        Raises
        ------
        InvalidInput
            If the domain does not have a grid.

        Examples
        --------
        >>> from labeldp import Domain, Prior
        >>> Prior.uniform(Domain(0, 10, cells=3)).values.tolist()
        [0.0, 5.0, 10.0]
        """
        grid = Domain.of(domain).grid
        return cls(grid, np.ones(grid.size))

    @classmethod
    def from_csv(cls, path: str | Path) -> Prior:
        """Return the prior in a CSV file with the columns `value` and `mass`, and `epsilon` if it was not free.

        Parameters
        ----------
        path : str or pathlib.Path
            The file.

        Returns
        -------
        Prior
            With `epsilon_exact` from the column `epsilon`; 0 if there is none.

        Raises
        ------
        InvalidInput
            If there is no such file or it does not contain a prior. The message gives the line.
        """
        if not Path(path).is_file():
            raise InvalidInput(f"there is no file {path}; a prior is a CSV file with the columns value and mass")
        values, masses, costs, where = [], [], [Fraction(0)], f"{path}"
        try:
            with Path(path).open(newline="", encoding="utf-8-sig") as file:
                rows = csv.DictReader(file)
                found = rows.fieldnames or []
                if not {"value", "mass"} <= set(found):
                    raise InvalidInput("a prior needs the columns value and mass, named in the first line")
                for row in rows:
                    where = f"{path}, line {rows.line_num}"
                    values.append(plain_number(row["value"] or "", "a value", shown=False))
                    masses.append(plain_number(row["mass"] or "", "a mass", shown=False))
                    costs.append(_cost(row.get("epsilon")))
            where = f"{path}"
            return cls(values, masses, max(costs))
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from None
        except UnicodeDecodeError:
            raise InvalidInput(f"{path} is not UTF-8 text: save it as UTF-8") from None
        except (csv.Error, ValueError):  # their messages quote the file, which may contain labels
            raise InvalidInput(f"{where}: value and mass must be numbers, with a point for decimals") from None

    def to_csv(self, path: str | Path) -> None:
        """Write a CSV file from which `from_csv` reads exactly this prior.

        Parameters
        ----------
        path : str or pathlib.Path
            The file to write. It gets the columns `value` and `mass`, and `epsilon` if the prior was not free.
        """
        cost = f",{format_amount(self.epsilon_exact)}" if self.epsilon_exact else ""
        pairs = zip(self.values.tolist(), self.masses.tolist(), strict=True)
        lines = [f"{value!r},{mass!r}{cost}" for value, mass in pairs]
        Path(path).write_text("\n".join(["value,mass" + (",epsilon" if cost else ""), *lines, ""]), encoding="utf-8")

    def to_arrow(self) -> pa.Table:
        """Return the distribution as an Arrow table.

        Returns
        -------
        pyarrow.Table
            The columns `value` and `mass`, one row per value.
        """
        import pyarrow as pa

        return pa.table({"value": self.values, "mass": self.masses})

    @property
    def mean(self) -> float:
        """The expected label."""
        return float(self.masses @ self.values)

    @property
    def variance(self) -> float:
        """The variance of the label, which is the mean squared error of always predicting the mean."""
        return float(self.masses @ (self.values - self.mean) ** 2)

    def __len__(self) -> int:
        return int(self.values.size)

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

    def _facts(self) -> dict[str, str]:
        return {
            "values": f"{len(self):,}",
            "range": f"{self.values[0]:g} to {self.values[-1]:g}",
            "mean": f"{self.mean:.4g}",
            "sd": f"{math.sqrt(self.variance):.4g}",
            "cost": "public" if self.epsilon_exact == 0 else f"ε {self.epsilon:.4g}",
        }


def _cost(text: str | None) -> Fraction:
    try:
        return parse_amount(text or "0")
    except InvalidInput:
        raise InvalidInput("the epsilon is not written as a plain decimal or a fraction that is not negative") from None


def expect_prior(prior: object) -> None:
    """Raise `InvalidInput` unless the value is a `Prior`."""
    expect(prior, Prior, "prior", "make one with Prior(values, masses) or Prior.from_csv(path)")
