"""A sort on disk: rows are written in any order and returned in an order that depends only on their ids.

Each row has a key, a function of its id: SplitMix64's bijection of an integer, or the keyed BLAKE2b digest of a text. The
leading bits of the key choose the row's partition. Later each partition is read back, sorted by key, and searched for equal
keys, which are repeated ids. So memory is bounded, and the order does not depend on labels or on the order of the input. The files contain ids, their digests and codes,
never a true label.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.engines.batches import TEXT
from labeldp.sampling import IdDigests
from labeldp.sampling.ids import array_of, mix, text_buffers, unmix

ROWS_PER_PARTITION = 1 << 20
TEXT_PER_PARTITION = 1 << 26
"""The size of the ids, in bytes."""
MAX_PARTITION_BITS = 12
Keys = NDArray[np.uint64]


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
    """Rows, sorted by the two words of their keys. The second word of integers is 0."""

    low: Keys
    high: NDArray[np.uint32]
    codes: NDArray[Any]
    ids: pa.Array


def open_spill(folder: Path, id_type: pa.DataType, rows: int, code_type: Any) -> Spill:
    """Return a spill for about `rows` rows, in unnamed files in `folder`, which is created if it does not exist."""
    folder.mkdir(exist_ok=True)
    return Spill(folder, id_type, partition_bits(rows), code_type)


def partition_bits(rows: int) -> int:
    """Return the number of leading bits of a key that choose the partition."""
    return min(MAX_PARTITION_BITS, (rows // ROWS_PER_PARTITION).bit_length())


def parted(keys: Keys, bits: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the rows in the order of their partitions, and where each partition begins."""
    parts = (keys >> np.uint64(64 - bits) if bits else np.zeros_like(keys)).astype(np.uint16)  # sorted in linear time
    return np.argsort(parts, kind="stable"), _ends(np.bincount(parts, minlength=1 << bits))


def spill_rows(rows: int, id_bytes: int, known: int = 0) -> int:
    """Return the size to open a spill with, so that partitions stay small: larger for long ids and for many known ones."""
    wide = max(rows, id_bytes // TEXT_PER_PARTITION * ROWS_PER_PARTITION)
    return wide * (rows + known) // rows


class Spill:
    """A store of rows that returns them by partition. Spills to be compared need the same number of partitions.

    Integers are stored as keys, from which they are recovered by inverting the bijection. Of texts the 96 bits of the digest and the text are stored.
    """

    def __init__(self, folder: Path, id_type: pa.DataType, bits: int, code_type: Any) -> None:
        self.id_type, self.bits = id_type, bits
        self.integers = pa.types.is_integer(id_type)
        kinds = [code_type, np.uint64] if self.integers else [code_type, np.uint64, np.uint32, np.uint32, np.uint8]
        self._columns = [PartitionedColumn(folder, kind) for kind in kinds]

    def add(self, ids: pa.Array, digests: IdDigests, codes: NDArray[Any]) -> None:
        """Write rows."""
        keys = np.ascontiguousarray(digests.low)
        if self.integers:
            if ids.type != self.id_type:
                # −1 and 2^64 − 1 have the same 64 bits, so drop the ids outside this spill's type, which its rows cannot have
                upper, negative = keys >> np.uint64(63) != 0, digests.high != 0
                fits = upper == negative if pa.types.is_signed_integer(self.id_type) else ~negative
                keys, codes = keys[fits], codes[fits]
            keys = mix(keys)
        order, starts = parted(keys, self.bits)
        columns = [codes[order], keys[order]]
        places = [starts] * 4
        if not self.integers:
            text, ends = text_buffers(ids.take(array_of(order)))
            columns += [digests.high[order], np.diff(ends), text[ends[0] : ends[-1]]]
            places.append((ends - ends[0])[starts])
        for column, values, begins in zip(self._columns, columns, places, strict=False):
            column.append(values, begins)

    def partitions(self, known: Spill | None) -> Generator[Partition]:
        """Return all partitions, their rows sorted by key, without rows whose id is in `known`. Raise `RepeatedIdError` for repeated ids.

        Memory is O(rows of a partition). Time is O(n log n) for the n rows of each, and keys are spread evenly.
        """
        for number in range(1 << self.bits):
            low, high, codes, ids = rows = self.rows(number)
            same = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
            if same.any():
                raise RepeatedIdError(ids.slice(int(np.argmax(same)), 1))
            if known is None:
                yield Partition(ids, codes, 0)
                continue
            assert (known.bits, known.integers) == (self.bits, self.integers)
            new = ~_marked(rows, known.rows(number))
            yield Partition(ids.filter(pa.array(new)), codes[new], int(np.count_nonzero(~new)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files."""
        for column in self._columns:
            column.close()

    def rows(self, number: int) -> Rows:
        """Return the rows of a partition, sorted by key."""
        codes, low, *rest = (column.read(number) for column in self._columns)
        order = np.argsort(low)
        if self.integers:
            words = unmix(low[order])
            signed = pa.types.is_signed_integer(self.id_type)
            ids = array_of(words.view(np.int64) if signed else words).cast(self.id_type)
            return Rows(low[order], np.zeros(low.size, np.uint32), codes[order], ids)
        high, lengths, text = rest
        if (low[order[1:]] == low[order[:-1]]).any():
            order = np.lexsort((high, low))
        buffers = [None, pa.py_buffer(_ends(lengths)), pa.py_buffer(text)]
        ids = pa.Array.from_buffers(TEXT, lengths.size, buffers).take(array_of(order)).cast(self.id_type)
        return Rows(low[order], high[order], codes[order], ids)


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

    def read(self, partition: int) -> NDArray[Any]:
        """Return all values of a partition, in the order of writing."""
        pieces = [
            (first + starts[partition], starts[partition + 1] - starts[partition]) for first, starts in self._batches
        ]
        values = np.empty(sum(int(count) for _, count in pieces), self.kind)
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


def _marked(rows: Rows, known: Rows) -> NDArray[np.bool_]:
    """Return which rows have the keys of known ones."""
    low, high = (np.concatenate(words) for words in ((known.low, rows.low), (known.high, rows.high)))
    order = np.lexsort((high, low))  # stable, so a known row comes first
    same = (low[order[1:]] == low[order[:-1]]) & (high[order[1:]] == high[order[:-1]])
    marks = np.zeros(low.size, np.bool_)
    marks[order[1:][same]] = True
    return marks[known.low.size :]
