"""Tables of features (pandas, polars, Arrow or plain arrays) as Arrow columns with names, and compact tables read in batches."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput

LARGEST_WHOLE_FLOAT = 2**53
PLAIN_NUMBER = r"^\s*[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


class FeatureTable:
    """The columns of any supported table by name, each as an Arrow array; made by `FeatureTable.of`.

    Attributes
    ----------
    names : tuple of str
        The column names. The columns of an array are called x0, x1, …
    rows : int
        The number of rows.

    Examples
    --------
    >>> table = FeatureTable.of(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> table.names
    ('x0', 'x1')
    >>> table.column("x1").to_pylist()
    [2.0, 4.0]

    """

    def __init__(self, native: Any, names: Sequence[str], rows: int) -> None:
        self._native = native
        self.names = tuple(names)
        self.rows = rows
        self._known = frozenset(self.names)

    @classmethod
    def of(cls, features: Any) -> FeatureTable:
        """Return the columns of a pandas, polars or Arrow table or of a two-dimensional array."""
        if isinstance(features, FeatureTable):
            return features
        features = in_memory(features)
        try:
            frame = nw.from_native(features, pass_through=True)
        except Exception as error:  # duplicate names are reported by each library in its own way
            raise InvalidInput(f"the features cannot be read as a table: {error}") from error
        if isinstance(frame, nw.DataFrame):
            names = frame.columns
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise InvalidInput(f"the features have more than one column called {twice!r}: rename one")
            return cls(frame, [str(name) for name in names], frame.shape[0])
        array = np.asarray(features)
        if array.ndim != 2:
            raise InvalidInput(
                f"the features must be a table or a two-dimensional array, got {type(features).__name__} of shape {array.shape}. "
                "Reshape your data: array.reshape(-1, 1) if it is one column, array.reshape(1, -1) if it is one record"
            )
        return cls(array, [f"x{j}" for j in range(array.shape[1])], array.shape[0])

    @staticmethod
    def is_frame(features: Any) -> bool:
        """Return whether these features are a table with named columns, not an array or a list."""
        if isinstance(features, (FeatureTable, pa.RecordBatch)):
            return True
        return isinstance(nw.from_native(features, pass_through=True), (nw.DataFrame, nw.LazyFrame))

    @property
    def unnamed(self) -> bool:
        """Whether this was an array, whose columns have made-up names."""
        return isinstance(self._native, np.ndarray)

    def renamed(self, names: Sequence[str]) -> FeatureTable:
        """Return the same columns under other names."""
        return FeatureTable(self._native, names, self.rows)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def column(self, name: str) -> Any:
        """Return a column as one Arrow array; text has the type large_string."""
        series = self._native[:, self.names.index(name)]
        if self.unnamed:
            return one_array(_arrow(series))
        try:
            return one_array(_text_categories(series.to_arrow(), series.to_native(), name))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return one_array(_arrow(np.asarray(series.to_list(), object)))

    def resolve(self, keys: Iterable[str | int], what: str) -> frozenset[str]:
        """Return the names of columns that the user gave by name or position; `what` is the option, for error messages."""
        expect_list(keys, what)
        resolved = []
        for key in keys:
            if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and str(key) not in self._known:
                if not -len(self.names) <= key < len(self.names):
                    raise InvalidInput(f"{what} names column number {key}, but there are {len(self.names)} columns")
                resolved.append(self.names[int(key)])
            elif str(key) in self._known:
                resolved.append(str(key))
            else:
                raise InvalidInput(
                    f"{what} names the column {key!r}, which does not exist{closest(str(key), self.names)}"
                )
        return frozenset(resolved)


def expect_list(keys: Iterable[str | int], what: str) -> None:
    """Raise `InvalidInput` for a text where columns are listed, since its letters would be read as their names."""
    if isinstance(keys, str):
        raise InvalidInput(f"{what} must be a list of columns, got the text {keys!r}: write [{keys!r}]")


def in_memory(features: Any) -> Any:
    """Return the features, with a record batch turned into a table. Lazy frames are refused."""
    if isinstance(features, pa.RecordBatch):
        return pa.Table.from_batches([features])
    try:
        frame = nw.from_native(features, pass_through=True)
    except Exception:  # noqa: BLE001 - `FeatureTable.of` reports what is wrong
        return features
    if isinstance(frame, nw.LazyFrame):
        raise InvalidInput("the features are a lazy frame: call .collect() first")
    return features


def numbers(column: Any, name: str) -> Floats:
    """Return an Arrow array as float64, NaN where missing. Text is read as numbers, times become seconds."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return numbers(column.cast(kind.value_type), name)
    if is_text(kind):
        column = _parsed(column.cast(pa.large_string()), name)
    elif pa.types.is_temporal(kind):
        column = _seconds(column)
    try:
        values: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # whose text may show a value
        raise InvalidInput(f"column {name!r} holds {kind} values, which are not numbers. Leave it out.") from None
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise InvalidInput(
            f"column {name!r} holds infinity in row {row + 1} (rows count from 1): replace it by a number or a missing value"
        )
    return values


def is_number_text(column: Any) -> bool:
    """Return whether every value of a text column is a plain number (blank means missing), and at least one is there."""
    distinct = pc.drop_null(pc.unique(column))
    filled = distinct.filter(pc.not_equal(pc.utf8_trim_whitespace(distinct), ""))
    return len(filled) > 0 and bool(pc.all(pc.match_substring_regex(filled, PLAIN_NUMBER)).as_py())


def closest(name: str, names: Sequence[str]) -> str:
    """Return ' (did you mean 'price'?)' if a similar name exists, else an empty text."""
    folded = {other.casefold(): other for other in reversed(names)}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return f" (did you mean {folded[near[0]]!r}?)" if near else ""


def _parsed(column: Any, name: str) -> Any:
    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.large_string()), text)
    readable = pc.fill_null(
        pc.match_substring_regex(text, r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"), fill_value=True
    )
    if not pc.all(readable, min_count=0).as_py():
        row = pc.index(readable, value=False).as_py()
        raise InvalidInput(
            f"column {name!r} is numeric, but row {row + 1} (rows count from 1) is not a number. Repair it, or name the column as categorical."
        )
    return pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64())


