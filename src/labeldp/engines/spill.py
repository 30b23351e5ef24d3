"""Rows on disk in partitions of their id digests: bounded memory, duplicates found, an order that ids alone decide.

A row's key is a function of its id: SplitMix64's bijection of an integer, the keyed BLAKE2b digest of a text. The leading
bits choose the partition; each partition is later read back, sorted by key and checked for equal keys. The output
order says nothing about labels or about the order of the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling import IdDigests

ROWS_PER_PARTITION = 1 << 20
MAX_PARTITION_BITS = 9
Keys = NDArray[np.uint64]


class Spill(Protocol):
    """Add rows, then read them back by partition."""

    def add(self, ids: pa.Array, records: IdDigests, codes: NDArray[Any]) -> None: ...

    def partitions(self, held: Spill | None = None) -> Iterator[tuple[pa.Array, NDArray[Any], int]]:
        """(ids, codes, rows left out) of each partition, sorted by key. Rows whose id is in `held` are left out."""


def open_spill(folder: Path, id_type: pa.DataType, rows: int, code_type: Any) -> Spill:
    """A spill for about `rows` rows. The folder is created and belongs to it."""
    folder.mkdir()
    bits = min(MAX_PARTITION_BITS, max(0, (rows - 1) // ROWS_PER_PARTITION).bit_length())
    if pa.types.is_integer(id_type):
        return IntegerSpill(folder, id_type, bits, np.dtype(code_type))
    return TextSpill(folder, bits, np.dtype(code_type))


class IntegerSpill:
    """Raw arrays of keys and codes; the ids come back by inverting the bijection."""

    def __init__(self, folder: Path, id_type: pa.DataType, bits: int, code_type: np.dtype[Any]) -> None:
        self._id_type, self._bits, self._code_type = id_type, bits, code_type
        self._keys = [(folder / f"{number}.keys").open("w+b", buffering=0) for number in range(1 << bits)]
        self._codes = [(folder / f"{number}.codes").open("w+b", buffering=0) for number in range(1 << bits)]

    def add(self, ids: pa.Array, records: IdDigests, codes: NDArray[Any]) -> None:
        del ids
        from labeldp.engines._kernels import mix

        keys = np.empty(records.low.size, np.uint64)
        mix(np.ascontiguousarray(records.low), keys)
        order, starts = _by_partition(keys, self._bits)
        keys, codes = keys[order], codes.astype(self._code_type, copy=False)[order]
        for number in np.flatnonzero(np.diff(starts)):
            rows = slice(starts[number], starts[number + 1])
            _write(self._keys[number], keys[rows])
            _write(self._codes[number], codes[rows])

    def partitions(self, held: Spill | None = None) -> Iterator[tuple[pa.Array, NDArray[Any], int]]:
        from labeldp.engines._kernels import unmix

        for number in range(1 << self._bits):
            keys = _read(self._keys[number], np.dtype(np.uint64))
            codes = _read(self._codes[number], self._code_type)
            order = np.argsort(keys)
            keys, codes = keys[order], codes[order]
            repeated = np.flatnonzero(keys[1:] == keys[:-1])
            ids = np.empty_like(keys)
            unmix(keys, ids)
            if repeated.size:
                raise _duplicate(self._array(ids[repeated[:1]])[0].as_py())
            left_out = 0
            if held is not None:
                assert isinstance(held, IntegerSpill)
                fresh = ~np.isin(keys, held._only_keys(number, self._bits))  # noqa: SLF001 - its own class
                left_out = int(keys.size - fresh.sum())
                ids, codes = ids[fresh], codes[fresh]
            yield self._array(ids), codes, left_out

    def _only_keys(self, number: int, bits: int) -> Keys:
        """The keys of another spill's partition `number` of 2^bits."""
        assert bits == self._bits
        return _read(self._keys[number], np.dtype(np.uint64))

    def _array(self, words: Keys) -> pa.Array:
        return pa.array(words.view(np.int64) if pa.types.is_signed_integer(self._id_type) else words).cast(
            self._id_type
        )


class TextSpill:
    """Arrow streams of the 96-bit digest, the code and the text itself."""

    def __init__(self, folder: Path, bits: int, code_type: np.dtype[Any]) -> None:
        self._bits = bits
        self._schema = pa.schema(
            [("low", pa.uint64()), ("high", pa.uint32()), ("code", pa.from_numpy_dtype(code_type)), ("id", pa.string())]
        )
        self._paths = [folder / f"{number}.arrows" for number in range(1 << bits)]
        self._writers: list[pa.ipc.RecordBatchStreamWriter] | None = [
            pa.ipc.new_stream(str(path), self._schema) for path in self._paths
        ]

    def add(self, ids: pa.Array, records: IdDigests, codes: NDArray[Any]) -> None:
        assert self._writers is not None, "the spill was read already"
        order, starts = _by_partition(records.low, self._bits)
        batch = pa.record_batch([records.low, records.high, codes, ids], schema=self._schema).take(pa.array(order))
        for number in np.flatnonzero(np.diff(starts)):
            self._writers[number].write_batch(batch.slice(starts[number], starts[number + 1] - starts[number]))

    def partitions(self, held: Spill | None = None) -> Iterator[tuple[pa.Array, NDArray[Any], int]]:
        for number in range(1 << self._bits):
            table = self._read(number)
            low, high = (np.asarray(table.column(name)) for name in ("low", "high"))
            order = np.lexsort((high, low))
            low, high = low[order], high[order]
            table = table.take(pa.array(order))
            repeated = np.flatnonzero((low[1:] == low[:-1]) & (high[1:] == high[:-1]))
            if repeated.size:
                raise _duplicate(table.column("id")[int(repeated[0])].as_py())
            left_out = 0
            if held is not None:
                assert isinstance(held, TextSpill)
                known = held._read(number).column("id")  # noqa: SLF001 - its own class
                fresh = pa.compute.invert(pa.compute.is_in(table.column("id"), value_set=known))
                left_out = table.num_rows - int(pa.compute.sum(fresh).as_py() or 0)
                table = table.filter(fresh)
            yield table.column("id").combine_chunks(), np.asarray(table.column("code")), left_out

    def _read(self, number: int) -> pa.Table:
        if self._writers is not None:
            for writer in self._writers:
                writer.close()
            self._writers = None
        with pa.memory_map(str(self._paths[number])) as mapped:
            return pa.ipc.open_stream(mapped).read_all()


def _by_partition(keys: Keys, bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    from labeldp.engines._kernels import gather_by_partition

    starts = np.zeros((1 << bits) + 1, np.int64)
    if bits == 0:
        starts[1] = keys.size
        return np.arange(keys.size), starts
    order = np.empty(keys.size, np.int64)
    gather_by_partition(np.ascontiguousarray(keys), np.uint64(64 - bits), starts, order)
    return order, starts


def _write(file: Any, values: NDArray[Any]) -> None:
    """All of it: a raw write may stop early, for example on a full disk, and then the next one says so."""
    data = memoryview(values.tobytes())
    while data:
        data = data[file.write(data) :]


def _read(file: Any, kind: np.dtype[Any]) -> NDArray[Any]:
    file.seek(0)
    return np.fromfile(file, kind)


def _duplicate(value: object) -> InvalidInput:
    return InvalidInput(
        f"ids must be unique, but {value!r} occurs more than once. Two records with one id would share their randomness "
        "and reveal whether their labels differ; remove or combine them. Nothing was released."
    )
