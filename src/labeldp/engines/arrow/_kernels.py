"""Compiled loops of the spill: a bijective mix of integer ids, rows brought into the order of their partitions and keys.

Shifts and offsets stay in unsigned 64 bits: numba turns `uint64 + int` into a float.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_I1, _I2 = np.uint64(0x96DE1B173F119089), np.uint64(0x319642B2D24D8EC3)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S60, _S54, _S62 = np.uint64(60), np.uint64(54), np.uint64(62)
_ONE = np.uint64(1)


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
def gather_by_partition(keys: Any, skipped: Any, shift: Any, starts: Any, order: Any) -> None:  # pragma: no cover
    """Counting sort by the keys' bits after the skipped ones: `order[starts[p]:starts[p+1]]` are the rows of partition p."""
    for i in range(keys.size):
        starts[((keys[i] << skipped) >> shift) + _ONE] += 1
    for p in range(1, starts.size):
        starts[p] += starts[p - 1]
    place = starts[:-1].copy()
    for i in range(keys.size):
        p = (keys[i] << skipped) >> shift
        order[place[p]] = i
        place[p] += 1


@nb.njit(cache=True)  # type: ignore[untyped-decorator]
def sort_buckets(keys: Any, starts: Any, order: Any) -> None:  # pragma: no cover - compiled
    """Finishes a sort: `order` has the rows by bucket, and within each short bucket they are put in by insertion."""
    for p in range(starts.size - 1):
        for i in range(starts[p] + 1, starts[p + 1]):
            row = order[i]
            key = keys[row]
            j = i
            while j > starts[p] and keys[order[j - 1]] > key:
                order[j] = order[j - 1]
                j -= 1
            order[j] = row


@nb.njit(cache=True)  # type: ignore[untyped-decorator]
def gather_text(
    content: Any, ends: Any, order: Any, new_ends: Any, gathered: Any
) -> None:  # pragma: no cover - compiled
    """The strings `content[ends[i]:ends[i + 1]]` in another order, one after the other; `new_ends` is known."""
    for i in range(order.size):
        source, target = np.uint64(ends[order[i]]), np.uint64(new_ends[i])
        for j in range(
            np.uint64(new_ends[i + 1]) - target
        ):  # unsigned places need no test for negative ones: 8 times faster
            gathered[target + j] = content[source + j]


@nb.njit(cache=True)  # type: ignore[untyped-decorator]
def mark_held(low: Any, high: Any, held_low: Any, held_high: Any, held: Any) -> None:  # pragma: no cover - compiled
    """Which pairs occur among the held ones; both sides are sorted by (low, high)."""
    j = 0
    for i in range(low.size):
        while j < held_low.size and (held_low[j] < low[i] or (held_low[j] == low[i] and held_high[j] < high[i])):
            j += 1
        held[i] = j < held_low.size and held_low[j] == low[i] and held_high[j] == high[i]
