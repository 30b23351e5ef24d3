"""Privacy budgets as exact fractions, and rational bounds on e^ε.

A float ε means the decimal a user sees: `exact(0.1)` is 1/10, not the binary number nearest to it. Everything that
decides a guarantee is computed from these fractions; floats only describe.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational, Real

from labeldp.errors import InvalidInput

MAX_EPSILON = 40
"""Above this e^ε leaves too few of the 64 random bits for the other outputs, and protects nobody."""

MIN_EPSILON = Fraction(1, 10**50)
"""Nobody means less than this; a longer string of zeros is a slip."""

LONGEST_TEXT = 1000
"""Characters of a number that is read. What `exact_epsilon` accepts is written in fewer, so it can always be read back."""

MAX_DIGITS = 300
"""Digits of the denominator of an ε that is given."""

_SPARE_DIGITS = 60
"""ε less the cost of a private prior, 2 over a float of at most 2·10^50, has up to 51 digits more."""

_WRITTEN = re.compile(
    r"\s*\+?(?:[0-9]+/0*[1-9][0-9]*|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)\s*", re.ASCII
)

Epsilon = float | int | str | Decimal | Fraction


def exact_epsilon(epsilon: Epsilon) -> Fraction:
    """The fraction that `epsilon` stands for: its shortest decimal if a float, itself otherwise.

    Refuses what is not a number in (0, 40], and what has more digits than can be written down and read back.
    """
    value = fraction_of(epsilon)
    if value is None:
        raise InvalidInput(f"epsilon must be a positive number of at most {MAX_DIGITS} digits, got {shown(epsilon)}")
    if value <= 0:
        raise InvalidInput(
            f"epsilon must be greater than 0, got {shown(epsilon)}: at 0 a release may say nothing at all"
        )
    if value < MIN_EPSILON:
        raise InvalidInput(f"epsilon must be at least {float(MIN_EPSILON):g}, got {float(value):g}")
    if value > MAX_EPSILON:
        raise InvalidInput(
            f"epsilon must be at most {MAX_EPSILON}, got {shown(epsilon)}: beyond that there is no protection worth the "
            "name"
        )
    if value.denominator > 10 ** (MAX_DIGITS + (_SPARE_DIGITS if isinstance(epsilon, Fraction) else 0)):
        raise InvalidInput(f"epsilon must have at most {MAX_DIGITS} digits, got {shown(epsilon)}: write a shorter one")
    return value


def parse_amount(text: object) -> Fraction:
    """The number that `text` gives as a decimal ("0.25", "1e-3") or a fraction ("1/3"), exactly; it may be zero.

    Refuses, rather than cuts or rounds, what is no such text, negative, or longer than 1,000 characters.
    """
    if not isinstance(text, str) or len(text) > LONGEST_TEXT or not _WRITTEN.fullmatch(text):
        raise InvalidInput(
            f"epsilon must be written as a plain decimal or a fraction, not negative and of at most {LONGEST_TEXT:,} "
            f"characters, got {shown(text)}"
        )
    return Fraction(text)


def format_amount(value: Fraction) -> str:
    """The text from which `parse_amount` reads `value` back. Refuses a number that has none: it would be lost."""
    try:
        text = decimal_text(value, places=MAX_DIGITS)
    except ValueError:  # thousands of digits
        text = "-"
    if len(text) > LONGEST_TEXT or not _WRITTEN.fullmatch(text):
        raise InvalidInput(
            f"an epsilon that is negative or has more than {LONGEST_TEXT:,} characters cannot be written to a file"
        )
    return text


def fraction_of(epsilon: object) -> Fraction | None:
    """The fraction that an amount of any size stands for, or None if it is no number or far too long a one."""
    if isinstance(epsilon, bool):
        return None
    if isinstance(epsilon, Rational):
        return Fraction(int(epsilon.numerator), int(epsilon.denominator))
    try:
        if isinstance(epsilon, str):
            return -parse_amount(epsilon[1:]) if epsilon.startswith("-") else parse_amount(epsilon)
        if isinstance(epsilon, Decimal):
            # Decimal("1e999999999") is short but an endless integer
            return Fraction(epsilon) if epsilon.is_finite() and abs(epsilon.adjusted()) <= MAX_DIGITS else None
        if isinstance(epsilon, Real):
            return Fraction(repr(float(epsilon)))
    except (ArithmeticError, ValueError):
        return None
    return None


def shown(given: object) -> str:
    """What was given, for an error: its first characters. Python prints no integer of thousands of digits."""
    try:
        text = repr(given) if isinstance(given, str) else str(given)
    except ValueError:
        return "one of thousands of digits"
    return text if len(text) <= 60 else f"{text[:60]}… ({len(text):,} characters)"


def float_up(value: Fraction) -> float:
    """The smallest float that is not below `value`, so that a printed ε never understates the truth."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def decimal_text(value: Fraction, places: int = 40) -> str:
    """An exact decimal where there is one of at most `places` places, else a fraction `p/q`."""
    denominator = value.denominator
    twos = (denominator & -denominator).bit_length() - 1
    fives, rest = 0, denominator >> twos
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    digits = max(twos, fives)
    if rest != 1 or digits > places:
        return str(value)
    scaled = abs(value.numerator) * 10**digits // denominator
    whole, part = divmod(scaled, 10**digits)
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}" + (f".{part:0{digits}d}" if digits else "")


def exp_lower(exponent: Fraction, bits: int = 128) -> Fraction:
    """A rational lower bound of e^exponent, within a relative 2^-bits, for exponent >= 0."""
    return _exp_bounds(exponent, bits)[0]


def exp_upper(exponent: Fraction, bits: int = 128) -> Fraction:
    """A rational upper bound of e^exponent, within a relative 2^-bits, for exponent >= 0."""
    return _exp_bounds(exponent, bits)[1]


@lru_cache(maxsize=256)
def _exp_bounds(exponent: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Taylor's series in integers, every division rounded in a known direction.

    The argument is halved until it is below 1/2 and the bounds are squared back; each squaring at most doubles the
    relative error and adds one rounding, which the guard bits absorb.
    """
    if exponent < 0:
        raise InvalidInput("bounds on e^x are for x >= 0")
    halvings = max(0, math.ceil(exponent).bit_length() + 1)
    work = bits + 2 * halvings + 32
    one = 1 << work
    scaled = exponent / 2**halvings
    x_low = (scaled.numerator << work) // scaled.denominator
    x_high = _ceil_div(scaled.numerator << work, scaled.denominator)
    low, high = one, one
    term_low, term_high, n = one, one, 0
    while term_high > 1:
        n += 1
        term_low = (term_low * x_low >> work) // n
        term_high = _ceil_div(term_high * x_high, n << work)
        low += term_low
        high += term_high
    high += 2  # the tail after the last term is below the last term, itself at most one unit
    for _ in range(halvings):
        low = low * low >> work
        high = _ceil_div(high * high, one)
    return Fraction(low, one), Fraction(high, one)


def _ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
