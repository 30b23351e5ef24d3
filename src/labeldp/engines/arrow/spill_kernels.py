"""Compiled loops of the spill. They move rows into parts by leading bits of their keys, and sort parts that fit into the cache.

Rows are read in their order and appended to a few hundred parts, because reading them in another order would wait for
memory at every row. Shifts and indices are unsigned 64-bit integers, because numba checks signed indices for negative
values. The loops release the interpreter's lock, so that reading and writing
files can continue.
"""

from typing import Any

import numpy as np

from labeldp.arrays import compiled
from labeldp.sampling.ids import mixed

_ONE = np.uint64(1)
_mixed = compiled(mixed)


@compiled
def mix_keys(words: Any, keys: Any) -> None:
    """Compute the key of each integer id."""
    for i in range(words.size):
        keys[i] = _mixed(words[i])


@compiled
def part_integers(
    keys: Any, codes: Any, skipped: Any, shift: Any, starts: Any, parted_keys: Any, parted_codes: Any
) -> None:
    """Order rows by the bits of their keys after the skipped ones. Part p has the rows `starts[p]` to `starts[p + 1]`."""
    for i in range(keys.size):
        starts[((keys[i] << skipped) >> shift) + _ONE] += 1
    for p in range(1, starts.size):
        starts[p] += starts[p - 1]
    place = starts[:-1].copy()
    for i in range(keys.size):
        p = (keys[i] << skipped) >> shift
        row = np.uint64(place[p])
        place[p] += 1
        parted_keys[row] = keys[i]
        parted_codes[row] = codes[i]


@compiled
def part_texts(
    low: Any, high: Any, codes: Any, content: Any, ends: Any, skipped: Any, shift: Any,
    starts: Any, text_starts: Any, parted_low: Any, parted_high: Any, parted_codes: Any, parted_text: Any, parted_ends: Any,
) -> None:  # fmt: skip
    """Do the same for rows with texts `content[ends[i]:ends[i + 1]]`, whose parts have the bytes `text_starts[p]` to `text_starts[p + 1]`.

    The first entry of `parted_ends` is 0, and then each row has the offset where its text ends.
    """
    for i in range(low.size):
        p = ((low[i] << skipped) >> shift) + _ONE
        starts[p] += 1
        text_starts[p] += ends[i + 1] - ends[i]
    for p in range(1, starts.size):
        starts[p] += starts[p - 1]
        text_starts[p] += text_starts[p - 1]
    place, text_place = starts[:-1].copy(), text_starts[:-1].copy()
    parted_ends[0] = 0
    for i in range(low.size):
        p = (low[i] << skipped) >> shift
        row = np.uint64(place[p])
        place[p] += 1
        parted_low[row], parted_high[row], parted_codes[row] = low[i], high[i], codes[i]
        source, target = np.uint64(ends[i]), np.uint64(text_place[p])
        text_place[p] += ends[i + 1] - ends[i]
        parted_ends[row + _ONE] = text_place[p]
        _copy(content, source, parted_text, target, np.uint64(ends[i + 1]) - source)


@compiled
def sort_parts(
    low: Any, high: Any, starts: Any, skipped: Any, fine: Any, longest: Any, ordered: Any, order: Any
) -> bool:
    """Sort the rows of each part: `order` gets their indices and `ordered` their `low`. Return whether it was possible.

    A part is divided by the `fine` bits of its keys after the skipped ones into buckets of a few rows, which are sorted
    by insertion. A bucket of more than `longest` rows would take very long: then it returns False, and the result must
    not be used.
    """
    shift = np.uint64(64) - fine
    place = np.empty((1 << fine) + 1, np.int64)
    for part in range(starts.size - 1):
        first, end = starts[part], starts[part + 1]
        place[:] = 0
        for i in range(first, end):
            place[((low[i] << skipped) >> shift) + _ONE] += 1
        place[0] = first
        for b in range(1, place.size):
            if place[b] > longest:
                return False
            place[b] += place[b - 1]
        for i in range(first, end):
            b = (low[i] << skipped) >> shift
            row = np.uint64(place[b])
            place[b] += 1
            ordered[row], order[row] = low[i], i
        for i in range(first + 1, end):  # never moves past a row of an earlier bucket, whose key is smaller
            key, row = ordered[i], order[i]
            j = i
            while j > first and (ordered[j - 1] > key or (ordered[j - 1] == key and high[order[j - 1]] > high[row])):
                ordered[j], order[j] = ordered[j - 1], order[j - 1]
                j -= 1
            ordered[j], order[j] = key, row
    return True


@compiled
def gather_text(content: Any, ends: Any, order: Any, new_ends: Any, gathered: Any) -> None:
    """Copy the strings `content[ends[i]:ends[i + 1]]` in another order into `gathered`, and their ends into `new_ends`."""
    target = np.uint64(0)
    new_ends[0] = 0
    for i in range(order.size):
        source = np.uint64(ends[order[i]])
        size = np.uint64(ends[order[i] + 1]) - source
        _copy(content, source, gathered, target, size)
        target += size
        new_ends[i + 1] = target


@compiled
def _copy(content: Any, source: Any, copied: Any, target: Any, size: Any) -> None:
    """Copy some bytes. All are unsigned, so that the compiler can copy many at a time."""
    for j in range(size):
        copied[target + j] = content[source + j]


@compiled
def mark_known(low: Any, high: Any, known_low: Any, known_high: Any, marks: Any) -> None:
    """Mark the (low, high) pairs that occur among the known ones. Both sides are sorted."""
    j = 0
    for i in range(low.size):
        while j < known_low.size and (known_low[j] < low[i] or (known_low[j] == low[i] and known_high[j] < high[i])):
            j += 1
        marks[i] = j < known_low.size and known_low[j] == low[i] and known_high[j] == high[i]
