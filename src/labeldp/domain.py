"""Bounds and a grid for the labels. The user gives them; they are never read off the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, label_array, offending_rows
from labeldp.errors import InvalidInput

MAX_CELLS = 2**32
MOST_DEFAULT_CELLS = 1001
OutOfRange = Literal["clip", "error"]


@dataclass(frozen=True)
class Domain:
    """Public bounds on the labels, and the grid on which their distribution is estimated.

    Wherever labeldp takes a domain, a tuple `(lower, upper)` works too.

    Parameters
    ----------
    lower, upper : float
        The bounds. Choose them from public knowledge: bounds read off the labels would reveal labels.
    cells : int, optional
        The number of grid points, spread evenly from `lower` to `upper`, both included. Left out, it is chosen from the
        number of records and ε when a prior is estimated (see `resolve`), never from the labels.
    whole : bool, default False
        Whether it is public that all labels are whole numbers. Estimates then come with narrower intervals. Use
        `Domain.integers` to set it.

    Raises
    ------
    InvalidInput
        If the bounds are not finite, not in order, or too close for the number of cells.

    Examples
    --------
    >>> from labeldp import Domain
    >>> Domain(0, 400, cells=401).step
    1.0
    >>> Domain.integers(0, 52)
    Domain(0, 52, cells=53)
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
                    f"{self.cells:,} cells between {self.lower!r} and {self.upper!r} are closer together than floats"
                )
        if self.whole and not (self.lower.is_integer() and self.cells == self.upper - self.lower + 1):
            raise InvalidInput(
                f"whole labels need one cell per integer; use Domain.integers(lower, upper) instead of {self!r}"
            )

    @classmethod
    def integers(cls, lower: int, upper: int) -> Domain:
        """The domain of the whole numbers from `lower` to `upper`, with one cell for each.

        Parameters
        ----------
        lower, upper : int
            The smallest and the largest label.

        Returns
        -------
        Domain
            With `upper − lower + 1` cells, and `whole` set.
        """
        for name, value in (("lower", lower), ("upper", upper)):
            if isinstance(value, bool) or int(_number(value, name)) != value:
                raise InvalidInput(f"the {name} bound of integer labels must be a whole number, got {value!r}")
        if not lower < upper:
            raise InvalidInput(f"integer labels need lower < upper, got {lower}:{upper}")
        return cls(lower, upper, int(upper) - int(lower) + 1, whole=True)

    @classmethod
    def of(cls, domain: Domain | tuple[float, float]) -> Domain:
        """The domain itself, or the one with these bounds and no grid yet.

        Parameters
        ----------
        domain : Domain or tuple of (float, float)
            A domain, or its bounds.

        Returns
        -------
        Domain
            `domain` itself if it is one.

        Raises
        ------
        InvalidInput
            If it is neither. There is no default, because bounds must not come from the labels.
        """
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

    def to_json(self) -> list[Any]:
        """The fields as a list that JSON can hold.

        Returns
        -------
        list
            What `Domain(*fields)` makes this domain from.
        """
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
        """This domain with a grid: its own, or n·ε²/100 cells, but at least 2 and at most 1,001.

        With that many cells k, a prior costs at most a tenth of the budget: √(k/n) ≤ ε/10.

        Parameters
        ----------
        records : int
            The number of labels n, which is public.
        epsilon : float
            The budget for the prior and the labels together.

        Returns
        -------
        Domain
            With a number of cells.
        """
        if self.cells is not None:
            return self
        return Domain(self.lower, self.upper, int(min(MOST_DEFAULT_CELLS, max(2, records * epsilon**2 / 100))))

    def check(self, labels: Any, out_of_range: OutOfRange = "clip") -> Floats:
        """The labels as finite floats within the bounds.

        Parameters
        ----------
        labels : array-like
            A list, or a NumPy, pandas, polars or Arrow array of numbers.
        out_of_range : {"clip", "error"}, default "clip"
            Whether labels outside the bounds are moved to the nearer bound or raise an error.

        Returns
        -------
        array of float64
            One number per label.

        Raises
        ------
        InvalidInput
            If a label is missing, not a number, or, with "error", outside. The message names the first such rows.
        """
        check_out_of_range(out_of_range)
        values = label_array(labels)
        outside = (values < self.lower) | (values > self.upper)
        if not outside.any():
            return values
        if out_of_range == "error":
            raise InvalidInput(
                f"labels must lie from {self.lower:g} to {self.upper:g}: {offending_rows(outside, values)} outside. "
                'Widen the bounds, or use out_of_range="clip".'
            )
        return np.clip(values, self.lower, self.upper)

    def cell(self, labels: Any) -> NDArray[np.uint32]:
        """The index of the grid point nearest to each label.

        Parameters
        ----------
        labels : array-like of float
            The labels; those outside the bounds go to the nearer end of the grid.

        Returns
        -------
        array of uint32
            Indices into `grid`.
        """
        values = np.asarray(labels, np.float64)
        position = np.rint((np.clip(values, self.lower, self.upper) - self.lower) / self.step)
        return np.minimum(position, self.count - 1).astype(np.uint32)

    @property
    def count(self) -> int:
        """The number of cells; raises `InvalidInput` if there is no grid yet."""
        if self.cells is None:
            raise InvalidInput(
                f"{self!r} has no grid yet: give cells, as in Domain(0, 400, cells=401), or call resolve(records, epsilon)"
            )
        return self.cells

    def __repr__(self) -> str:
        grid = "" if self.cells is None else f", cells={self.cells}"
        return f"Domain({self.lower:g}, {self.upper:g}{grid})"


def _number(value: object, name: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the domain's {name} bound must be a number, got {value!r}") from error


def check_out_of_range(out_of_range: object) -> None:
    """Refuse anything but "clip" and "error"."""
    if out_of_range not in ("clip", "error"):
        raise InvalidInput(f'out_of_range must be "clip" or "error", got {out_of_range!r}')
