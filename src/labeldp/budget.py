"""Privacy budgets as exact fractions, and rational bounds on e^ε.

A float ε means the decimal that a user sees: `exact_epsilon(0.1)` is 1/10, not the nearest binary number. Every
guarantee is computed from these fractions. Floats are for display only.
"""

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Number, Rational, Real

from labeldp.errors import InvalidInput, described
from labeldp.formatting import LONGEST_AMOUNT, plain_amount

MAX_EPSILON = 40
"""Beyond this, e^ε leaves too few of the 64 random bits for the other outputs, and nothing is protected."""

MIN_EPSILON = Fraction(1, 10**9)
"""Below this a release is useless: 1/ε² records are as informative as one record at ε = 1, and here that would be 10^18 records."""

MAX_DIGITS = 300
"""The most digits that the denominator of a given ε may have."""

_SPARE_DIGITS = 60
"""Subtracting the cost of a private prior (2 over a float) from ε can add up to 51 digits."""

_SHOWN_DIGITS = 12
_SHOWN_BITS = 100
"""The most digits of a decimal that `shown_amount` prints, and the most bits of the integers in a fraction."""

Epsilon = float | int | str | Decimal | Fraction


def exact_epsilon(epsilon: Epsilon) -> Fraction:
    """Return `epsilon` as an exact fraction; for a float, the shortest decimal that prints as it.

    Raise `InvalidInput` unless it lies in (0, 40] and has few enough digits to be written to a file and read back.
    """
    value = fraction_of(epsilon)
    if value is None:
        raise InvalidInput(
            f"epsilon must be a positive number of at most {MAX_DIGITS} digits, got {abbreviated(epsilon)}"
        )
    if value <= 0:
        raise InvalidInput(
            f"epsilon must be greater than 0, got {abbreviated(epsilon)}: at 0 a release could not depend on the labels at all"
        )
    if value < MIN_EPSILON:
        raise InvalidInput(
            f"epsilon must be at least {float(MIN_EPSILON):g}, got {abbreviated(epsilon)}: a smaller one releases nothing but noise"
        )
    if value > MAX_EPSILON:
        raise InvalidInput(
            f"epsilon must be at most {MAX_EPSILON}, got {abbreviated(epsilon)}: a larger one protects nothing"
        )
    if value.denominator > 10 ** (MAX_DIGITS + (_SPARE_DIGITS if isinstance(epsilon, Fraction) else 0)):
        raise InvalidInput(
            f"epsilon must have at most {MAX_DIGITS} digits, got {abbreviated(epsilon)}: use fewer digits"
        )
    return value


def parse_amount(text: object) -> Fraction:
    """Return the exact value of a decimal ("0.25", "1e-3") or a fraction ("1/3"); zero is allowed.

    Anything else raises `InvalidInput`, as do negative numbers and texts of more than 1,000 characters. Nothing is rounded.
    """
    value = plain_amount(text)
    if value is None:
        raise InvalidInput(
            f"epsilon must be written as a plain decimal or a fraction, not negative and of at most {LONGEST_AMOUNT:,} "
            f"characters, got {abbreviated(text)}"
        )
    return value


def format_amount(value: Fraction) -> str:
    """Return the text from which `parse_amount` reads `value` back. Raise `InvalidInput` if that is impossible."""
    try:
        text = decimal_text(value, places=MAX_DIGITS)
    except ValueError:  # thousands of digits
        text = "-"
    if plain_amount(text) is None:
        raise InvalidInput(
            f"an epsilon that is negative or has more than {LONGEST_AMOUNT:,} characters cannot be written to a file"
        )
    return text


def fraction_of(epsilon: object) -> Fraction | None:
    """Return an amount of any size as a fraction, or None if it is not a number or has far too many digits."""
    if isinstance(epsilon, bool):
        return None
    if isinstance(epsilon, Rational):
        return Fraction(int(epsilon.numerator), int(epsilon.denominator))
    try:
        if isinstance(epsilon, str):
            return -parse_amount(epsilon[1:]) if epsilon.startswith("-") else parse_amount(epsilon)
        if isinstance(epsilon, Decimal):
            # Decimal("1e999999999") is short, but as an integer it would fill the memory
            return Fraction(epsilon) if epsilon.is_finite() and abs(epsilon.adjusted()) <= MAX_DIGITS else None
        if isinstance(epsilon, Real):
            return Fraction(repr(float(epsilon)))
    except (ArithmeticError, ValueError):
        return None
    return None


def abbreviated(given: object) -> str:
    """Return the first characters of a value, for an error message."""
    if not isinstance(given, (Number, str)):
        return described(given)
    try:
        text = repr(given) if isinstance(given, str) else str(given)
    except ValueError:  # Python refuses to print integers of thousands of digits
        return "a number with thousands of digits"
    return text if len(text) <= 60 else f"{text[:60]}… ({len(text):,} characters)"


def float_up(value: Fraction) -> float:
    """Return the smallest float that is not below `value`, so that a printed ε is never too small."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


class Priced:
    """Something that costs `epsilon_exact`."""

    epsilon_exact: Fraction

    @property
    def epsilon(self) -> float:
        """`epsilon_exact` as a float, rounded up."""
        return float_up(self.epsilon_exact)


def rounded_up(value: Fraction, digits: int = 6) -> str:
    """Return a few digits of the value, rounded up, because a printed bound must still be a bound."""
    upwards = Context(prec=digits, rounding=ROUND_CEILING)
    text = f"{upwards.divide(Decimal(value.numerator), Decimal(value.denominator)):g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def decimal_text(value: Fraction, places: int = 40) -> str:
    """Return the exact decimal if it has at most `places` places, otherwise the fraction `p/q`."""
    if 10**places % value.denominator:
        return str(value)
    whole, part = divmod(abs(value.numerator) * 10**places // value.denominator, 10**places)
    decimals = f"{part:0{places}d}".rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def shown_amount(value: Fraction) -> str:
    """Return a decimal for people to read, followed by the exact fraction if the decimal is rounded."""
    exact = decimal_text(value, _SHOWN_DIGITS)
    if "/" not in exact:
        return exact
    short = value.denominator.bit_length() < _SHOWN_BITS and value.numerator.bit_length() < _SHOWN_BITS
    return f"{rounded_up(value, _SHOWN_DIGITS)} (rounded up{f'; exactly {exact}' if short else ''})"


def exp_lower(exponent: Fraction, bits: int = 128) -> Fraction:
    """Return a rational lower bound of e^exponent, with a relative error below 2^-bits, for exponent >= 0."""
    return _exp_bounds(exponent, bits)[0]


def exp_upper(exponent: Fraction, bits: int = 128) -> Fraction:
    """Return a rational upper bound of e^exponent, with a relative error below 2^-bits, for exponent >= 0."""
    return _exp_bounds(exponent, bits)[1]


@lru_cache(maxsize=256)
def _exp_bounds(exponent: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Evaluate the Taylor series in integers, rounding every division down for the lower bound and up for the upper one.

    The argument is halved until it is below 1/2, and the bounds are squared the same number of times. A squaring at
    most doubles the relative error and adds one rounding; the extra bits in `work` absorb both.
    """
    if exponent < 0:
        raise InvalidInput(f"e^x is bounded for x >= 0 only, got {abbreviated(exponent)}")
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
    high += 2  # the terms left out sum to less than the last one, which is at most one unit
    for _ in range(halvings):
        low = low * low >> work
        high = _ceil_div(high * high, one)
    return Fraction(low, one), Fraction(high, one)


def _ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
