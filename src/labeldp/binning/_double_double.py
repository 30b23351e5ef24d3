"""Sums and products carried as an unevaluated pair (high, low) of doubles: about 106 bits, compiled.

These are the classical error-free transformations (Knuth's sum, the product by fused multiply-add). Prefix sums need them: the
sum over a bin is a difference of two prefix sums, and at ε = 20 it is multiplied by 5·10⁸.
"""

from typing import Any

import numba as nb
from numba.extending import intrinsic

from labeldp.binning._compiled import internal

Pair = tuple[float, float]


@intrinsic  # type: ignore[untyped-decorator]
def fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001 - numba's signature
    """The product a·b plus c, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.fma(*arguments)

    return nb.float64(nb.float64, nb.float64, nb.float64), generate


@internal
def two_sum(a: float, b: float) -> Pair:
    """The rounded sum of a and b, and its rounding error, exactly."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


@internal
def two_product(a: float, b: float) -> Pair:
    """The rounded product of a and b, and its rounding error, exactly."""
    high = a * b
    return high, fused(a, b, -high)


@internal
def add(a_high: float, a_low: float, b_high: float, b_low: float) -> Pair:
    """The sum of two pairs."""
    high, low = two_sum(a_high, b_high)
    low += a_low + b_low
    total = high + low
    return total, low - (total - high)


@internal
def times(a_high: float, a_low: float, b: float) -> Pair:
    """A pair times a double."""
    high, low = two_product(a_high, b)
    low = fused(a_low, b, low)
    total = high + low
    return total, low - (total - high)


@internal
def product(a_high: float, a_low: float, b_high: float, b_low: float) -> Pair:
    """The product of two pairs."""
    high, low = two_product(a_high, b_high)
    low += a_high * b_low + a_low * b_high
    total = high + low
    return total, low - (total - high)


@internal
def quotient(a_high: float, a_low: float, b_high: float, b_low: float) -> Pair:
    """The quotient of two pairs."""
    first = a_high / b_high
    back_high, back_low = times(b_high, b_low, first)
    rest_high, rest_low = add(a_high, a_low, -back_high, -back_low)
    return two_sum(first, (rest_high + rest_low) / b_high)
