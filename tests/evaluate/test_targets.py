"""The inverse agrees with the forward predictions: the least number of two digits that is enough."""

from __future__ import annotations

import math

import pytest

from labeldp import InvalidInput, advise
from labeldp.domain import Domain
from labeldp.evaluate.advice import EPSILONS
from labeldp.evaluate.foreseen import least_epsilon, least_records
from labeldp.evaluate.shapes import shaped_prior
from labeldp.mechanisms.prediction import ModelErrors

SHAPE, BOUNDS = "exponential:mean=90", Domain(0, 400)


@pytest.fixture(scope="module")
def predictor():
    return ModelErrors(shaped_prior(SHAPE, BOUNDS), 0.5, domain=BOUNDS)


def below(number):
    """The next smaller number of two digits."""
    power = math.floor(math.log10(number) + 1e-9)
    digits = round(number / 10 ** (power - 1))
    return (digits - 1) * 10.0 ** (power - 1) if digits > 10 else 99 * 10.0 ** (power - 2)


@pytest.mark.parametrize("r2", [0.1, 0.45])
def test_the_least_epsilon_is_enough_and_the_next_smaller_one_is_not(predictor, r2):
    target = advise(BOUNDS, 20_000, shape=SHAPE, target_r2=r2).target
    for name in ("labels", "sums"):
        least = getattr(target, f"epsilon_{name}")
        predict = getattr(predictor, name)
        assert predict(least, 20_000).r2 >= r2
        assert predict(round(below(least), 6), 20_000).r2 < r2


@pytest.mark.parametrize("r2", [0.2, 0.4])
def test_the_least_records_are_enough_and_the_next_smaller_number_is_not(predictor, r2):
    target = advise(BOUNDS, 20_000, shape=SHAPE, target_r2=r2).target
    for name in ("labels", "sums"):
        for epsilon, least in zip(EPSILONS, getattr(target, f"records_{name}"), strict=True):
            predict = getattr(predictor, name)
            assert predict(epsilon, least).r2 >= r2
            assert least == 100 or predict(epsilon, round(below(least))).r2 < r2
    assert predictor.not_private(target.records_not_private).r2 >= r2


def test_an_error_and_an_r2_are_the_same_target():
    error = advise(BOUNDS, 20_000, shape=SHAPE, target_r2=0.4).target.rmse
    again = advise(BOUNDS, 20_000, shape=SHAPE, target_error=error).target
    assert again.r2 == pytest.approx(0.4)


def test_more_records_need_less_epsilon_and_more_epsilon_fewer_records():
    few, many = (advise(BOUNDS, records, shape=SHAPE, target_r2=0.4).target for records in (5_000, 500_000))
    assert many.epsilon_labels < few.epsilon_labels
    assert many.epsilon_sums < few.epsilon_sums
    assert sorted(few.records_labels, reverse=True) == list(few.records_labels)
    assert few.records_labels == many.records_labels  # whatever the search starts from


def test_a_target_beyond_the_features_is_impossible_and_says_so():
    target = advise(BOUNDS, 20_000, shape=SHAPE, explained=0.5, target_r2=0.6).target
    assert (target.epsilon_labels, target.epsilon_sums, target.records_not_private) == (None, None, None)
    assert set(target.records_labels) == {None}
    assert "features are taken to explain 0.5" in target.why_not


def test_a_target_beyond_the_records_says_how_many_it_takes():
    target = advise(BOUNDS, 150, shape=SHAPE, explained=0.5, target_r2=0.46).target
    assert target.epsilon_labels is None
    assert f"it takes {target.records_not_private:,}." in target.why_not
    assert all(least > target.records_not_private for least in target.records_labels)


def test_searches_end_where_nothing_or_everything_is_enough():
    assert least_epsilon(lambda epsilon: False) is None
    assert least_epsilon(lambda epsilon: True) == 0.001
    assert least_epsilon(lambda epsilon: epsilon >= 40) == 40
    assert least_records(lambda records: False) is None
    assert least_records(lambda records: True) == 100
    for goal in (100, 110, 990, 1_000, 12_000, 990_000, 10**9):
        assert least_records(lambda records, goal=goal: records >= goal) == goal


def test_numbers_between_two_digits_are_rounded_up():
    assert least_epsilon(lambda epsilon: epsilon >= 0.123) == 0.13
    assert least_records(lambda records: records >= 12_345) == 13_000


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"target_r2": 0}, "target R² must be greater than 0"),
        ({"target_r2": 1.1}, "at most 1"),
        ({"target_r2": math.nan}, "target R²"),
        ({"target_r2": "0.4"}, "a target must be a number"),
        ({"target_r2": True}, "a target must be a number"),
        ({"target_error": -1}, "target error must be at least 0"),
        ({"target_error": 1e9}, "answering the mean of the labels reaches"),
        ({"target_error": math.inf}, "target error"),
        ({"target_r2": 0.3, "target_error": 60}, "one target"),
    ],
)
def test_what_is_no_target_is_refused(given, part):
    with pytest.raises(InvalidInput, match=part):
        advise(BOUNDS, 20_000, shape=SHAPE, **given)
