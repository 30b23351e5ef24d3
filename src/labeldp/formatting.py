"""Base classes for results with a readable `repr`, and numbers as text, written and read.

Numbers in text, as a person types them. Python's `float` and `int` also accept `1_0`, digits of other scripts, `inf` and `nan`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
import re

from labeldp.errors import InvalidInput

NEARLY_ZERO = 1e-7
"""Numbers nearer to 0 than this are shown with an exponent."""


class ReprMixin:
    """An object with a few facts: `repr` shows them in one line, a notebook shows them as a table."""

    @abstractmethod
    def _facts(self) -> dict[str, str]:
        """Return the facts worth showing, as text by name."""

    def _caption(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in self._facts().items())})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._facts().items()
        )
        return f"<table><caption>{escape(self._caption())}</caption>{rows}</table>"


class Tabular(ReprMixin):
    """An object with rows that can be converted to an Arrow table or a pandas or polars data frame."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table.

        Returns
        -------
        pyarrow.Table
            One row per element.
        """

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            The columns of `to_arrow`.
        """
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars data frame.

        Returns
        -------
        polars.DataFrame
            The columns of `to_arrow`.
        """
        import polars as pl

        return pl.from_arrow(self.to_arrow())  # type: ignore[return-value]


def plain(value: float, digits: int = 4) -> str:
    """Format a number for people: about `digits` significant digits, with a separator for thousands.

    Only numbers nearer to 0 than one in ten million have an exponent. They are mostly rounding errors.

    Parameters
    ----------
    value : float
        The number.
    digits : int
        Digits in front of the decimal point are always shown, even if there are more.

    Returns
    -------
    str

    Examples
    --------
    >>> from labeldp.formatting import plain
    >>> [plain(value) for value in (13092.4, 3728.0, 91.5, 0.73129, -0.0, -3.54654e-16)]
    ['13,092', '3,728', '91.5', '0.7313', '0', '-3.547e-16']
    """
    if not math.isfinite(value) or value == 0:
        return "0" if value == 0 else f"{value}"
    if abs(value) < NEARLY_ZERO:
        return f"{value:.{digits}g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def count_of(number: int, noun: str) -> str:
    """Format a number of things, with a plural where needed.

    Parameters
    ----------
    number : int
        The number.
    noun : str
        The noun in the singular.

    Returns
    -------
    str

    Examples
    --------
    >>> from labeldp.formatting import count_of
    >>> count_of(1, "record"), count_of(2500, "record")
    ('1 record', '2,500 records')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float | Fraction) -> str:
    """Return a share in percent. It is never rounded to certainty, nor to 50 %, which means no information.

    Parameters
    ----------
    share : float or Fraction
        From 0 to 1.

    Returns
    -------
    str

    Examples
    --------
    >>> from labeldp.formatting import percent
    >>> percent(0.731), percent(0.99966), percent(0.5025)
    ('73 %', '99.97 %', '50.2 %')
    """
    for digits in range(6):
        text = f"{float(100 * share):.{digits}f}"
        if share in {0, 0.5, 1} or (0 < float(text) < 100 and float(text) != 50):
            return f"{text} %"
    return f"nearly {round(2 * share) * 50} %"


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
