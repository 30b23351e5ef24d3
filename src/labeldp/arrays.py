"""Labels given as lists, NumPy, pandas, polars or Arrow arrays, or durations, as float64 arrays."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property, update_wrapper
from math import gcd
from types import FunctionType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InvalidInput, described

UNITS = {
    "nanoseconds": 1,
    "microseconds": 10**3,
    "milliseconds": 10**6,
    "seconds": 10**9,
    "minutes": 60 * 10**9,
    "hours": 3600 * 10**9,
    "days": 24 * 3600 * 10**9,
    "weeks": 7 * 24 * 3600 * 10**9,
}
"""The units that a user may name, in nanoseconds. Months and years are not among them: their length varies."""
_TICKS = dict(zip(("ns", "us", "ms", "s", "m", "h", "D", "W"), UNITS.values(), strict=True))
"""NumPy's names for the same units."""
_MICROSECOND = timedelta(microseconds=1)

Floats = NDArray[np.float64]
_MOST_NAMED = 3


def check_unit(unit: object) -> None:
    """Raise `InvalidInput` unless the unit is in `UNITS`, and suggest the nearest one."""
    if not isinstance(unit, str) or unit not in UNITS:
        short = {code.lower(): name for code, name in zip(_TICKS, UNITS, strict=True)}
        known = short.get(str(unit).lower())
        close = [known] if known else get_close_matches(str(unit).lower(), UNITS, n=1, cutoff=0.65)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidInput(f"unknown unit {described(unit)}.{hint} Known: {', '.join(UNITS)}.")


def are_durations(array: NDArray[Any]) -> bool:
    """Return whether these are durations: NumPy's own type, or an object array of `datetime.timedelta`, with or without missing values."""
    if array.dtype.kind != "O":
        return array.dtype.kind == "m"
    given = [value for value in array.flat if not _missing(value)]
    return bool(given) and all(isinstance(value, timedelta) for value in given)


def duration_numbers(array: NDArray[Any], unit: str | None, name: str) -> NDArray[np.float64]:
    """Return durations as float64 in a unit, NaN where missing. Without a unit, the error explains how to name one."""
    if unit is None:
        raise InvalidInput(
            f"{name} are durations, and numbers need a unit. Name the unit of the bounds, which is public: "
            'Domain(0, 48, unit="hours"), on the command line --unit hours'
        )
    if array.dtype.kind == "O":
        ticks = np.asarray([np.nan if _missing(value) else value / _MICROSECOND for value in array], np.float64)
        return _in_unit(ticks, _TICKS["us"], unit)
    code, multiple = np.datetime_data(array.dtype)
    if code not in _TICKS:
        raise InvalidInput(
            f"{name} are durations of type {array.dtype}, whose length in {unit} is not known: convert them first"
        )
    ticks = array.astype(np.int64).astype(np.float64)
    ticks[np.isnat(array)] = np.nan
    return _in_unit(ticks, _TICKS[code] * multiple, unit)


