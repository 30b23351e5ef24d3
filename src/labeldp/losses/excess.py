"""Two functions that vanish to second order at 0, without the cancellation of their textbook forms.

Deviances of labels near 10⁹ that differ by 1 are made of terms 10¹⁸ times larger than themselves; these keep all digits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from labeldp.losses.base import FloatArray, as_float

_NEAR = 0.25
_TERMS = 11


def log_excess(t: npt.ArrayLike) -> FloatArray:
    """The excess t − log(1 + t) for t > −1, to a relative error of a few units in the last place."""
    t = as_float(t)
    near = np.where(np.abs(t) < _NEAR, t, 0.0)
    far = np.where(np.abs(t) < _NEAR, 1.0, t)
    s, tail = _series(near)
    return np.where(np.abs(t) < _NEAR, near * s - tail, far - np.log1p(far))


def entropy_excess(t: npt.ArrayLike) -> FloatArray:
    """The excess (1 + t)·log(1 + t) − t for t ≥ −1, to a relative error of a few units in the last place."""
    t = as_float(t)
    near = np.where(np.abs(t) < _NEAR, t, 0.0)
    far = np.where((np.abs(t) < _NEAR) | (t <= -1), 1.0, t)
    s, tail = _series(near)
    value = np.where(np.abs(t) < _NEAR, near * s + tail * (1 + near), (1 + far) * np.log1p(far) - far)
    return np.where(t <= -1, 1.0, value)


def _series(t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """With s = t/(2 + t): log(1 + t) = 2s + tail, tail = 2s³(1/3 + s²/5 + …), and t − 2s = t·s exactly."""
    s = t / (2 + t)
    square = s * s
    total = np.zeros_like(s)
    for n in range(_TERMS, -1, -1):
        total = total * square + 1 / (2 * n + 3)
    return s, 2 * s * square * total
