"""Numbers in text, as a person types them. Python's `float` and `int` also accept `1_0`, digits of other scripts, `inf` and `nan`."""

import math
import re
from fractions import Fraction

from labeldp.errors import InvalidInput

LONGEST_TEXT = 100
"""The longest text that is read as a number. An integer of 100 digits is still a finite float."""

LONGEST_AMOUNT = 1000
"""The longest text that is read as an exact amount. Every ε that `exact_epsilon` accepts can be written in fewer characters."""

_DECIMAL = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_NUMBER = re.compile(rf"\s*[+-]?{_DECIMAL}\s*", re.ASCII)
_AMOUNT = re.compile(rf"\s*\+?(?:[0-9]+/0*[1-9][0-9]*|{_DECIMAL})\s*", re.ASCII)
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)


def plain_number(text: object, what: str, *, shown: bool = True) -> float:
    """Return the finite number that a text states in plain decimal digits, such as "-2.5" or "1e-3"; `what` is for the error.

    The error shows the text unless `shown` is false, as for text from a file, which may contain labels by mistake.
    """
    value = float(text) if isinstance(text, str) and _matches(_NUMBER, text) else math.nan
    if not math.isfinite(value):
        raise InvalidInput(
            f"{what} must be a finite number written in plain digits, as in 0.5{f', got {text!r:.60}' if shown else ''}"
        )
    return value


def whole_number(text: object, what: str) -> int:
    """Return the whole number that a text states in plain decimal digits; `what` is for the error."""
    if not isinstance(text, str) or not _matches(_WHOLE, text):
        raise InvalidInput(f"{what} must be a whole number written in plain digits, as in 52, got {text!r:.60}")
    return int(text)


def plain_amount(text: object) -> Fraction | None:
    """Return the exact value of a decimal ("0.25", "1e-3") or a fraction ("1/3") of at most 1,000 characters, or None."""
    return Fraction(text) if isinstance(text, str) and _matches(_AMOUNT, text, LONGEST_AMOUNT) else None


def _matches(pattern: re.Pattern[str], text: str, longest: int = LONGEST_TEXT) -> bool:
    return len(text) <= longest and pattern.fullmatch(text) is not None
