"""A check for duplicate ids in a message, in memory that does not grow with the message.

Every id is hashed to a 64-bit word with a key drawn for the check, so that an attacker cannot choose ids that collide.
Up to `IN_MEMORY` words are sorted in memory. Larger numbers are distributed to temporary files by their first bits, and
each file is sorted separately. Ids whose words occur twice are read again and compared. Each batch is also checked when
it arrives: otherwise equal ids would all go to one file, which might not fit into memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling.ids import digest_ids

Words = NDArray[np.uint64]
Rows = tuple[pa.Array, Any]
"""The ids of some records, and their data."""

IN_MEMORY = 1 << 23
"""The number of rows that are checked in memory. Sorting takes 16 bytes per row."""

MOST_FILES = 256
SUSPECTS_AT_ONCE = 1 << 16


def without_repeats(read: Callable[[], Iterator[Rows]], rows: int, where: Path) -> Iterator[Rows]:
    """Yield the batches of `read`. Raise `InvalidInput` if an id occurs twice, before its batch or after the last row.

    `read` is called again only if two words are equal. `rows` is the expected number of rows.
    """
    key = os.urandom(32)
    with ExitStack() as stack:
        words = _Words(rows, stack)
        for batch in read():
            _compare(read, key, words.add(_words(batch[0], key)), where)
            yield batch
        for suspects in words.repeated():
            _compare(read, key, suspects, where)


class _Words:
    """Words in memory, or in temporary files small enough to sort each in the memory of `IN_MEMORY` rows."""

    def __init__(self, rows: int, stack: ExitStack) -> None:
        self._bits = min((max(rows - 1, 0) // IN_MEMORY).bit_length(), MOST_FILES.bit_length() - 1)
        self._kept: list[Words] = []
        self._files: list[BinaryIO] = []
        if self._bits:
            files = (TemporaryFile() for _ in range(1 << self._bits))  # noqa: SIM115 - the stack closes them
            self._files = [stack.enter_context(file) for file in files]

    def add(self, words: Words) -> Words:
        """Keep the words of a batch, and return the words that occur in it more than once."""
        ordered = np.sort(words)
        repeated = _repeated(ordered)
        if not self._files:
            self._kept.append(ordered)
            return repeated
        shift = 64 - self._bits
        ends = np.searchsorted(ordered, np.arange(1, len(self._files), dtype=np.uint64) << np.uint64(shift))
        for file, part in zip(self._files, np.split(ordered, ends), strict=True):
            file.write(part.tobytes())
        return repeated

    def repeated(self) -> Iterator[Words]:
        """Yield the words that occur more than once, part by part."""
        if not self._files:
            yield _repeated(np.sort(np.concatenate(self._kept or [np.empty(0, np.uint64)])))
            return
        for file in self._files:
            file.seek(0)
            yield _repeated(np.sort(np.frombuffer(file.read(), np.uint64)))


def _repeated(ordered: Words) -> Words:
    """Return the words that occur more than once among sorted ones."""
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def _words(ids: pa.Array, key: bytes) -> Words:
    """Return 64 bits for each id: text hashed by keyed BLAKE2b, integers mixed by multiplication so that all bits vary."""
    low: Words = digest_ids(ids, key).low
    odd, other = np.frombuffer(key[:16], np.uint64) | np.uint64(1)
    mixed: Words = (low ^ np.frombuffer(key[16:24], np.uint64)) * odd
    mixed ^= mixed >> np.uint64(32)
    mixed *= other
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _compare(read: Callable[[], Iterator[Rows]], key: bytes, suspects: Words, where: Path) -> None:
    """Raise `InvalidInput` if ids with these words are equal. Two different ids may have the same word by chance."""
    for first in range(0, suspects.size, SUSPECTS_AT_ONCE):
        _compare_some(read(), key, suspects[first : first + SUSPECTS_AT_ONCE], where)


def _compare_some(batches: Iterator[Rows], key: bytes, suspects: Words, where: Path) -> None:
    seen: dict[object, int] = {}
    first_row = 0
    for ids, _ in batches:
        for index in np.flatnonzero(np.isin(_words(ids, key), suspects)).tolist():
            value, row = ids[index].as_py(), first_row + index
            if seen.setdefault(value, row) != row:
                raise InvalidInput(
                    f"{where} holds the same id in rows {seen[value] + 1} and {row + 1} (rows count from 1, over all batches), and a "
                    "record has one private label: the message was edited. Ask for the message again"
                )
        first_row += len(ids)
