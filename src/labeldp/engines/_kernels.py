"""Compiled loops of the spill: a bijective mix of integer ids, and rows gathered by partition."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_I1, _I2 = np.uint64(0x96DE1B173F119089), np.uint64(0x319642B2D24D8EC3)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S60, _S54, _S62 = np.uint64(60), np.uint64(54), np.uint64(62)


@nb.njit(cache=True)  # type: ignore[untyped-decorator]
def mix(words: Any, mixed: Any) -> None:  # pragma: no cover - compiled
    """SplitMix64's finaliser: a bijection that spreads consecutive ids over all partitions."""
    for i in range(words.size):
        x = words[i]
        x = (x ^ (x >> _S30)) * _M1
        x = (x ^ (x >> _S27)) * _M2
        mixed[i] = x ^ (x >> _S31)


@nb.njit(cache=True)  # type: ignore[untyped-decorator]
def unmix(mixed: Any, words: Any) -> None:  # pragma: no cover - compiled
    for i in range(mixed.size):
        x = mixed[i]
        x = (x ^ (x >> _S31) ^ (x >> _S62)) * _I2
        x = (x ^ (x >> _S27) ^ (x >> _S54)) * _I1
        words[i] = x ^ (x >> _S30) ^ (x >> _S60)


@nb.njit(cache=True)  # type: ignore[untyped-decorator]
def gather_by_partition(keys: Any, shift: Any, starts: Any, order: Any) -> None:  # pragma: no cover - compiled
    """Counting sort by the keys' leading bits: `order[starts[p]:starts[p+1]]` are the rows of partition p."""
    for i in range(keys.size):
        starts[(keys[i] >> shift) + np.uint64(1)] += 1
    for p in range(1, starts.size):
        starts[p] += starts[p - 1]
    place = starts[:-1].copy()
    for i in range(keys.size):
        p = keys[i] >> shift
        order[place[p]] = i
        place[p] += 1
