"""Privacy budgets as exact fractions, and rational bounds on e^ε.

A float ε means the decimal a user sees: `exact(0.1)` is 1/10, not the binary number nearest to it. Everything that
decides a guarantee is computed from these fractions; floats only describe.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational, Real

from labeldp.errors import InvalidInput

MAX_EPSILON = 40
"""Above this e^ε leaves too few of the 64 random bits for the other outputs, and protects nobody."""

MIN_EPSILON = Fraction(1, 10**50)
"""Nobody means less than this; a longer string of zeros is a slip."""

Epsilon = float | int | str | Decimal | Fraction


def exact(epsilon: Epsilon) -> Fraction:
    """The fraction that `epsilon` stands for: its shortest decimal if a float, itself otherwise.

    Refuses what is not a number in (0, 40].
    """
    value = _fraction(epsilon)
    if value is None:
        raise InvalidInput(f"epsilon must be a positive number, got {epsilon!r}")
    if value <= 0:
        raise InvalidInput(f"epsilon must be greater than 0, got {epsilon}: at 0 a release may say nothing at all")
    if value < MIN_EPSILON:
        raise InvalidInput(f"epsilon must be at least {float(MIN_EPSILON):g}, got {float(value):g}")
    if value > MAX_EPSILON:
        raise InvalidInput(
            f"epsilon must be at most {MAX_EPSILON}, got {epsilon}: beyond that there is no protection worth the name"
        )
    return value


def _fraction(epsilon: object) -> Fraction | None:
    if isinstance(epsilon, bool):
        return None
    if isinstance(epsilon, Rational):
        return Fraction(int(epsilon.numerator), int(epsilon.denominator))
    try:
        if isinstance(epsilon, str) and "/" in epsilon and len(epsilon) <= 400:
            return Fraction(epsilon)
        if isinstance(epsilon, (str, Decimal)):
            decimal = Decimal(epsilon)
            # "1e999999999" is a short text but an endless integer
            return Fraction(decimal) if decimal.is_finite() and abs(decimal.adjusted()) <= 400 else None
        if isinstance(epsilon, Real):
            return Fraction(repr(float(epsilon)))
    except (ArithmeticError, ValueError):
        return None
    return None


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
