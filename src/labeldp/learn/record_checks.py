"""Checks of stored records. A file may contain anything, so every part is checked before it is used.

`what` names the part in error messages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.json_text import expect_fields


def exactly(record: Any, *names: str, what: str = "a record") -> list[Any]:
    """Return the values of a record that has these fields and no others."""
    fields = is_a(record, dict, what=what)
    expect_fields(fields, names, what)
    return [fields[name] for name in names]


def is_a(value: object, *types: type, what: str) -> Any:
    """Return the value if it has one of these types. True and False are not numbers."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise InvalidInput(f"{what} is a {type(value).__name__}")
    return value


def all_are(values: object, kind: type, what: str) -> tuple[Any, ...]:
    """Return a list or tuple of values of one type as a tuple."""
    return tuple(is_a(value, kind, what=f"an entry of {what}") for value in is_a(values, list, tuple, what=what))


def finite_floats(values: object, what: str) -> Floats:
    """Return a list of finite floats, or a float64 array of them, as an array."""
    array = values if isinstance(values, np.ndarray) else np.array(all_are(values, float, what), np.float64)
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise InvalidInput(f"the {what} must be finite numbers")
    return array


def finite_float(value: object, what: str) -> float:
    """Return a finite float."""
    if not math.isfinite(number := float(is_a(value, float, what=what))):
        raise InvalidInput(f"{what} is not finite")
    return number
