"""Durations as numbers, in a unit that the user names."""

from datetime import timedelta
from difflib import get_close_matches
from math import gcd
from typing import Any

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


def check_unit(unit: object) -> None:
    """Refuse a unit that is not in `UNITS`, and suggest the nearest one."""
    if not isinstance(unit, str) or unit not in UNITS:
        short = {code.lower(): name for code, name in zip(_TICKS, UNITS, strict=True)}
        known = short.get(str(unit).lower())
        close = [known] if known else get_close_matches(str(unit).lower(), UNITS, n=1, cutoff=0.65)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidInput(f"unknown unit {described(unit)}.{hint} Known: {', '.join(UNITS)}.")


def are_durations(array: NDArray[Any]) -> bool:
    """Whether these are durations: NumPy's own, or an object array of `datetime.timedelta` in which some may be missing."""
    if array.dtype.kind != "O":
        return array.dtype.kind == "m"
    given = [value for value in array.flat if not _missing(value)]
    return bool(given) and all(isinstance(value, timedelta) for value in given)


def duration_numbers(array: NDArray[Any], unit: str | None, name: str) -> NDArray[np.float64]:
    """Durations as float64 in a unit, NaN where missing; without a unit the error says how to name one."""
    if unit is None:
        raise InvalidInput(
            f"{name} are durations, and numbers need a unit. Name the unit of the bounds, which is public: "
            'Domain(0, 48, unit="hours"), on the command line privatize --unit hours'
        )
    if array.dtype.kind == "O":
        ticks = np.asarray([np.nan if _missing(value) else value / _MICROSECOND for value in array], np.float64)
        return _scaled(ticks, _TICKS["us"], unit)
    code, multiple = np.datetime_data(array.dtype)
    if code not in _TICKS:
        raise InvalidInput(
            f"{name} are durations of type {array.dtype}, whose length in {unit} is not known: convert them first"
        )
    ticks = array.astype(np.int64).astype(np.float64)
    ticks[np.isnat(array)] = np.nan
    return _scaled(ticks, _TICKS[code] * multiple, unit)


def _scaled(ticks: NDArray[np.float64], nanoseconds: int, unit: str) -> NDArray[np.float64]:
    """One multiplication and one division by whole numbers, so that 7,200 seconds are exactly 2 hours."""
    common = gcd(nanoseconds, UNITS[unit])
    return ticks * float(nanoseconds // common) / float(UNITS[unit] // common)


def _missing(value: object) -> bool:
    """None, NaN or pandas' NaT."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NaTType"  # noqa: PLR0124
