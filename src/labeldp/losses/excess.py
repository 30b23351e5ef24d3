"""Two functions that vanish to second order at 0, without the cancellation of their textbook forms.

Deviances of labels near 10⁹ that differ by 1 are made of terms 10¹⁸ times larger than themselves; these keep all digits.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from labeldp.losses.base import FloatArray, as_float

NEAR = 0.25
"""The series is for |t| below this."""
_TERMS = 11

_Number = TypeVar("_Number", float, FloatArray)


def log_excess(t: npt.ArrayLike) -> FloatArray:
    """The excess t − log(1 + t) for t > −1, to a relative error of a few units in the last place."""
    t = as_float(t)
    near = np.where(np.abs(t) < NEAR, t, 0.0)
    far = np.where(np.abs(t) < NEAR, 1.0, t)
    s, tail = log_series(near)
    return np.where(np.abs(t) < NEAR, near * s - tail, far - np.log1p(far))


def entropy_excess(t: npt.ArrayLike) -> FloatArray:
    """The excess (1 + t)·log(1 + t) − t for t ≥ −1, to a relative error of a few units in the last place."""
    t = as_float(t)
    near = np.where(np.abs(t) < NEAR, t, 0.0)
    far = np.where((np.abs(t) < NEAR) | (t <= -1), 1.0, t)
    s, tail = log_series(near)
    value = np.where(np.abs(t) < NEAR, near * s + tail * (1 + near), (1 + far) * np.log1p(far) - far)
    return np.where(t <= -1, 1.0, value)


def log_series(t: _Number) -> tuple[_Number, _Number]:
    """With s = t/(2 + t): log(1 + t) = 2s + tail, tail = 2s³(1/3 + s²/5 + …), and t − 2s = t·s exactly.

    Nothing but arithmetic, for arrays as for the single numbers of compiled code.
    """
    s = t / (2 + t)
    square = s * s
    total = 0.0 * square
    for n in range(_TERMS, -1, -1):
        total = total * square + 1 / (2 * n + 3)
    return s, 2 * s * square * total
