"""SplitMix64's finaliser: a bijection of 64-bit words that leaves nothing of their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_I1, _I2 = np.uint64(0x96DE1B173F119089), np.uint64(0x319642B2D24D8EC3)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S60, _S54, _S62 = np.uint64(60), np.uint64(54), np.uint64(62)


def mix(words: Words) -> Words:
    """Each word's image."""
    mixed = np.empty(words.size, np.uint64)
    _mix(words, mixed)
    return mixed


def unmix(mixed: Words) -> Words:
    """The words that `mix` gave these images."""
    words = np.empty(mixed.size, np.uint64)
    _unmix(mixed, words)
    return words


@njit(cache=True)  # type: ignore[untyped-decorator]
def _mix(words: Any, mixed: Any) -> None:  # pragma: no cover - compiled
    for i in range(words.size):
        x = words[i]
        x = (x ^ (x >> _S30)) * _M1
        x = (x ^ (x >> _S27)) * _M2
        mixed[i] = x ^ (x >> _S31)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _unmix(mixed: Any, words: Any) -> None:  # pragma: no cover - compiled
    for i in range(mixed.size):
        x = mixed[i]
        x = (x ^ (x >> _S31) ^ (x >> _S62)) * _I2
        x = (x ^ (x >> _S27) ^ (x >> _S54)) * _I1
        words[i] = x ^ (x >> _S30) ^ (x >> _S60)
