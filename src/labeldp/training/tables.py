"""Features come as pandas, polars or Arrow tables or as plain arrays; here they are Arrow columns with names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput

PLAIN_NUMBER = r"^\s*[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


class Table:
    """Named columns, each handed out as Arrow. Columns of an array without names are called x0, x1, …"""

    def __init__(self, native: Any, names: Sequence[str], rows: int) -> None:
        self._native = native
        self.names = tuple(names)
        self.rows = rows
        self._known = frozenset(self.names)

    @classmethod
    def of(cls, features: Any) -> Table:
        """Any supported table or two-dimensional array."""
        if isinstance(features, Table):
            return features
        features = in_memory(features)
        import narwhals.stable.v2 as nw

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
        return cls._of_array(features)

    @staticmethod
    def is_frame(features: Any) -> bool:
        """Whether these features are a table with named columns, not an array or a list."""
        import narwhals.stable.v2 as nw

        if isinstance(features, (Table, pa.RecordBatch)):
            return True
        return isinstance(nw.from_native(features, pass_through=True), (nw.DataFrame, nw.LazyFrame))

    @classmethod
    def _of_array(cls, features: Any) -> Table:
        array = np.asarray(features)
        if array.ndim != 2:
            raise InvalidInput(
                f"the features must be a table or a two-dimensional array, got {type(features).__name__} of shape {array.shape}"
            )
        return cls(array, [f"x{j}" for j in range(array.shape[1])], array.shape[0])

    @property
    def unnamed(self) -> bool:
        """Whether this was an array, whose columns have made-up names."""
        return isinstance(self._native, np.ndarray)

    def renamed(self, names: Sequence[str]) -> Table:
        """The same columns under other names."""
        return Table(self._native, names, self.rows)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def column(self, name: str) -> Any:
        """A column as an Arrow array."""
        if isinstance(self._native, np.ndarray):
            return _arrow(self._native[:, self.names.index(name)])
        series = self._native[:, self.names.index(name)]
        try:
            column = series.to_arrow()
            return _text_categories(column, series.to_native(), name)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return _arrow(np.asarray(series.to_list(), object))

    def resolve(self, keys: Iterable[str | int], what: str) -> frozenset[str]:
        """Column names for names or positions given by the user."""
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
    """The features as they are, a record batch as a table; lazy frames are refused."""
    import narwhals.stable.v2 as nw

    if isinstance(features, pa.RecordBatch):
        return pa.Table.from_batches([features])
    try:
        frame = nw.from_native(features, pass_through=True)
    except Exception:  # noqa: BLE001 - what is wrong with them, their reader says
        return features
    if isinstance(frame, nw.LazyFrame):
        raise InvalidInput("the features are a lazy frame: call .collect() first")
    return features


def numbers(column: Any, name: str) -> Floats:
    """An Arrow column as float64, NaN where missing; text is read as numbers, times become seconds."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return numbers(column.cast(kind.value_type), name)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        column = _parsed(column.cast(pa.large_string()), name)
    elif pa.types.is_temporal(kind):
        column = _seconds(column)
    try:
        values = np.array(column.cast(pa.float64(), safe=False).to_numpy(**_copy(column)), np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"column {name!r} holds {kind} values, which are not numbers. Leave it out.") from error
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise InvalidInput(f"column {name!r} holds infinity (row {row}): replace it by a number or a missing value")
    return values


def is_number_text(column: Any) -> bool:
    """Whether every value of a text column is a plain number (blank means missing), and at least one is there."""
    distinct = pc.drop_null(pc.unique(column.cast(pa.large_string())))
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
            f"column {name!r} is numeric, but row {row} holds {column[row].as_py()!r}. Repair it, or name the column as categorical."
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


def _copy(column: Any) -> dict[str, bool]:
    return {} if isinstance(column, pa.ChunkedArray) else {"zero_copy_only": False}
