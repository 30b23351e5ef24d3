"""A sort on disk: rows go in as they come and come out in an order that only their ids decide.

Each row has a key, a function of its id: SplitMix64's bijection of an integer, or the keyed BLAKE2b digest of a text. The
leading bits of the key choose the row's partition. Later each partition is read back, sorted by key, and searched for equal
keys, which are repeated ids. So memory is bounded, and the order says nothing about labels or the order of the input.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.engines.arrow._kernels import gather_by_partition, gather_text, mark_known, sort_buckets
from labeldp.engines.columns import TEXT
from labeldp.sampling import IdDigests
from labeldp.sampling.splitmix import mix, unmix
from labeldp.sampling.text_buffers import text_buffers

ROWS_PER_PARTITION = 1 << 20
TEXT_PER_PARTITION = 1 << 26
"""Bytes of ids."""
MAX_PARTITION_BITS = 12
BUCKET_ROWS = 4
"""About how many rows each bucket of the sort within a partition has."""
LONGEST_BUCKET = 64
"""With a longer bucket, the sort falls back to NumPy's."""
Keys = NDArray[np.uint64]
Order = NDArray[np.int64]


class RepeatedIdError(Exception):
    """Two rows have one id. `id` is an array of that id; the text does not show it."""

    def __init__(self, repeated: pa.Array) -> None:
        super().__init__("an id is repeated")
        self.id = repeated


class Partition(NamedTuple):
    """Rows in the order of the message; `skipped` counts those whose ids are known already."""

    ids: pa.Array
    codes: NDArray[Any]
    skipped: int


