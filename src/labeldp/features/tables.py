"""Tables of features (pandas, polars, Arrow or plain arrays) read as Arrow columns with names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput

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
        """The columns of a pandas, polars or Arrow table or of a two-dimensional array."""
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
        """Whether these features are a table with named columns, not an array or a list."""
        if isinstance(features, (FeatureTable, pa.RecordBatch)):
            return True
        return isinstance(nw.from_native(features, pass_through=True), (nw.DataFrame, nw.LazyFrame))

    @property
    def unnamed(self) -> bool:
        """Whether this was an array, whose columns have made-up names."""
        return isinstance(self._native, np.ndarray)

    def renamed(self, names: Sequence[str]) -> FeatureTable:
        """The same columns under other names."""
        return FeatureTable(self._native, names, self.rows)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def column(self, name: str) -> Any:
        """A column as one Arrow array; text has the type large_string."""
        series = self._native[:, self.names.index(name)]
        if self.unnamed:
            return one_array(_arrow(series))
        try:
            return one_array(_text_categories(series.to_arrow(), series.to_native(), name))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return one_array(_arrow(np.asarray(series.to_list(), object)))

    def resolve(self, keys: Iterable[str | int], what: str) -> frozenset[str]:
        """The names of columns that the user gave by name or position; `what` is the option, for error messages."""
        if isinstance(keys, str):
            raise InvalidInput(f"{what} must be a list of columns, got the text {keys!r}: write [{keys!r}]")
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
                    f"{what} names the column {key!r}, which is not there{closest(str(key), self.names)}"
                )
        return frozenset(resolved)


def in_memory(features: Any) -> Any:
    """The features, with a record batch turned into a table. Lazy frames are refused."""
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
    """An Arrow array as float64, NaN where missing. Text is read as numbers, times become seconds."""
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
        raise InvalidInput(f"column {name!r} holds infinity (row {row}): replace it by a number or a missing value")
    return values


def is_number_text(column: Any) -> bool:
    """Whether every value of a text column is a plain number (blank means missing), and at least one is there."""
    distinct = pc.drop_null(pc.unique(column))
    filled = distinct.filter(pc.not_equal(pc.utf8_trim_whitespace(distinct), ""))
    return len(filled) > 0 and bool(pc.all(pc.match_substring_regex(filled, PLAIN_NUMBER)).as_py())


def closest(name: str, names: Sequence[str]) -> str:
    """' (did you mean 'price'?)' where a similar name exists, else nothing."""
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
            f"column {name!r} is numeric, but row {row} is not a number. Repair it, or name the column as categorical."
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
    """A NumPy column as Arrow; a mixture of types becomes text."""
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
    """The column, with text for categories that are not plain values: the intervals of `pandas.cut`."""
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
    """A column as one Arrow array, text as large_string."""
    if is_text(column.type):
        column = column.cast(pa.large_string())  # joined chunks may exceed 2 GB
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
