"""The public frame of the labels: bounds and a grid, given by the user and never read off the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, label_array, offending_rows
from labeldp.errors import InvalidInput

MAX_CELLS = 2**32
OutOfRange = Literal["clip", "error"]


@dataclass(frozen=True)
class Domain:
    """Bounds on the labels and the grid on which their distribution is estimated.

    `cells` grid points lie evenly from `lower` to `upper`, both included. Left out, it is chosen from the number of
    records and ε when a prior is drawn (`resolve`), never from the labels. `whole` says in public that labels are whole
    numbers, as those of `integers` are: intervals around estimates are narrower for it.

    >>> Domain(0, 400, cells=401).step
    1.0
    """

    lower: float
    upper: float
    cells: int | None = None
    whole: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            value = getattr(self, name)
            if isinstance(value, (bool, str)) or not math.isfinite(_number(value, name)):
                raise InvalidInput(f"the domain's {name} bound must be a finite number, got {value!r}")
            object.__setattr__(self, name, float(value))
        if not self.lower < self.upper:
            raise InvalidInput(
                f"the domain's lower bound must be below its upper bound, got lower = {self.lower:g}, upper = {self.upper:g}"
            )
        if not math.isfinite(self.upper - self.lower):
            raise InvalidInput(f"the domain {self.lower:g} to {self.upper:g} is too wide for floating point")
        if self.cells is not None:
            if isinstance(self.cells, bool) or int(self.cells) != self.cells or not 2 <= self.cells <= MAX_CELLS:
                raise InvalidInput(f"cells must be a whole number from 2 to 2^32, got {self.cells!r}")
            object.__setattr__(self, "cells", int(self.cells))
            if not self.lower + self.step > self.lower or not self.upper - self.step < self.upper:
                raise InvalidInput(
                    f"{self.cells:,} cells between {self.lower!r} and {self.upper!r} are finer than floats"
                )
        if self.whole and not (self.lower.is_integer() and self.cells == self.upper - self.lower + 1):
            raise InvalidInput(f"whole labels have a cell each, use Domain.integers(lower, upper); got {self!r}")

    @classmethod
    def integers(cls, lower: int, upper: int) -> Domain:
        """Whole numbers from `lower` to `upper`, one cell each: `Domain.integers(0, 52)` for weeks."""
        for name, value in (("lower", lower), ("upper", upper)):
            if isinstance(value, bool) or int(_number(value, name)) != value:
                raise InvalidInput(f"the {name} bound of integer labels must be a whole number, got {value!r}")
        if not lower < upper:
            raise InvalidInput(f"integer labels need lower < upper, got {lower}:{upper}")
        return cls(lower, upper, int(upper) - int(lower) + 1, whole=True)

    @classmethod
    def of(cls, domain: Domain | tuple[float, float]) -> Domain:
        """A `Domain`, or a `(lower, upper)` pair made into one."""
        if isinstance(domain, Domain):
            return domain
        if domain is None:
            raise InvalidInput(
                "domain must be given, for example domain=(0, 400): bounds read off the labels would reveal them"
            )
        try:
            lower, upper = domain
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"domain must be a Domain or a (lower, upper) pair, got {domain!r}") from error
        return cls(lower, upper)

    @property
    def record(self) -> list[Any]:
        """The domain for JSON: `Domain(*record)` gives it back."""
        return [self.lower, self.upper, self.cells, *([True] if self.whole else [])]

    @property
    def step(self) -> float:
        """The distance between neighbouring grid points."""
        return (self.upper - self.lower) / (self.count - 1)

    @property
    def grid(self) -> Floats:
        """The grid points, in increasing order."""
        return np.linspace(self.lower, self.upper, self.count)

    def resolve(self, records: int, epsilon: float) -> Domain:
        """This domain with a grid: the one given, or as many cells as n·ε²/100 allows, at least 2 and at most 1,001.

        At that size the prior costs a tenth of the budget (√(k/n) = ε/10) or less.
        """
        if self.cells is not None:
            return self
        return Domain(self.lower, self.upper, int(min(1001, max(2, records * epsilon**2 / 100))))

    def check(self, labels: Any, out_of_range: OutOfRange = "clip") -> Floats:
        """Labels as finite floats inside the bounds: clipped into them, or refused with the first offending rows."""
        values = label_array(labels)
        outside = (values < self.lower) | (values > self.upper)
        if not outside.any():
            return values
        if out_of_range == "error":
            raise InvalidInput(
                f"labels must lie from {self.lower:g} to {self.upper:g}: {offending_rows(outside, values)} outside. "
                'Widen the bounds, or use out_of_range="clip".'
            )
        if out_of_range != "clip":
            raise InvalidInput(f'out_of_range must be "clip" or "error", got {out_of_range!r}')
        return np.clip(values, self.lower, self.upper)

    def cell(self, labels: Any) -> NDArray[np.uint32]:
        """The number of the nearest grid point of each label; labels outside the bounds go to the nearest end."""
        values = np.asarray(labels, np.float64)
        position = np.rint((np.clip(values, self.lower, self.upper) - self.lower) / self.step)
        return np.minimum(position, self.count - 1).astype(np.uint32)

    @property
    def count(self) -> int:
        """The number of cells; an error where they are not chosen yet."""
        if self.cells is None:
            raise InvalidInput("this domain has no grid yet: give cells, or call resolve(records, epsilon)")
        return self.cells

    def __repr__(self) -> str:
        grid = "" if self.cells is None else f", cells={self.cells}"
        return f"Domain({self.lower:g}, {self.upper:g}{grid})"


def _number(value: object, name: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the domain's {name} bound must be a number, got {value!r}") from error
