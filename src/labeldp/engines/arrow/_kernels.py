"""Compiled loops of the spill, which sort rows by partition and key.

Shifts and offsets are unsigned 64-bit integers, because numba turns `uint64 + int` into a float.
"""

from typing import Any

import numba as nb
import numpy as np

_ONE = np.uint64(1)


@nb.njit(cache=True)  # type: ignore[untyped-decorator]
def gather_by_partition(keys: Any, skipped: Any, shift: Any, starts: Any, order: Any) -> None:  # pragma: no cover
    """Counting sort by the key bits after the skipped ones. Partition p has the rows `order[starts[p]:starts[p + 1]]`."""
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
    """Finishes a sort: `order` lists the rows bucket by bucket, and each short bucket is sorted by insertion."""
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
    """Copies the strings `content[ends[i]:ends[i + 1]]` in another order into `gathered`, whose `new_ends` are given."""
    for i in range(order.size):
        source, target = np.uint64(ends[order[i]]), np.uint64(new_ends[i])
        # unsigned indices need no test for negative ones, which makes this 8 times faster
        for j in range(np.uint64(new_ends[i + 1]) - target):
            gathered[target + j] = content[source + j]


@nb.njit(cache=True)  # type: ignore[untyped-decorator]
def mark_known(low: Any, high: Any, known_low: Any, known_high: Any, marks: Any) -> None:  # pragma: no cover - compiled
    """Marks the (low, high) pairs that occur among the known ones. Both sides are sorted."""
    j = 0
    for i in range(low.size):
        while j < known_low.size and (known_low[j] < low[i] or (known_low[j] == low[i] and known_high[j] < high[i])):
            j += 1
        marks[i] = j < known_low.size and known_low[j] == low[i] and known_high[j] == high[i]
