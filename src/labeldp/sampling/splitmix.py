"""SplitMix64's finaliser: a bijection of 64-bit words whose images show no trace of the order of the words."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import vectorize

from labeldp.sampling.table import Words

_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_I1, _I2 = np.uint64(0x96DE1B173F119089), np.uint64(0x319642B2D24D8EC3)  # inverses of the multipliers modulo 2^64
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S60, _S54, _S62 = np.uint64(60), np.uint64(54), np.uint64(62)


def _mix(x: Any) -> Any:  # pragma: no cover - compiled
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


def _unmix(x: Any) -> Any:  # pragma: no cover - compiled
    x = (x ^ (x >> _S31) ^ (x >> _S62)) * _I2
    x = (x ^ (x >> _S27) ^ (x >> _S54)) * _I1
    return x ^ (x >> _S30) ^ (x >> _S60)


mix: Callable[[Words], Words] = vectorize(cache=True)(_mix)
"""The image of each word of an array."""

unmix: Callable[[Words], Words] = vectorize(cache=True)(_unmix)
"""The words whose images are given: the inverse of `mix`."""