def open_spill(folder: Path, id_type: pa.DataType, rows: int, code_type: Any) -> Spill:
    """A spill for about `rows` rows, in nameless files in `folder`, which is made if it does not exist."""
    folder.mkdir(exist_ok=True)
    bits = min(MAX_PARTITION_BITS, (rows // ROWS_PER_PARTITION).bit_length())
    kind = IntegerSpill if pa.types.is_integer(id_type) else TextSpill
    return kind(folder, id_type, bits, code_type)


def spill_rows(rows: int, id_bytes: int, known: int = 0) -> int:
    """The size to open a spill with, so that partitions stay small: larger for long ids and for many known ones."""
    wide = max(rows, id_bytes // TEXT_PER_PARTITION * ROWS_PER_PARTITION)
    return wide * (rows + known) // rows


class Spill(ABC):
    """Takes rows, then gives them back by partition. Spills that are compared need the same number of partitions."""

    def __init__(self, folder: Path, id_type: pa.DataType, bits: int, code_type: Any) -> None:
        self.id_type, self.bits = id_type, bits
        self._folder = folder
        self._columns: list[PartitionedColumn] = []
        self._codes = self._column(code_type)

    @abstractmethod
    def add(self, ids: pa.Array, digests: IdDigests, codes: NDArray[Any]) -> None:
        """Writes rows."""

    def partitions(self, known: Spill | None = None) -> Iterator[Partition]:
        """All partitions, their rows sorted by key, without rows whose id is in `known`. Refuses repeated ids.

        Memory is O(rows of a partition). Time is O(rows) in all, since keys are spread evenly.
        """
        for number in range(1 << self.bits):
            rows, low, high = self._sorted(number)
            repeated = np.flatnonzero((low[1:] == low[:-1]) & (high[1:] == high[:-1]))
            if repeated.size:
                raise RepeatedIdError(self._ids(number, low, rows, repeated[:1]))
            chosen = np.arange(low.size)
            if known is not None:
                chosen = chosen[~self._marked(low, high, known, number)]
            codes = self._codes.read(number)[rows[chosen]]
            yield Partition(self._ids(number, low, rows, chosen), codes, low.size - chosen.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the files."""
        for column in self._columns:
            column.close()

    def _column(self, kind: Any) -> PartitionedColumn:
        self._columns.append(PartitionedColumn(self._folder, kind))
        return self._columns[-1]

    @abstractmethod
    def _digests(self, number: int) -> tuple[Keys, NDArray[np.uint32]]:
        """The keys of a partition's rows as they were written: the leading 64 bits and 32 more."""

    @abstractmethod
    def _ids(self, number: int, low: Keys, rows: Order, chosen: NDArray[np.int64]) -> pa.Array:
        """The ids of some rows. `chosen` are positions in the sorted partition; `rows` maps these to positions on disk."""

    def _sorted(self, number: int) -> tuple[Order, Keys, NDArray[np.uint32]]:
        low, high = self._digests(number)
        order = _order(low, self.bits)
        if (low[order[1:]] == low[order[:-1]]).any():  # a repeated id, or a chance of one in 2^64
            order = np.lexsort((high, low))
        return order, low[order], high[order]

    def _marked(self, low: Keys, high: NDArray[np.uint32], known: Spill, number: int) -> NDArray[np.bool_]:
        assert (known.bits, type(known)) == (self.bits, type(self))
        _, known_low, known_high = known._sorted(number)
        marks = np.empty(low.size, np.bool_)
        mark_known(low, high, known_low, known_high, marks)
        return marks


class IntegerSpill(Spill):
    """Stores keys and codes. The ids come back by inverting the bijection."""

    def __init__(self, folder: Path, id_type: pa.DataType, bits: int, code_type: Any) -> None:
        super().__init__(folder, id_type, bits, code_type)
        self._keys = self._column(np.uint64)

    def add(self, ids: pa.Array, digests: IdDigests, codes: NDArray[Any]) -> None:
        low = np.ascontiguousarray(digests.low)
        if ids.type != self.id_type:
            # −1 and 2^64 − 1 have the same 64 bits, so drop the ids that this spill's type cannot hold: none of its rows has them
            upper, negative = low >> np.uint64(63) != 0, digests.high != 0
            fits = upper == negative if pa.types.is_signed_integer(self.id_type) else ~negative
            low, codes = low[fits], codes[fits]
        keys = mix(low)
        order, starts = _by_leading_bits(keys, 0, self.bits)
        self._keys.append(keys[order], starts)
        self._codes.append(codes[order], starts)

    def _digests(self, number: int) -> tuple[Keys, NDArray[np.uint32]]:
        keys = self._keys.read(number)
        return keys, np.zeros(keys.size, np.uint32)

    def _ids(self, number: int, low: Keys, rows: Order, chosen: NDArray[np.int64]) -> pa.Array:  # noqa: ARG002
        words = unmix(low[chosen])
        signed = pa.types.is_signed_integer(self.id_type)
        return pa.array(words.view(np.int64) if signed else words).cast(self.id_type)


class TextSpill(Spill):
    """Stores the 96 bits of the digest, the code and the text."""

    def __init__(self, folder: Path, id_type: pa.DataType, bits: int, code_type: Any) -> None:
        super().__init__(folder, id_type, bits, code_type)
        self._low, self._high = self._column(np.uint64), self._column(np.uint32)
        self._lengths, self._text = self._column(np.uint32), self._column(np.uint8)

    def add(self, ids: pa.Array, digests: IdDigests, codes: NDArray[Any]) -> None:
        order, starts = _by_leading_bits(np.ascontiguousarray(digests.low), 0, self.bits)
        content, ends = text_buffers(ids)
        text, text_ends = _gathered(content, ends, order)
        self._low.append(digests.low[order], starts)
        self._high.append(digests.high[order], starts)
        self._codes.append(codes[order], starts)
        self._lengths.append(np.diff(text_ends), starts)
        self._text.append(text, text_ends[starts])

    def _digests(self, number: int) -> tuple[Keys, NDArray[np.uint32]]:
        return self._low.read(number), self._high.read(number)

    def _ids(self, number: int, low: Keys, rows: Order, chosen: NDArray[np.int64]) -> pa.Array:  # noqa: ARG002
        ends = _ends(self._lengths.read(number))
        text, text_ends = _gathered(self._text.read(number), ends, rows[chosen])
        buffers = [None, pa.py_buffer(text_ends), pa.py_buffer(text)]
        return pa.Array.from_buffers(TEXT, chosen.size, buffers).cast(self.id_type)


class PartitionedColumn:
    """A column in one nameless file. Batches are written in the order of their partitions.

    A partition is read back from its slice of every batch. So a column needs one open file, however many partitions it
    has, and is written sequentially. The operating system removes the file with the process, however that ends. In memory
    it keeps 8 bytes per batch and partition.
    """

    def __init__(self, folder: Path, kind: Any) -> None:
        self.kind: np.dtype[Any] = np.dtype(kind)
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by close
        self._size = 0
        self._batches: list[tuple[int, NDArray[np.int64]]] = []

    def append(self, values: NDArray[Any], starts: NDArray[np.int64]) -> None:
        """Writes a batch whose partition p is `values[starts[p]:starts[p + 1]]`. Keeps `starts` itself, not a copy."""
        self._batches.append((self._size, starts))
        self._file.seek(self._size * self.kind.itemsize)
        self._size += values.size
        data = np.ascontiguousarray(values, self.kind).view(np.uint8).data
        while data:  # a raw write may stop early, for example on a full disk; the next write then raises
            data = data[self._file.write(data) :]

    def read(self, partition: int) -> NDArray[Any]:
        """All values of a partition, in the order in which they were written."""
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


def _gathered(
    content: NDArray[np.uint8], ends: NDArray[np.int64], order: Order
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The strings in another order, as bytes and offsets."""
    new_ends = _ends((ends[1:] - ends[:-1])[order])
    text = np.empty(int(new_ends[-1]), np.uint8)
    gather_text(content, ends, order, new_ends, text)
    return text, new_ends


def _ends(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """The offsets of strings of these lengths."""
    ends = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _by_leading_bits(keys: Keys, skipped: int, bits: int) -> tuple[Order, NDArray[np.int64]]:
    """Rows sorted by `bits` bits of their keys, after `skipped` leading ones, and where the rows of each value begin."""
    starts = np.zeros((1 << bits) + 1, np.int64)
    if bits == 0:
        starts[1] = keys.size
        return np.arange(keys.size), starts
    order = np.empty(keys.size, np.int64)
    gather_by_partition(keys, np.uint64(skipped), np.uint64(64 - bits), starts, order)
    return order, starts


def _order(keys: Keys, same: int) -> Order:
    """An argsort of evenly spread keys that agree in their first `same` bits: small buckets first, then insertion."""
    bits = min(64 - same, max(0, (keys.size // BUCKET_ROWS).bit_length()))
    order, starts = _by_leading_bits(keys, same, bits)
    if np.diff(starts).max() > LONGEST_BUCKET:  # somebody chose such ids; insertion would take very long
        return np.argsort(keys)
    sort_buckets(keys, starts, order)
    return order
