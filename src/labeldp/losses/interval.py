"""The range on which a loss is defined, and the refusal of values outside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InvalidInput

_SHOWN = 3


@dataclass(frozen=True)
class Interval:
    """An interval of real numbers; infinite ends are never included."""

    lower: float = -math.inf
    upper: float = math.inf
    lower_open: bool = False
    upper_open: bool = False

    def contains(self, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which of `values` are finite and inside."""
        array = np.asarray(values, dtype=np.float64)
        above = array > self.lower if self.lower_open else array >= self.lower
        below = array < self.upper if self.upper_open else array <= self.upper
        return np.asarray(np.isfinite(array) & above & below)

    def check(self, values: npt.ArrayLike, what: str) -> None:
        """Refuse values outside, naming the first few and where they are; `what` says what they are."""
        array: npt.NDArray[Any] = np.atleast_1d(np.asarray(values, dtype=np.float64))
        wrong = np.flatnonzero(~self.contains(array))
        if wrong.size:
            shown = ", ".join(f"{array[i]!s} at position {i}" for i in wrong[:_SHOWN])
            more = f" and {wrong.size - _SHOWN} more" if wrong.size > _SHOWN else ""
            raise InvalidInput(f"{what} must lie in {self}, got {shown}{more}")

    def __str__(self) -> str:
        left = "(" if self.lower_open or math.isinf(self.lower) else "["
        right = ")" if self.upper_open or math.isinf(self.upper) else "]"
        return f"{left}{self.lower:g}, {self.upper:g}{right}"


REALS = Interval()
