"""A sort on disk: rows are written in any order and returned in an order that depends only on their ids.

Each row has a key, a function of its id: SplitMix64's bijection of an integer, or the keyed BLAKE2b digest of a text. The
leading bits of the key choose the row's partition. Later each partition is read back, sorted by key, and searched for equal
keys, which are repeated ids. So memory is bounded, and the order does not depend on labels or on the order of the input. The files contain ids, their digests and codes,
never a true label.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrays import compiled, read_only
from labeldp.engines.batches import TEXT
from labeldp.sampling import IdDigests
from labeldp.sampling.ids import array_of, mixed, text_buffers, unmix

ROWS_PER_PARTITION = 1 << 20
TEXT_PER_PARTITION = 1 << 26
"""The size of the ids, in bytes."""
MAX_PARTITION_BITS = 12
PART_ROWS = 1 << 12
"""Before a partition is sorted, it is divided in memory into parts of about this number of rows, which stay in the cache."""
BUCKET_ROWS = 4
"""The approximate number of rows in each bucket of the sort within a part."""
LONGEST_BUCKET = 64
"""With a longer bucket, the sort falls back to NumPy's."""
Keys = NDArray[np.uint64]
Order = NDArray[np.int64]
Starts = NDArray[np.int64]


class RepeatedIdError(Exception):
    """Two rows have the same id. `id` is an array with that id; the message does not show it."""

    def __init__(self, repeated: pa.Array) -> None:
        super().__init__("an id is repeated")
        self.id = repeated


class Partition(NamedTuple):
    """Rows in the order of the message; `skipped` counts rows with known ids."""

    ids: pa.Array
    codes: NDArray[Any]
    skipped: int


class Rows(NamedTuple):
    """Rows by columns: the two words of their keys, codes, and for text ids the bytes and the offsets of each text."""

    low: Keys
    high: NDArray[np.uint32]
    codes: NDArray[Any]
    text: NDArray[np.uint8] = np.empty(0, np.uint8)
    ends: NDArray[np.int64] = np.zeros(1, np.int64)


