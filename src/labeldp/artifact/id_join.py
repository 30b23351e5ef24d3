"""A join of two files by id, and a check for duplicate ids in a message. Errors give rows and types, but never an id.

The check takes memory that does not grow with the message. Every id is hashed to a 64-bit word with a key drawn for the
check, so that an attacker cannot choose ids that collide. Up to `IN_MEMORY` words are sorted in memory. Larger numbers
are distributed to temporary files by their first bits, and each file is sorted separately. Ids whose words occur twice
are read again and compared. Each batch is also checked when it arrives: otherwise equal ids would all go to one file,
which might not fit into memory.
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
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling.ids import digest_ids


def match_ids(
    wanted: pa.Array, held: pa.Array, wanted_in: object, held_in: object, *, distinct: bool = False
) -> NDArray[np.int64]:
    """Return the row in `held` of each wanted id, or −1. O(rows) time and memory.

    Ids in `held` that are not wanted may repeat. To join features to a message, the ids of the message are the wanted ones.

    Parameters
    ----------
    wanted, held : pyarrow.Array
        Ids without nulls, integers or text.
    wanted_in, held_in : object
        The names of the two files in errors.
    distinct : bool
        Whether the wanted ids are known to be distinct.

    Raises
    ------
    InvalidInput
        If the ids have different types, or if a wanted id occurs twice in either file.
    """
    require_same_kind(wanted.type, held.type, wanted_in, held_in)
    try:
        held = held.cast(wanted.type)
    except pa.ArrowInvalid:  # int64 and uint64: neither includes the other
        wanted, held = wanted.cast(pa.large_string()), held.cast(pa.large_string())
    if not distinct:
        require_distinct(wanted, wanted_in)
    return _found(held, wanted, held_in)


def require_same_kind(wanted: pa.DataType, held: pa.DataType, wanted_in: object, held_in: object) -> None:
    """Raise `InvalidInput` unless two types of ids are of the same kind."""
    kinds = kind_words(wanted), kind_words(held)
    if kinds[0] != kinds[1]:
        raise InvalidInput(
            f"the ids of {wanted_in} are {kinds[0]} and the ids of {held_in} are {kinds[1]}: convert them to the same type. "
            "privatize, cells and sums have --id-type str for that"
        )


def require_distinct(ids: pa.Array, where: object) -> None:
    """Raise `InvalidInput` if an id occurs twice."""
    _found(ids, ids, where)


def _found(ids: pa.Array, among: pa.Array, where: object) -> NDArray[np.int64]:
    """Return the row in `ids` of each id in `among`, or −1. Raise `InvalidInput` if one is in two rows."""
    places = np.asarray(pc.fill_null(pc.index_in(ids, value_set=among), -1)).astype(np.int64)
    rows = np.flatnonzero(places >= 0)
    times = np.bincount(places[rows], minlength=1)
    if times.max() > 1:
        first, second = np.flatnonzero(places == np.argmax(times))[:2]
        raise InvalidInput(
            f"rows {first + 1} and {second + 1} of {where} (rows count from 1) have the same id, which occurs {times.max()} times, but "
            "each record must occur once: combine these rows or drop all but one"
        )
    found = np.full(len(among), -1, np.int64)
    found[places[rows]] = rows
    return found


def kind_words(kind: pa.DataType) -> str:
    """Return the name of an Arrow type of ids in errors."""
    if pa.types.is_integer(kind):
        return "whole numbers"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    return "decimal numbers" if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else f"of type {kind}"


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