def _seconds(column: Any) -> Any:
    kind = column.type
    if pa.types.is_date(kind):
        column, kind = column.cast(pa.timestamp("ms")), pa.timestamp("ms")
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    if pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    return pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), float(ticks))


def _arrow(values: Any) -> Any:
    """Return a NumPy column as Arrow; a mixture of types becomes text."""
    if values.dtype.kind == "U":
        return pa.array(values.tolist(), pa.large_string())
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        missing = [value is None or value != value for value in values]  # noqa: PLR0124 - NaN test
        return pa.array(
            [None if gone else str(value) for value, gone in zip(values, missing, strict=True)], pa.large_string()
        )


def _text_categories(column: Any, native: Any, name: str) -> Any:
    """Return the column, with text for categories that are not plain values: the intervals of `pandas.cut`."""
    kind = column.type
    if not pa.types.is_dictionary(kind):
        return column
    if not (pa.types.is_nested(kind.value_type) or isinstance(kind.value_type, pa.BaseExtensionType)):
        return column
    if not hasattr(native, "cat"):
        raise InvalidInput(
            f"column {name!r} holds categories of {kind.value_type} values, not of plain ones. Leave it out."
        )
    return pa.array(native.cat.rename_categories([str(value) for value in native.cat.categories]))


def one_array(column: Any) -> Any:
    """Return a column as one Arrow array, text as large_string."""
    if is_text(column.type):
        column = column.cast(pa.large_string())  # joined chunks may exceed 2 GB
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


PENDING = 1 << 18
"""Distinct texts of single batches are merged into one list when there are more of them than this, and than in the list."""

INTEGERS = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64())


class CompactTable:
    """Columns that grow batch by batch and take little memory.

    Text becomes numbers if every value is a plain number, as in `infer_columns`, unless its column is named in `categorical`.

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
        """Return the table. Nothing can be added afterwards."""
        names = list(self._columns)
        return pa.table([self._columns.pop(name).finish() for name in names], names)


class _Plain:
    """A column of numbers, times or anything else that is kept unchanged, in narrow chunks."""

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
        plain = values.cast(self._kind)  # first: Arrow cannot take rows of string_view
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
    """Return the same numbers as float32 if that holds all of them exactly."""
    floats = values.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        singles = floats.astype(np.float32)
    return values.cast(pa.float32(), safe=False) if np.array_equal(singles, floats, equal_nan=True) else values


def _narrow(floats: Floats) -> Any:
    """Return the same numbers in a narrow type, whole ones as integers and NaN as null."""
    values = pa.array(floats, from_pandas=True)
    whole = floats[~np.isnan(floats)]
    if np.abs(whole).max(initial=0) < LARGEST_WHOLE_FLOAT and (whole == np.rint(whole)).all():
        return values.cast(_integer(int(whole.min(initial=0)), int(whole.max(initial=0))))
    return _single(values)


def _integer(low: int, high: int) -> pa.DataType:
    """Return the narrowest type of integers from `low` to `high`."""
    for kind in INTEGERS:
        limits = np.iinfo(kind.to_pandas_dtype())
        if limits.min <= low and high <= limits.max:
            return kind
    raise AssertionError("no column has negative numbers and numbers above 2^63")


def _codes_type(count: int) -> pa.DataType:
    """Return the type of the codes of `count` values. Signed, as most of Arrow expects."""
    return pa.int8() if count <= 1 << 7 else pa.int16() if count <= 1 << 15 else pa.int32()
