from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labeldp.budget import (
    MAX_EPSILON,
    decimal_text,
    exact_epsilon,
    exp_lower,
    exp_upper,
    float_up,
    format_amount,
    parse_amount,
    shown_amount,
)
from labeldp.errors import InvalidInput

exponents = st.one_of(
    st.fractions(0, MAX_EPSILON, max_denominator=10**9),
    st.floats(1e-300, MAX_EPSILON).map(Fraction),
    st.integers(0, MAX_EPSILON).map(Fraction),
)


def true_exponential(exponent: Fraction) -> Fraction:
    """e^x with an error far below what is tested."""
    with mpmath.workprec(1200):
        value = mpmath.exp(mpmath.mpf(exponent.numerator) / exponent.denominator)
        mantissa, power = int(value.man), int(value.exp)
    return Fraction(mantissa) * Fraction(2) ** power


@given(exponents, st.sampled_from([1, 8, 64, 96, 128, 256, 512]))
@example(Fraction(0), 128)
@example(Fraction(1), 128)
@example(Fraction(40), 512)
@example(Fraction(1, 10**30), 64)
def test_the_bounds_enclose_the_exponential_and_are_as_tight_as_promised(exponent, bits):
    low, high, truth = exp_lower(exponent, bits), exp_upper(exponent, bits), true_exponential(exponent)
    margin = truth / 2**1100  # the oracle's own error
    assert low <= truth + margin
    assert high >= truth - margin
    assert (truth - low) * 2**bits <= truth
    assert (high - truth) * 2**bits <= truth


@given(st.fractions(0, MAX_EPSILON))
def test_the_bounds_are_strict_except_at_zero(exponent):
    # e^x is irrational for rational x > 0, so a bound that is equal to the other is wrong
    assert (exp_lower(exponent) < exp_upper(exponent)) or exponent == 0


def test_negative_exponents_are_refused():
    with pytest.raises(InvalidInput):
        exp_lower(Fraction(-1))


@pytest.mark.parametrize(
    ("given_as", "fraction"),
    [
        (0.1, Fraction(1, 10)),
        ("0.3", Fraction(3, 10)),
        ("1/3", Fraction(1, 3)),
        (Decimal("2.50"), Fraction(5, 2)),
        (Fraction(7, 3), Fraction(7, 3)),
        (np.float64(0.7), Fraction(7, 10)),
        (1e-9, Fraction(1, 10**9)),
        (40, Fraction(40)),
    ],
)
def test_a_budget_is_the_decimal_that_a_person_sees(given_as, fraction):
    assert exact_epsilon(given_as) == fraction


@pytest.mark.parametrize(
    "wrong",
    [0, -1, 40.0000001, math.nan, math.inf, "one", "1/0", None, True, [1], Decimal("NaN"), 1j],
)
def test_what_is_no_budget_is_refused(wrong):
    with pytest.raises(InvalidInput, match="epsilon"):
        exact_epsilon(wrong)


def kind_of(value: object) -> str:
    """A name for a case: pytest cannot print an integer of thousands of digits."""
    return type(value).__name__


@pytest.mark.parametrize(
    "long",
    [
        "0.1" + "1" * 1200,
        Decimal("0.1" + "1" * 1200),
        Fraction(1, 3) + Fraction(1, 10**1200),
        Fraction(10**6000 + 1, 10**6000),
        f"{10**300}/{10**301 - 1}",
        "1." + "0" * 100_000,
    ],
    ids=kind_of,
)
def test_a_budget_of_endless_digits_is_refused_at_once(long):
    with pytest.raises(InvalidInput, match="digits") as error:
        exact_epsilon(long)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    "huge", [10**6000, Fraction(10**6000, 7), -(10**6000), Fraction(1, 10**6000), "9" * 900], ids=kind_of
)
def test_a_budget_beyond_all_bounds_is_refused_in_few_words(huge):
    with pytest.raises(InvalidInput, match="epsilon must be") as error:
        exact_epsilon(huge)
    assert len(str(error.value)) < 200


def test_an_amount_is_shown_as_a_decimal_first_and_the_exact_fraction_after_it():
    assert shown_amount(Fraction("0.96")) == "0.96"
    assert shown_amount(Fraction(281474976710656, 4691249611844267)) == (
        "0.06 (rounded up; exactly 281474976710656/4691249611844267)"
    )
    assert shown_amount(1 + Fraction(1, 3**9000)) == "1.00000000001 (rounded up)"


@given(
    st.one_of(
        st.fractions(Fraction(1, 100), 39, max_denominator=1000).map(lambda value: value + Fraction(1, 3**600)),
        st.decimals(Decimal("0.01"), 39, places=299),
    ),
    st.floats(0.5, 2e50),
)
def test_what_is_accepted_reads_back_and_so_does_what_a_private_prior_leaves_of_it(given_as, scale):
    total = exact_epsilon(given_as)
    assert parse_amount(decimal_text(total, places=400)) == total == parse_amount(format_amount(total))
    labels = total - min(2 / Fraction(scale), total / 2)
    assert parse_amount(decimal_text(exact_epsilon(labels), places=400)) == labels


@pytest.mark.parametrize("text", ["", "-1", "1/00", "1/-2", "1e1000", "nan", "1_0", "1/2/3", ".", 1])
def test_what_is_no_plain_number_is_not_read(text):
    with pytest.raises(InvalidInput, match="epsilon"):
        parse_amount(text)


@given(st.fractions())
def test_float_up_is_the_smallest_float_that_is_not_below(value):
    rounded = float_up(value)
    assert Fraction(rounded) >= value
    assert Fraction(math.nextafter(rounded, -math.inf)) < value


@given(st.one_of(st.fractions(), st.decimals(allow_nan=False, allow_infinity=False, places=30).map(Fraction)))
def test_decimal_text_says_exactly_the_fraction(value):
    assert Fraction(decimal_text(value)) == value


def test_long_decimals_fall_back_to_fractions():
    assert decimal_text(Fraction(1, 2**50), places=40) == f"1/{2**50}"
    assert decimal_text(Fraction(1, 2**50), places=50) == "0." + str(5**50).zfill(50)
