"""The range on which a loss is defined."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InvalidInput

_SHOWN = 3


@dataclass(frozen=True)
class Interval:
    """An interval of real numbers; infinite ends never belong to it.

    Parameters
    ----------
    lower, upper : float, optional
        The ends; infinite by default.
    lower_open, upper_open : bool, default False
        Whether the end itself lies outside.

    Examples
    --------
    >>> from labeldp.losses import Interval
    >>> positive = Interval(lower=0, lower_open=True)
    >>> print(positive)
    (0, inf)
    >>> positive.contains([0, 1]).tolist()
    [False, True]
    """

    lower: float = -math.inf
    upper: float = math.inf
    lower_open: bool = False
    upper_open: bool = False

    def contains(self, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each of `values` is finite and inside.

        Parameters
        ----------
        values : array-like of float
            The numbers to look at.

        Returns
        -------
        array of bool
            One answer per number.
        """
        array = np.asarray(values, dtype=np.float64)
        above = array > self.lower if self.lower_open else array >= self.lower
        below = array < self.upper if self.upper_open else array <= self.upper
        return np.asarray(np.isfinite(array) & above & below)

    def check(self, values: npt.ArrayLike, what: str) -> None:
        """Raise `InvalidInput` if some of `values` lie outside; the message says at which positions, and shows no value.

        Parameters
        ----------
        values : array-like of float
            The numbers to look at.
        what : str
            What the numbers are, for the message: "labels".
        """
        array: npt.NDArray[Any] = np.atleast_1d(np.asarray(values, dtype=np.float64))
        wrong = np.flatnonzero(~self.contains(array))
        if wrong.size:
            shown = ", ".join(str(i) for i in wrong[:_SHOWN])
            more = f" and {wrong.size - _SHOWN} more" if wrong.size > _SHOWN else ""
            raise InvalidInput(f"{what} must lie in {self}, which fails at position {shown}{more}")

    def __str__(self) -> str:
        left = "(" if self.lower_open or math.isinf(self.lower) else "["
        right = ")" if self.upper_open or math.isinf(self.upper) else "]"
        return f"{left}{self.lower:g}, {self.upper:g}{right}"


REALS = Interval()
