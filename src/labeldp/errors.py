"""All errors that labeldp raises on purpose, and the warning about labels outside their bounds.

The command line exits with the `exit_code` of the error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sized
from contextlib import suppress
from fractions import Fraction
from numbers import Integral, Number, Real
from typing import Any


class LabelDPError(Exception):
    """The base class of all errors that labeldp raises on purpose.

    Attributes
    ----------
    exit_code : int
        The status with which the command line ends after this error.

    Examples
    --------
    >>> from labeldp import Domain, LabelDPError
    >>> try:
    ...     Domain(400, 0)
    ... except LabelDPError as error:
    ...     print(error.exit_code)
    2
    """

    exit_code = 1


class InvalidInput(LabelDPError, ValueError):  # noqa: N818 - reads as what it is
    """An invalid argument, option or file. The message states what is wrong, where, and what to do.

    Examples
    --------
    >>> from labeldp import Domain
    >>> Domain(0, 10).check([5, None])
    Traceback (most recent call last):
    labeldp.errors.InvalidInput: labels must be finite numbers: index 1 is missing or NaN. Drop or repair these records first.
    """

    exit_code = 2


class MissingExtra(InvalidInput):
    """A package of one of labeldp's extras is not installed. The message contains the command that installs it."""


class PrivacyRefused(InvalidInput):
    """The requested guarantee cannot be proven, so nothing is released.

    Examples
    --------
    >>> from labeldp.sampling import WeightTable
    >>> WeightTable.from_probabilities([[0.9, 0.1], [0.5, 0.5]], epsilon=1)
    Traceback (most recent call last):
    labeldp.errors.PrivacyRefused: the matrix is not 1-DP: output 1 has probability 0.5 from symbol 1 and 0.1 from symbol 0
    """


class ClippingWarning(UserWarning):
    """Many labels lie outside the public bounds and are moved to them. The message depends on the true labels: keep it to yourself.

    Examples
    --------
    >>> import warnings
    >>> from labeldp import ClippingWarning, Domain
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     labels = Domain(0, 10).check([5, 6, 70])
    >>> issubclass(caught[0].category, ClippingWarning)
    True
    """


def described(value: object) -> str:
    """Return the form of an invalid value in an error: a number or a text itself, anything else by its type.

    A user who mixed up two arguments may have given the labels, and errors end up in logs.
    """
    with suppress(ValueError):  # Python refuses to print integers of thousands of digits
        if value is None or isinstance(value, (Number, str)):
            return f"{value!r:.80}"
    size = ""
    with suppress(TypeError):  # len() of a zero-dimensional array
        size = f" of length {len(value)}" if isinstance(value, Sized) else ""
    return f"{type(value).__name__}{size}"


def why_unreadable(error: BaseException) -> str:
    """Return why a file cannot be read, without the library's message, which may quote a value or the file's first bytes."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, NotImplementedError):  # also Arrow's
        return "it is written in a way that the installed version of pyarrow cannot read"
    return "its content does not match its name, or it is damaged"


def is_whole(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Return whether a value is a whole number of an integer type in this range. True and False are not."""
    of_kind: bool = isinstance(value, Integral)
    return of_kind and not isinstance(value, bool) and bool(least <= value <= most)


def is_number(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Return whether a value is a number in this range. True, False and NaN are not."""
    of_kind: bool = isinstance(value, Real)
    return of_kind and not isinstance(value, bool) and bool(least <= value <= most)


def expect(value: object, kind: type, name: str, how: str) -> None:
    """Raise `InvalidInput` unless `value` has this type. `how` explains how to make one."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name} must be a {kind.__name__}, got {type(value).__name__}: {how}")


def expect_path(value: object, name: str, how: str) -> None:
    """Raise `InvalidInput` unless `value` is a path."""
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidInput(f"{name} must be a path, as text or Path, got {type(value).__name__}: {how}")


class InsufficientBudget(LabelDPError):  # noqa: N818
    """The ledger has less budget left than a release requests.

    Parameters
    ----------
    dataset : str
        The name of the data set in the ledger.
    requested : fractions.Fraction
        The ε that the release requests.
    remaining : fractions.Fraction
        The ε that the data set has left.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from labeldp import InsufficientBudget
    >>> error = InsufficientBudget("sales", requested=Fraction(1), remaining=Fraction(1, 4))
    >>> error.remaining
    Fraction(1, 4)
    """

    exit_code = 3

    def __init__(self, dataset: str, requested: Fraction, remaining: Fraction) -> None:
        self.dataset = dataset
        self.requested = requested
        self.remaining = remaining
        way = (
            f"Ask for at most {_amount(remaining)}." if remaining > 0 else "Nothing more can be released of this data."
        )
        super().__init__(
            f"dataset {dataset!r} has ε = {_amount(remaining)} left, this release asks for ε = {_amount(requested)}. "
            f"Nothing was released. {way} A budget is agreed once and cannot be changed."
        )

    def __reduce__(self) -> tuple[type[InsufficientBudget], tuple[str, Fraction, Fraction]]:
        return type(self), (self.dataset, self.requested, self.remaining)  # pickling calls __init__ with these


def _amount(value: Fraction) -> str:
    """Return six digits if they are exact, otherwise all digits, so that two close amounts do not look the same."""
    short = f"{float(value):.6g}"
    return short if Fraction(short) == value else f"{float(value):.17g}"


class ClassesWarning(UserWarning):
    """The classes were not named and were taken from the labels.

    Examples
    --------
    >>> from labeldp import ClassesWarning
    >>> issubclass(ClassesWarning, UserWarning)
    True
    """


class RepeatedRelease(UserWarning):
    """The same labels may be released a second time, at full cost.

    Examples
    --------
    >>> from labeldp import RepeatedRelease
    >>> issubclass(RepeatedRelease, UserWarning)
    True
    """
