"""The linear program on cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from labeldp.evaluate.intervals import DistributionProgram

VALUES = np.array([0.0, 1.0, 4.0])


def program(low, high, offset_error=(0.0, 0.0), rows=(VALUES,)):
    moved = np.r_[np.zeros(len(rows) - 1), 1.0]
    return DistributionProgram(np.array(rows), np.atleast_1d(low), np.atleast_1d(high), np.array(offset_error), moved)


def test_a_statistic_bounds_what_depends_on_it():
    """With a mean from 1 to 2 the square is least on {1} and greatest on {0, 4}."""
    bounded = program(1.0, 2.0)
    assert bounded.minimum(VALUES**2, 1.0) == pytest.approx(1, abs=1e-6)
    assert -bounded.minimum(-(VALUES**2), -1.0) == pytest.approx(8, abs=1e-6)


def test_the_offsets_error_moves_the_target_and_the_last_statistic_together():
    """q·values + g is exactly 2 with g from −0.5 to 1: values may lie from 1 to 2.5, their sum with g is always 2."""
    bounded = program(2.0, 2.0, offset_error=(0.5, 1.0))
    assert bounded.minimum(VALUES, 0.0) == pytest.approx(1, abs=1e-6)
    assert -bounded.minimum(-VALUES, 0.0) == pytest.approx(2.5, abs=1e-6)
    assert bounded.minimum(VALUES, 1.0) == pytest.approx(2, abs=1e-6)


def test_contradictory_statistics_are_widened_until_something_meets_them():
    """Means of 1 ± 0.1 and 3 ± 0.1 cannot both be; they can once each is given about 1."""
    contradiction = program([0.9, 2.9], [1.1, 3.1], rows=(VALUES, VALUES))
    least, most = contradiction.minimum(VALUES, 1.0), -contradiction.minimum(-VALUES, -1.0)
    assert 1.4 < least <= 2 <= most < 2.6


def test_without_any_answer_the_range_of_all_distributions_is_given():
    """A mean of exactly 9 is out of reach, and there is nothing to widen."""
    assert program(9.0, 9.0, offset_error=(0.5, 0.25)).minimum(VALUES + 3, 1.0) == 3 - 0.5


def test_the_least_ratio_is_the_least_of_all_distributions_that_the_statistics_allow():
    """Masses 1 − m and m on 0 and 4, or others with a mean from 1 to 2: E[y²]/E[y + 1] against a fine grid of them."""
    bounded = program(1.0, 2.0)
    grid = np.linspace(0, 1, 201)
    first, second = (each.ravel() for each in np.meshgrid(grid, grid))
    masses = np.column_stack([1 - first - second, first, second])[first + second <= 1]
    mean = masses @ VALUES
    masses = masses[(mean >= 1 - 1e-12) & (mean <= 2 + 1e-12)]
    ratio = (masses @ VALUES**2) / (masses @ (VALUES + 1))
    assert bounded.least_ratio(VALUES**2, 0.0, VALUES + 1, VALUES + 1) == pytest.approx(ratio.min(), abs=1e-6)
    assert -bounded.least_ratio(-(VALUES**2), 0.0, VALUES + 1, VALUES + 1) == pytest.approx(ratio.max(), abs=1e-6)


def test_the_least_ratio_takes_the_denominator_that_makes_it_least():
    bounded = program(1.0, 1.0)
    assert bounded.least_ratio(VALUES, 0.0, VALUES + 1, VALUES + 3) == pytest.approx(1 / 4, abs=1e-6)
    assert bounded.least_ratio(-VALUES, 0.0, VALUES + 1, VALUES + 3) == pytest.approx(-1 / 2, abs=1e-6)


def test_the_offsets_error_moves_the_numerator_of_a_ratio():
    """With g from −0.5 to 1 and q·values + g = 2, the numerator is 2 and the denominator at most 1 + 2.5."""
    assert program(2.0, 2.0, (0.5, 1.0)).least_ratio(VALUES, 1.0, VALUES + 1, VALUES + 1) == pytest.approx(2 / 3.5)


def test_a_denominator_that_may_be_zero_gives_no_bound():
    assert program(0.0, 2.0).least_ratio(VALUES - 3, 0.0, VALUES, VALUES) == -np.inf
