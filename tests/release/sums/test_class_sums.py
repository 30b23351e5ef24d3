"""Sums of single classes: a replaced label changes those of two classes, and no questions about them are worth more than ε."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import Domain, InvalidInput, Ledger, PrivacyRefused, PrivateSums
from labeldp.release import grid_labels
from labeldp.release.label_range import class_looks, likely_rates
from labeldp.release.noisy_sums import total_cost
from labeldp.release.sum_queries import SumQueries

NAMES = tuple("abcd")
FOUR = Domain.of_classes(NAMES)
CODES = [[0, 1, 0, 1, 1, 0], [0, 0, 2, 1, 1, 2]]
SIGNS = np.array([[1, -1], [1, 1], [-1, -1], [-1, 1], [1, 1], [-1, -1]], np.int8)


@pytest.fixture
def noiseless(monkeypatch):
    """Noise is zero, so that answers show the exact sums."""
    monkeypatch.setattr(grid_labels, "add_laplace", lambda values, scale: values)
    monkeypatch.setattr(grid_labels, "cube_noise", lambda count, scale: np.zeros(count, np.int64))


def named(places):
    return [NAMES[place] for place in places]


def asked(places, shares, persons=None):
    """The answers about `places`: counts of the classes, then other parts of ε for each class."""
    queries = SumQueries(named(places), 1, FOUR, persons=persons)
    queries.histogram(4, "0.1")
    for place, share in enumerate(shares):
        queries.indicate(place)
        queries.over_cells(CODES, [2, 3], queries.remaining * share / 2)
        queries.against_signs(SIGNS, queries.remaining * share)
    return queries.released


def moved(one, other):
    """The logarithm of the largest ratio of the probabilities of two releases, exactly: both are of exact sums."""
    total = Fraction(0)
    for near, far in zip(one.answers, other.answers, strict=True):
        norm = max if near.kind == "signs" else sum
        total += int(norm(np.abs(near.values - far.values))) / Fraction(near.scale)
    return total


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("shares", [[Fraction(1)] * 4, [Fraction(1, 2), Fraction(1), Fraction(1, 5), Fraction(1, 3)]])
@pytest.mark.parametrize("row", range(2))
def test_all_neighbours_of_a_release_are_worth_at_most_its_cost_and_two_are_worth_all_of_it(shares, row):
    releases = [asked([*[0, 1, 2, 3, 0, 1][:row], place, *[0, 1, 2, 3, 0, 1][row + 1 :]], shares) for place in range(4)]
    worths = [moved(one, other) for one, other in combinations(releases, 2)]
    spent = releases[0].spent
    assert max(worths) == spent <= 1
    assert spent == releases[0].proof().total < sum(answer.epsilon_exact for answer in releases[0].answers)


@pytest.mark.usefixtures("noiseless")
def test_all_labels_of_a_person_are_worth_at_most_the_cost():
    persons = [0, 0, 0, 1, 2, 2]
    releases = [asked([*own, 3, 0, 1], [Fraction(1)] * 4, persons) for own in product(range(4), repeat=3)]
    worths = [moved(one, other) for one, other in combinations(releases, 2)]
    assert max(worths) <= releases[0].spent <= 1
    assert max(worths) > Fraction(9, 10)


@pytest.mark.usefixtures("noiseless")
@given(st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_answers_are_about_the_records_of_a_class(places):
    released = asked(places, [Fraction(1)] * 4)
    for answer in released.answers[1:]:
        own = np.array(places) == answer.place
        if answer.kind == "cells":
            expected = np.concatenate([np.bincount(code, own, size) for code, size in zip(CODES, (2, 3), strict=True)])
        else:
            expected = own @ SIGNS.astype(int)
        np.testing.assert_allclose(answer.sums, expected)
    assert released == PrivateSums.from_json(released.to_json())


@given(st.lists(st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.fractions(0, 2)), max_size=12))
def test_the_total_cost_is_that_of_the_worst_pair_of_classes(costs):
    worst = max(
        sum((cost for place, cost in costs if place in (None, *pair)), Fraction(0))
        for pair in combinations(range(4), 2)
    )
    assert total_cost(costs) == worst


def test_each_class_has_half_of_what_is_left_and_the_ledger_is_charged_once(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("fruit", budget=3)
    queries = SumQueries(named([0, 1, 2, 3]), 2, FOUR, ledger=ledger, dataset="fruit")
    queries.histogram(4, "0.5")
    for place in range(4):
        queries.indicate(place)
        assert queries.remaining == Fraction(3, 4)
        assert queries.domain == Domain.integers(0, 1)
        with pytest.raises(InvalidInput, match=r"0\.75 of 2 remains"):
            queries.over_cells([0, 0, 1, 1], 2, "0.76")
        queries.over_cells([0, 0, 1, 1], 2, "0.75")
        with pytest.raises(InvalidInput, match="of 2 remains"):
            queries.over_cells([0, 0, 1, 1], 2, "0.01")
    assert 2 - queries.released.spent < 1e-15
    assert ledger.remaining("fruit") == 1


def test_only_labels_of_three_classes_or_more_are_of_one_class_or_another():
    for labels, domain in (([1, 2, 3], Domain.integers(0, 9)), (["a", "b"], Domain.of_classes(["a", "b"]))):
        with pytest.raises(InvalidInput, match="three classes"):
            SumQueries(labels, 1, domain).indicate(0)
    queries = SumQueries(named([0, 1, 2, 3]), 1, FOUR)
    for place in (-1, 4, True, 1.0, "a"):
        with pytest.raises(InvalidInput, match="from 0 to 3"):
            queries.indicate(place)
    queries.indicate(1)
    with pytest.raises(InvalidInput, match="before indicate"):
        queries.histogram(2, "0.1")
    with pytest.raises(InvalidInput, match="residuals"):
        queries.subtract(np.zeros(4, np.int64), 1)
    clipped = SumQueries(named([0, 1, 2, 3]), 1, FOUR)
    clipped.clip(0, 2)
    with pytest.raises(InvalidInput, match="clipped"):
        clipped.indicate(0)


@pytest.mark.parametrize(
    ("place", "refusal"), [(0, PrivacyRefused), (None, PrivacyRefused), (4, InvalidInput), (-1, InvalidInput)]
)
def test_an_answer_is_not_believed_to_be_about_another_class(place, refusal):
    record = json.loads(asked([0, 1, 2, 3, 0, 1], [Fraction(1)] * 4).to_json())
    for answer in record["answers"][3:]:
        answer["place"] = place
    with pytest.raises(refusal):
        PrivateSums.from_json(json.dumps(record))
    record["answers"][0]["place"] = 0  # a histogram is about all classes
    with pytest.raises(InvalidInput):
        PrivateSums.from_json(json.dumps(record))


def test_the_card_and_the_proof_say_that_two_classes_count():
    released = asked([0, 1, 2, 3, 0, 1], [Fraction(1)] * 4)
    assert "those of the two most expensive classes count" in released.card()
    assert "1 if it is 'd' and 0 otherwise" in released.card()
    assert "sums against signs, class 4" in str(released.proof())


def test_counts_of_classes_become_rates():
    places = np.repeat(np.arange(4), [6000, 3000, 900, 100])
    rates = np.array([look.mean for look in class_looks(SumQueries(named(places), 40, FOUR))])
    np.testing.assert_allclose(rates, [0.6, 0.3, 0.09, 0.01], atol=0.02)
    noisy = likely_rates(np.array([0.7, 0.4, -0.1]), np.full(3, 0.1), 1e-4)
    assert noisy.min() > 0
    assert noisy.sum() == pytest.approx(1)
