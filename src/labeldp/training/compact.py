"""A table in memory in as few bytes as its values need, filled batch by batch. No value is changed.

Text becomes codes of one, two or four bytes and one list of the distinct texts. Integers and floats get the narrowest type
that holds all of the column's values exactly.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.features.tables import is_number_text, is_text, numbers
from labeldp.features.vocabulary import LARGEST_WHOLE_FLOAT

PENDING = 1 << 18
"""Distinct texts of single batches are merged into one list when there are more of them than this, and than in the list."""

INTEGERS = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())


class CompactTable:
    """Columns that grow batch by batch and take little memory.

    Text in which every value is a plain number becomes numbers, as `infer_columns` would read it, unless its column is
    named in `categorical`.

    Examples
    --------
    >>> table = CompactTable(pa.schema([("shop", pa.string()), ("price", pa.float64())]))
    >>> for shop, price in (["a", "b"], [1.5, 2.0]), (["b", "c"], [3.0, 0.1]):
    ...     table.add(pa.record_batch([pa.array(shop), pa.array(price)], ["shop", "price"]))
    >>> table.finish().schema.types
    [DictionaryType(dictionary<values=large_string, indices=int8, ordered=0>), DataType(double)]

    """

    def __init__(self, schema: pa.Schema, categorical: Collection[str] = ()) -> None:
        self._columns: dict[str, _Codes | _Plain] = {
            field.name: _Codes(field.type, field.name, as_numbers=field.name not in categorical)
            if is_text(field.type) or pa.types.is_dictionary(field.type)
            else _Plain(field.type)
            for field in schema
        }

    def add(self, batch: pa.RecordBatch, rows: NDArray[np.int64] | None = None) -> None:
        """Append a batch, or only these rows of it."""
        for name, column in self._columns.items():
            column.add(batch.column(name), rows)

    def finish(self) -> pa.Table:
        """The table. Nothing can be added afterwards."""
        names = list(self._columns)
        return pa.table([self._columns.pop(name).finish() for name in names], names)


class _Plain:
    """A column of numbers, times or anything else that is kept as it is, in narrow chunks."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._chunks: list[Any] = []
        self._low = self._high = 0

    def add(self, values: Any, rows: NDArray[np.int64] | None) -> None:
        values = values if rows is None else values.take(pa.array(rows))
        if pa.types.is_integer(self._kind):
            ends = pc.min_max(values).as_py()
            low, high = ends["min"] or 0, ends["max"] or 0
            self._low, self._high = min(low, self._low), max(high, self._high)
            values = values.cast(_integer(low, high))
        elif pa.types.is_float64(self._kind):
            values = _single(values)
        self._chunks.append(values)

    def finish(self) -> Any:
        kind = self._kind
        if pa.types.is_integer(kind):
            kind = _integer(self._low, self._high)
        elif self._chunks and all(chunk.type == pa.float32() for chunk in self._chunks):
            kind = pa.float32()
        return pa.chunked_array([chunk.cast(kind) for chunk in self._chunks], kind)


class _Codes:
    """A column of text or of a categorical type: codes, and the value of each code."""

    def __init__(self, kind: pa.DataType, name: str, *, as_numbers: bool) -> None:
        self._name = name
        self._may_be_numbers = as_numbers and is_text(kind)
        self._kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if is_text(self._kind):
            self._kind = pa.large_string()
        self._values = pa.array([], self._kind)
        self._codes: list[Any] = []
        self._pending: list[Any] = []
        self._waiting = 0

    def add(self, values: Any, rows: NDArray[np.int64] | None) -> None:
        plain = values.cast(self._kind)  # first: Arrow takes no rows of string_view
        encoded = (plain if rows is None else plain.take(pa.array(rows))).dictionary_encode()
        self._pending.append(encoded)
        self._waiting += len(encoded.dictionary)
        if self._waiting > max(PENDING, len(self._values)):
            self._merge()

    def finish(self) -> Any:
        self._merge()
        if self._may_be_numbers and is_number_text(self._values):
            values = _narrow(numbers(self._values, self._name))
            return pa.chunked_array([values.take(codes) for codes in self._codes], values.type)
        kind = _codes_type(len(self._values))
        chunks = [pa.DictionaryArray.from_arrays(codes.cast(kind), self._values) for codes in self._codes]
        return pa.chunked_array(chunks, pa.dictionary(kind, self._kind))

    def _merge(self) -> None:
        """Turn what is pending into codes. Values keep the codes they have."""
        if not self._pending:
            return
        before = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), self._values)
        merged = pa.chunked_array([before, *self._pending]).unify_dictionaries()
        self._values = merged.chunk(0).dictionary
        kind = _codes_type(len(self._values))
        self._codes += [chunk.indices.cast(kind) for chunk in merged.chunks[1:]]
        self._pending, self._waiting = [], 0


def _single(values: Any) -> Any:
    """The same numbers as float32 if that holds all of them exactly."""
    floats = values.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        singles = floats.astype(np.float32)
    return values.cast(pa.float32(), safe=False) if np.array_equal(singles, floats, equal_nan=True) else values


def _narrow(floats: Floats) -> Any:
    """The same numbers in a narrow type, whole ones as integers and NaN as null."""
    values = pa.array(floats, from_pandas=True)
    whole = floats[~np.isnan(floats)]
    if np.abs(whole).max(initial=0) < LARGEST_WHOLE_FLOAT and (whole == np.rint(whole)).all():
        return values.cast(_integer(int(whole.min(initial=0)), int(whole.max(initial=0))))
    return _single(values)


def _integer(low: int, high: int) -> pa.DataType:
    """The narrowest type of integers from `low` to `high`."""
    for kind in INTEGERS:
        limits = np.iinfo(kind.to_pandas_dtype())
        if limits.min <= low and high <= limits.max:
            return kind
    raise AssertionError("no column has negative numbers and numbers above 2^63")


def _codes_type(count: int) -> pa.DataType:
    """The type of the codes of so many values. Signed, as most of Arrow expects it."""
    return pa.int8() if count <= 1 << 7 else pa.int16() if count <= 1 << 15 else pa.int32()
