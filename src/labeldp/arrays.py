"""From what a user gives as labels (lists, NumPy, pandas, polars, Arrow) to float64 arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InvalidInput

Floats = NDArray[np.float64]


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A copy of a flat array that nobody can make writeable again."""
    return np.frombuffer(array.tobytes(), array.dtype)


def label_array(labels: Any, name: str = "labels") -> Floats:
    """`labels` as a one-dimensional float64 array of finite numbers; the error for any other names the first bad rows."""
    array = _to_numpy(labels, name)
    if array.ndim != 1:
        raise InvalidInput(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.dtype.kind not in "fiu":
        array = _numbers_in(array, name)
    result = array.astype(np.float64, copy=False)
    bad = ~np.isfinite(result)
    if bad.any():
        kind = "missing or NaN" if np.isnan(result[bad]).all() else "NaN or infinite"
        raise InvalidInput(
            f"{name} must be finite numbers: {offending_rows(bad, result)} {kind}. Drop or repair these records first."
        )
    return result


def _to_numpy(labels: Any, name: str) -> NDArray[Any]:
    if isinstance(labels, np.ma.MaskedArray):
        return np.ma.filled(labels.astype(np.float64), np.nan)
    if isinstance(labels, np.ndarray):
        return labels
    if isinstance(labels, (list, tuple, range)):
        return _from_sequence(labels, name)
    if type(labels).__module__.startswith("pyarrow"):
        return _from_arrow(labels)
    import narwhals.stable.v2 as nw

    series = nw.from_native(labels, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return np.asarray(_from_arrow(series.to_arrow()))
    if hasattr(labels, "__array__"):
        return np.asarray(labels)
    raise InvalidInput(
        f"{name} must be a list, a NumPy array, or a pandas, polars or Arrow series, got {type(labels).__name__}"
    )


def _from_sequence(labels: Any, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise InvalidInput(f"{name} must be a flat list of numbers: {error}") from error
    return array if array.size else np.empty(0, np.float64)


def _from_arrow(array: Any) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    if array.null_count and (pa.types.is_integer(array.type) or pa.types.is_null(array.type)):
        array = array.cast(pa.float64(), safe=False)
    if isinstance(array, pa.ChunkedArray):
        return np.asarray(array.to_numpy())
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _numbers_in(array: NDArray[Any], name: str) -> Floats:
    """The numbers of an object array, with None as NaN; any other array is refused."""
    bad = np.ones(array.shape, bool)
    if array.dtype.kind == "O":
        bad = np.array([isinstance(v, bool) or not isinstance(v, (int, float, np.number, type(None))) for v in array])
        if not bad.any():
            return array.astype(np.float64)
    kinds = {"b": "booleans", "U": "text", "S": "text", "M": "dates", "m": "durations"}
    what = kinds.get(array.dtype.kind, "not numbers")
    raise InvalidInput(
        f"{name} must be numbers: {offending_rows(bad, array)} {what}. Convert the column to numbers first."
    )


def offending_rows(bad: NDArray[np.bool_], values: NDArray[Any], most: int = 3) -> str:
    """The subject of a sentence, such as "row 3 (nan), row 7 (inf) and 2 more are". It shows labels: for the labels party only."""
    where = np.flatnonzero(bad)
    shown = ", ".join(f"row {i} ({values[i]!s})" for i in where[:most])
    rest = f" and {len(where) - most:,} more" if len(where) > most else ""
    verb = "is" if len(where) == 1 else "are"
    return f"{shown}{rest} {verb}"
