"""A distribution on label values, public or paid for, and its CSV file."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.arrays import Floats, label_array
from labeldp.budget import float_up, format_amount, parse_amount
from labeldp.domain import Domain
from labeldp.errors import InvalidInput


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
                        cost = max(cost, parse_amount(row.get("epsilon") or "0"))
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
        cost = f",{format_amount(self.epsilon_exact)}" if self.epsilon_exact else ""
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
