"""t − log(1 + t) and (1 + t)·log(1 + t) − t, the functions that deviances are made of, without cancellation near t = 0.

For labels near 10⁹ that differ by 1, the textbook forms subtract terms 10¹⁸ times larger than the result.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.losses.base import as_float

NEAR = 0.25
"""The series is used for |t| below this."""
_TERMS = 11

_Number = TypeVar("_Number", float, Floats)


def log_excess(t: npt.ArrayLike) -> Floats:
    """T − log(1 + t) for t > −1, to a relative error of a few units in the last place."""
    t = as_float(t)
    near = np.where(np.abs(t) < NEAR, t, 0.0)
    far = np.where(np.abs(t) < NEAR, 1.0, t)
    s, tail = log_series(near)
    return np.where(np.abs(t) < NEAR, near * s - tail, far - np.log1p(far))


def entropy_excess(t: npt.ArrayLike) -> Floats:
    """(1 + t)·log(1 + t) − t for t ≥ −1, to a relative error of a few units in the last place."""
    t = as_float(t)
    near = np.where(np.abs(t) < NEAR, t, 0.0)
    far = np.where((np.abs(t) < NEAR) | (t <= -1), 1.0, t)
    s, tail = log_series(near)
    value = np.where(np.abs(t) < NEAR, near * s + tail * (1 + near), (1 + far) * np.log1p(far) - far)
    return np.where(t <= -1, 1.0, value)


def log_series(t: _Number) -> tuple[_Number, _Number]:
    """The pair (s, tail) with s = t/(2 + t) and log(1 + t) = 2s + tail, where tail = 2s³(1/3 + s²/5 + …).

    Since t − 2s = t·s, nothing cancels: t − log(1 + t) = t·s − tail. It uses plain arithmetic only, so that it works for
    arrays and for the single numbers of compiled code.
    """
    s = t / (2 + t)
    square = s * s
    total = 0.0 * square
    for n in range(_TERMS, -1, -1):
        total = total * square + 1 / (2 * n + 3)
    return s, 2 * s * square * total