def _in_unit(ticks: NDArray[np.float64], nanoseconds: int, unit: str) -> NDArray[np.float64]:
    """Convert by one multiplication and one division by whole numbers, so that 7,200 seconds are exactly 2 hours."""
    common = gcd(nanoseconds, UNITS[unit])
    return ticks * float(nanoseconds // common) / float(UNITS[unit] // common)


def _missing(value: object) -> bool:
    """Return whether a value is None, NaN or pandas' NaT."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NaTType"  # noqa: PLR0124


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of a flat array that cannot be made writeable again."""
    return np.frombuffer(array.tobytes(), array.dtype)


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Return a view with the same numba type for every source of its bytes, so that loops are compiled only once.

    It is aligned, as numba assumes.
    """
    view = np.require(values, requirements=["C", "A"])[:]
    view.flags.writeable = False
    return view


class compiled:  # noqa: N801 - a decorator
    """A loop over arrays. Python runs it until the loops of this process have seen `_MOST_INTERPRETED` elements, then numba compiles it.

    Importing numba takes longer than a whole release of 1,000 rows, so small inputs do not import it. Both run the same
    source and give the same bits: words are NumPy's unsigned 64-bit integers, which wrap around as numba's do. Literals that
    meet them are wrapped too, because numba turns `uint64 + int` into a float. A loop may call other loops.
    """

    interpreted = 0

    def __init__(self, source: Callable[..., Any]) -> None:
        update_wrapper(self, source)
        self.source = source

    def __call__(self, *arguments: Any) -> Any:
        if "machine_code" not in self.__dict__:
            elements = sum(argument.size for argument in arguments if isinstance(argument, np.ndarray))
            if compiled.interpreted + elements <= _MOST_INTERPRETED:
                compiled.interpreted += elements
                with np.errstate(over="ignore"):
                    return self.python(*arguments)
        return self.machine_code(*arguments)

    @cached_property
    def python(self) -> Callable[..., Any]:
        """The loop as Python runs it."""
        return self._calling(lambda loop: loop.python)

    @cached_property
    def machine_code(self) -> Callable[..., Any]:
        """The loop as numba compiles it. The machine code is kept on disk for the next process."""
        import numba

        function = self._calling(lambda loop: loop.machine_code)
        return numba.njit(cache=True, nogil=True, error_model="numpy")(function)  # type: ignore[no-any-return]

    def _calling(self, form: Callable[[Self], Callable[..., Any]]) -> Callable[..., Any]:
        """Return the source as a function that calls other loops in the same form."""
        names = self.source.__globals__
        used = {name: names.get(name) for name in self.source.__code__.co_names}
        loops = {name: form(loop) for name, loop in used.items() if isinstance(loop, type(self))}
        return FunctionType(self.source.__code__, names | loops, self.source.__name__)


_MOST_INTERPRETED = 2**18
"""Python takes about as long for this many elements as the import of numba."""


def label_array(labels: Any, name: str = "labels", unit: str | None = None) -> Floats:
    """Return `labels` as a one-dimensional float64 array of finite numbers. Errors name the first invalid rows.

    Durations become numbers in `unit`, booleans 0 and 1. Errors never show a label, because they end up in logs.
    """
    array = as_numpy(labels, name)
    if array.ndim != 1:
        raise InvalidInput(f"{name} must be one-dimensional, got shape {array.shape}")
    if are_durations(array):
        array = duration_numbers(array, unit, name)
    elif array.dtype.kind not in "fiub":
        array = _numbers_in(array, name)
    result = array.astype(np.float64, copy=False)
    bad = ~np.isfinite(result)
    if bad.any():
        kind = "missing or NaN" if np.isnan(result[bad]).all() else "NaN or infinite"
        raise InvalidInput(
            f"{name} must be finite numbers: {offending_rows(bad)} {kind}. Drop or repair these records first."
        )
    return result


def class_positions(labels: Any, classes: tuple[str, ...], name: str = "labels") -> Floats:
    """Return the index of each label among the class names. Errors name the first invalid rows.

    Numbers are matched with names that are written as numbers. Otherwise, with two classes, 0 and False are the first
    class, and 1 and True the second.
    """
    array = as_numpy(labels, name)
    if array.ndim != 1:
        raise InvalidInput(f"{name} must be one-dimensional, got shape {array.shape}")
    found = known_positions(array, classes)
    if (bad := np.isnan(found)).any():
        verb = offending_rows(bad)
        raise InvalidInput(
            f"{name} must be of {len(classes)} classes: {verb} {no_class(rates=are_rates(array[bad]), classes=classes)}"
        )
    return found


def known_positions(labels: NDArray[Any], classes: tuple[str, ...]) -> Floats:
    """Return the index of each label among the class names, NaN for labels of no class."""
    known = _positions_of(classes)
    return np.array([_position(label, known) for label in labels.tolist()], np.float64)


def no_class(*, rates: bool, classes: tuple[str, ...]) -> str:
    """Describe labels of no class, or only probabilities, without showing one, and what to do about them."""
    if rates:
        return "numbers between 0 and 1. Give the classes themselves, not probabilities"
    return f"missing or something else. Check the column, or name all classes. Named were {', '.join(classes)}"


def are_rates(labels: NDArray[Any]) -> bool:
    """Return whether labels of no class are all numbers between 0 and 1."""
    return all(_is_rate(label) for label in labels.tolist())


def _is_rate(label: Any) -> bool:
    try:
        return 0 < float(label) < 1
    except (TypeError, ValueError):
        return False


def _positions_of(classes: tuple[str, ...]) -> dict[Any, int]:
    """Return the class index of every spelling of a class. True and 1 are the same key, and so are False and 0."""
    known: dict[Any, int] = {text: place for place, text in enumerate(classes)}
    for place, text in enumerate(classes):
        number = (_BOOLEANS | _ANSWERS).get(text.lower(), int(text) if text.lstrip("-").isdecimal() else None)
        if number is not None:
            known.setdefault(number, place)
    if len(classes) == 2 and not known.keys() & {0, 1}:
        known |= {0: 0, 1: 1}
    if {0, 1} <= known.keys():  # as text files write them
        for text in ("0", "1", *_BOOLEANS, "False", "True", "FALSE", "TRUE"):
            known.setdefault(text, known[_BOOLEANS.get(text.lower(), int(text) if text.isdecimal() else 0)])
    return known


_BOOLEANS = {"false": 0, "true": 1}
_ANSWERS = {"no": 0, "yes": 1, "n": 0, "y": 1}
"""Class names that identify the class of True, in any order."""


def _position(label: Any, known: dict[Any, int]) -> float:
    try:
        return known.get(label, np.nan)
    except TypeError:  # it cannot be hashed, such as a list
        return np.nan


def number_array(values: Any, name: str) -> Floats:
    """Return numbers of any shape as float64. The error for anything else does not show its content."""
    try:
        return np.asarray(values, np.float64)
    except Exception:  # noqa: BLE001 - including errors of a user's own __array__
        raise InvalidInput(f"{name} must be numbers: convert them first") from None


def as_numpy(labels: Any, name: str) -> NDArray[Any]:
    """Return the user's labels as an array of any type."""
    if isinstance(labels, np.ma.MaskedArray):
        return _from_masked(labels, name)
    if isinstance(labels, np.ndarray):
        return labels
    if isinstance(labels, (list, tuple, range)):
        return _from_sequence(labels, name)
    if type(labels).__module__.startswith("pyarrow") and hasattr(labels, "null_count"):
        return _from_arrow(labels)
    import narwhals.stable.v2 as nw

    series = nw.from_native(labels, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        try:
            return np.asarray(_from_arrow(series.to_arrow()))
        except Exception:  # noqa: BLE001 - mixed types, about which Arrow's error quotes labels
            return np.asarray(series.to_list(), object)
    if hasattr(labels, "__array__"):
        try:
            return np.asarray(labels)
        except Exception as error:  # noqa: BLE001 - from the user's own code, so its message and context may show labels
            reason = type(error).__name__
        raise InvalidInput(
            f"{name} cannot be read: the __array__ method of {type(labels).__name__} raised {reason}. Convert them to a NumPy array first"
        )
    raise InvalidInput(
        f"{name} must be a list, a NumPy array, or a pandas, polars or Arrow series, got {type(labels).__name__}"
    )


def _from_masked(labels: Any, name: str) -> NDArray[Any]:
    shown = np.asarray(labels.data)
    if shown.dtype.kind == "m":
        return np.where(np.ma.getmaskarray(labels), np.timedelta64("NaT"), shown)
    numbers = shown if shown.dtype.kind in "fiub" else _numbers_in(shown, name)
    return np.where(np.ma.getmaskarray(labels), np.nan, numbers.astype(np.float64))


def _from_sequence(labels: Any, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(labels)
    except Exception:  # noqa: BLE001 - possibly from an element's own __array__; its message and context may show labels
        raise InvalidInput(f"{name} must be a flat list of numbers, one for each record") from None
    return array if array.size else np.empty(0, np.float64)


def _from_arrow(array: Any) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    if pa.types.is_boolean(array.type) and array.null_count:
        array = array.cast(pa.int8())
    if array.null_count and (pa.types.is_integer(array.type) or pa.types.is_null(array.type)):
        array = array.cast(pa.float64(), safe=False)
    if isinstance(array, pa.ChunkedArray):
        return np.asarray(array.to_numpy())
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _numbers_in(array: NDArray[Any], name: str) -> Floats:
    """Return the numbers of an object array, with None as NaN. Raise `InvalidInput` for any other array."""
    bad = np.ones(array.shape, bool)
    what = {"U": "text", "S": "text", "M": "dates"}.get(array.dtype.kind, "not numeric")
    if array.dtype.kind == "O":
        kinds = (int, float, np.integer, np.floating, Decimal, type(None))
        bad = np.array([isinstance(value, bool) or not isinstance(value, kinds) for value in array], bool)
        if not bad.any():
            try:
                return array.astype(np.float64)
            except (OverflowError, ValueError):  # a number beyond floats, or a signalling NaN
                bad, what = np.array([not _fits(value) for value in array]), "too large for floats"
    raise InvalidInput(f"{name} must be numbers: {offending_rows(bad)} {what}. Convert the column to numbers first.")


def _fits(value: Any) -> bool:
    try:
        float(np.nan if value is None else value)
    except (OverflowError, ValueError):
        return False
    return True


def offending_rows(bad: NDArray[np.bool_]) -> str:
    """Return the subject of a sentence, such as "index 3, index 7 and 2 more are". Indices count from 0. It never contains a label."""
    where = np.flatnonzero(bad)
    shown = ", ".join(f"index {i}" for i in where[:_MOST_NAMED])
    rest = f" and {len(where) - _MOST_NAMED:,} more" if len(where) > _MOST_NAMED else ""
    verb = "is" if len(where) == 1 else "are"
    return f"{shown}{rest} {verb}"
