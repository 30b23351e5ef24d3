"""Compiled loops of the spill: rows brought into the order of their partitions and keys.

Shifts and offsets stay in unsigned 64 bits: numba turns `uint64 + int` into a float.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_ONE = np.uint64(1)


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