def open_spill(folder: Path, id_type: pa.DataType, rows: int, code_type: Any) -> Spill:
    """Return a spill for about `rows` rows, in unnamed files in `folder`, which is created if it does not exist."""
    folder.mkdir(exist_ok=True)
    bits = min(MAX_PARTITION_BITS, (rows // ROWS_PER_PARTITION).bit_length())
    kind = IntegerSpill if pa.types.is_integer(id_type) else TextSpill
    return kind(folder, id_type, bits, code_type)


def spill_rows(rows: int, id_bytes: int, known: int = 0) -> int:
    """Return the size to open a spill with, so that partitions stay small: larger for long ids and for many known ones."""
    wide = max(rows, id_bytes // TEXT_PER_PARTITION * ROWS_PER_PARTITION)
    return wide * (rows + known) // rows


class Spill(ABC):
    """A store of rows that returns them by partition. Spills to be compared need the same number of partitions."""

    def __init__(self, folder: Path, id_type: pa.DataType, bits: int, code_type: Any) -> None:
        self.id_type, self.bits = id_type, bits
        self._folder = folder
        self._columns: list[PartitionedColumn] = []
        self._memory = ReusedMemory()
        self._codes = self._column(code_type)

    @abstractmethod
    def add(self, ids: pa.Array, digests: IdDigests, codes: NDArray[Any]) -> None:
        """Write rows."""

    def partitions(self, known: Spill | None) -> Generator[Partition]:
        """Return all partitions, their rows sorted by key, without rows whose id is in `known`. Raise `RepeatedIdError` for repeated ids.

        Memory is O(rows of a partition). Time is O(rows), because keys are spread evenly.
        """
        for number in range(1 << self.bits):
            rows = self._sorted(number)
            ids, codes, skipped = self._ids(rows), rows.codes, 0
            same = rows.low[1:] == rows.low[:-1]
            if same.any() and (same := same & (rows.high[1:] == rows.high[:-1])).any():
                raise RepeatedIdError(ids.slice(int(np.argmax(same)), 1))
            if known is not None:
                new = ~self._marked(rows, known, number)
                ids, codes, skipped = ids.filter(pa.array(new)), codes[new], int(np.count_nonzero(~new))
            yield Partition(ids, codes, skipped)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files."""
        for column in self._columns:
            column.close()

    def _column(self, kind: Any) -> PartitionedColumn:
        self._columns.append(PartitionedColumn(self._folder, kind))
        return self._columns[-1]

    @abstractmethod
    def _sorted(self, number: int) -> Rows:
        """Return the rows of a partition, sorted."""

    @abstractmethod
    def _ids(self, rows: Rows) -> pa.Array:
        """Return the ids of rows."""

    def _marked(self, rows: Rows, known: Spill, number: int) -> NDArray[np.bool_]:
        assert (known.bits, type(known)) == (self.bits, type(self))
        held = known._sorted(number)
        marks = np.empty(rows.low.size, np.bool_)
        mark_known(rows.low, rows.high, held.low, held.high, marks)
        return marks


class IntegerSpill(Spill):
    """A store of keys and codes. The ids are recovered by inverting the bijection."""

    def __init__(self, folder: Path, id_type: pa.DataType, bits: int, code_type: Any) -> None:
        super().__init__(folder, id_type, bits, code_type)
        self._keys = self._column(np.uint64)

    def add(self, ids: pa.Array, digests: IdDigests, codes: NDArray[Any]) -> None:
        low = digests.low
        if ids.type != self.id_type:
            # −1 and 2^64 − 1 have the same 64 bits, so drop the ids outside this spill's type, which its rows cannot have
            upper, negative = low >> np.uint64(63) != 0, digests.high != 0
            fits = upper == negative if pa.types.is_signed_integer(self.id_type) else ~negative
            low, codes = low[fits], codes[fits]
        keys = self._memory.array("keys", low.size, np.uint64)
        mix_keys(read_only(low), keys)
        starts, keys, codes = self._parted(keys, codes, 0, self.bits)
        self._keys.append(keys, starts)
        self._codes.append(codes, starts)

    def _sorted(self, number: int) -> Rows:
        keys, codes = (column.read(number, self._memory) for column in (self._keys, self._codes))
        bits = _part_bits(keys.size)
        starts, keys, codes = self._parted(keys, codes, self.bits, bits)
        none = np.zeros(keys.size, np.uint32)
        ordered, order = _order(keys, none, starts, self.bits + bits)
        return Rows(ordered, none, codes[order])

    def _ids(self, rows: Rows) -> pa.Array:
        words = unmix(rows.low)
        signed = pa.types.is_signed_integer(self.id_type)
        return array_of(words.view(np.int64) if signed else words).cast(self.id_type)

    def _parted(self, keys: Keys, codes: NDArray[Any], same: int, bits: int) -> tuple[Starts, Keys, NDArray[Any]]:
        """Return where the rows of each value of `bits` bits of the keys begin, after the `same` leading bits, and rows in that order."""
        codes, starts = np.ascontiguousarray(codes, self._codes.kind), np.zeros((1 << bits) + 1, np.int64)
        if bits == 0:
            starts[1] = keys.size
            return starts, keys, codes
        parted_keys = self._memory.array("parted keys", keys.size, keys.dtype)
        parted_codes = self._memory.array("parted codes", codes.size, codes.dtype)
        part_integers(keys, read_only(codes), *_shifts(same, bits), starts, parted_keys, parted_codes)
        return starts, parted_keys, parted_codes


class TextSpill(Spill):
    """A store of the 96 bits of the digest, the code and the text."""

    def __init__(self, folder: Path, id_type: pa.DataType, bits: int, code_type: Any) -> None:
        super().__init__(folder, id_type, bits, code_type)
        self._low, self._high = self._column(np.uint64), self._column(np.uint32)
        self._lengths, self._text = self._column(np.uint32), self._column(np.uint8)

    def add(self, ids: pa.Array, digests: IdDigests, codes: NDArray[Any]) -> None:
        given = Rows(digests.low, digests.high, codes, *text_buffers(ids))
        starts, text_starts, rows = self._parted(given, 0, self.bits)
        self._low.append(rows.low, starts)
        self._high.append(rows.high, starts)
        self._codes.append(rows.codes, starts)
        self._lengths.append(np.diff(rows.ends), starts)
        self._text.append(rows.text, text_starts)

    def _sorted(self, number: int) -> Rows:
        ends = _ends(self._lengths.read(number, self._memory))
        columns = (self._low, self._high, self._codes, self._text)
        low, high, codes, text = (column.read(number, self._memory) for column in columns)
        bits = _part_bits(ends.size - 1)
        starts, _, rows = self._parted(Rows(low, high, codes, text, ends), self.bits, bits)
        ordered, order = _order(rows.low, rows.high, starts, self.bits + bits)
        new_text, new_ends = np.empty_like(rows.text), np.empty_like(rows.ends)
        gather_text(rows.text, rows.ends, order, new_ends, new_text)
        return Rows(ordered, rows.high[order], rows.codes[order], new_text, new_ends)

    def _ids(self, rows: Rows) -> pa.Array:
        buffers = [None, pa.py_buffer(rows.ends), pa.py_buffer(rows.text)]
        return pa.Array.from_buffers(TEXT, rows.low.size, buffers).cast(self.id_type)

    def _parted(self, rows: Rows, same: int, bits: int) -> tuple[Starts, Starts, Rows]:
        """Return where the rows and the texts of each value of `bits` bits begin, after the `same` leading bits, and rows in that order."""
        codes = np.ascontiguousarray(rows.codes, self._codes.kind)
        starts, text_starts = np.zeros((1 << bits) + 1, np.int64), np.zeros((1 << bits) + 1, np.int64)
        if bits == 0:
            starts[1], text_starts[1] = rows.low.size, rows.ends[-1] - rows.ends[0]
            text, ends = rows.text[rows.ends[0] : rows.ends[-1]], rows.ends - rows.ends[0]
            return starts, text_starts, Rows(rows.low, rows.high, codes, text, ends)
        parted = Rows(
            self._memory.array("parted low", rows.low.size, np.uint64),
            self._memory.array("parted high", rows.low.size, np.uint32),
            self._memory.array("parted codes", rows.low.size, codes.dtype),
            self._memory.array("parted text", int(rows.ends[-1] - rows.ends[0]), np.uint8),
            self._memory.array("parted ends", rows.low.size + 1, np.int64),
        )
        given: tuple[NDArray[Any], ...] = (rows.low, rows.high, codes, rows.text, rows.ends)
        part_texts(*map(read_only, given), *_shifts(same, bits), starts, text_starts, *parted)
        return starts, text_starts, parted


class ReusedMemory:
    """Arrays whose memory is reused: getting new memory from the operating system takes longer than filling it."""

    def __init__(self) -> None:
        self._held: dict[object, NDArray[np.uint8]] = {}

    def array(self, purpose: object, size: int, kind: Any) -> NDArray[Any]:
        """Return an uninitialised array. The next array for the same purpose overwrites it."""
        needed = size * np.dtype(kind).itemsize
        if purpose not in self._held or self._held[purpose].size < needed:
            self._held[purpose] = np.empty(needed + needed // 8, np.uint8)
        return self._held[purpose][:needed].view(kind)


class PartitionedColumn:
    """A column in one unnamed file. Batches are written in the order of their partitions.

    A partition is read back from its slice of every batch. So a column needs one open file for any number of
    partitions, and is written sequentially. The operating system removes the file when the process ends for any reason.
    In memory it keeps 8 bytes per batch and partition.
    """

    def __init__(self, folder: Path, kind: Any) -> None:
        self.kind: np.dtype[Any] = np.dtype(kind)
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by close
        self._size = 0
        self._batches: list[tuple[int, NDArray[np.int64]]] = []

    def append(self, values: NDArray[Any], starts: NDArray[np.int64]) -> None:
        """Write a batch whose partition p is `values[starts[p]:starts[p + 1]]`. It keeps `starts` itself, not a copy."""
        self._batches.append((self._size, starts))
        self._file.seek(self._size * self.kind.itemsize)
        self._size += values.size
        data = np.ascontiguousarray(values, self.kind).view(np.uint8).data
        while data:  # a raw write may stop early, for example on a full disk; the next write then raises
            data = data[self._file.write(data) :]

    def read(self, partition: int, memory: ReusedMemory | None = None) -> NDArray[Any]:
        """Return all values of a partition, in the order of writing. With reused memory they are valid until the next read."""
        pieces = [
            (first + starts[partition], starts[partition + 1] - starts[partition]) for first, starts in self._batches
        ]
        memory = memory or ReusedMemory()
        values = memory.array(self, sum(int(count) for _, count in pieces), self.kind)
        data = values.view(np.uint8).data
        for first, count in pieces:
            piece = data[: int(count) * self.kind.itemsize]
            data = data[len(piece) :]
            self._file.seek(int(first) * self.kind.itemsize)
            while piece:
                done = self._file.readinto(piece)
                if not done:
                    raise OSError(f"a working file is {len(piece)} bytes too short")
                piece = piece[done:]
        return values

    def close(self) -> None:
        self._file.close()


def _ends(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return the offsets of strings of these lengths."""
    ends = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _part_bits(rows: int) -> int:
    """Return the number of key bits that divide a partition into parts of about `PART_ROWS` rows."""
    return max(1, (rows // PART_ROWS).bit_length())


def _shifts(same: int, bits: int) -> tuple[np.uint64, np.uint64]:
    """Return the left and right shifts that keep the `bits` bits of a key after the `same` leading ones."""
    return np.uint64(same), np.uint64(64 - bits)


def _order(low: Keys, high: NDArray[np.uint32], starts: Starts, same: int) -> tuple[Keys, Order]:
    """Return evenly spread keys in sorted order, and that order. The input consists of parts whose keys share their first `same` bits."""
    rows = low.size // (starts.size - 1)
    fine = min(64 - same, max(1, (rows // BUCKET_ROWS).bit_length()))
    ordered, order = np.empty_like(low), np.empty(low.size, np.int64)
    if not sort_parts(low, high, starts, np.uint64(same), np.uint64(fine), LONGEST_BUCKET, ordered, order):
        order = np.lexsort((high, low))  # an attacker may choose ids whose keys are close together
        ordered = low[order]
    return ordered, order


# Compiled loops, which release the interpreter's lock, so that reading and writing files can continue. They move rows into parts by leading
# bits of their keys, and sort parts that fit into the cache. Rows are read in their order and appended to a few hundred parts, because reading
# them in another order would wait for memory at every row. Shifts and indices are unsigned, because numba checks signed ones for negative values.
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
