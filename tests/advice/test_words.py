"""ε in words is exact: odds change by e^ε, and the rows of one person add up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labeldp import Domain, InvalidInput, RandomizedResponse, Risk
from labeldp.advice.words import odds, percent

BELIEFS = [1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6]


@pytest.mark.parametrize("epsilon", [0.001, 0.25, 1, 8, 30])
@pytest.mark.parametrize("belief", BELIEFS)
def test_the_odds_of_a_belief_change_by_e_to_the_epsilon(epsilon, belief):
    risk = Risk(epsilon)
    before = belief / (1 - belief)
    most = before * math.exp(epsilon)
    assert risk.most(belief) == pytest.approx(most / (1 + most), rel=1e-9)
    least = before / math.exp(epsilon)
    assert risk.least(belief) == pytest.approx(least / (1 + least), rel=1e-9)
    assert risk.least(belief) < belief < risk.most(belief)


def test_what_is_certain_stays_certain():
    for risk in (Risk(1), Risk(40, rows=1000)):
        assert (risk.most(0), risk.least(0), risk.most(1), risk.least(1)) == (0, 0, 1, 1)


@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_randomized_response_between_two_values_reaches_the_bounds(epsilon):
    """It is the mechanism that tells most, so the bounds are not too pessimistic either."""
    truth, lie = RandomizedResponse(Domain.integers(0, 1), epsilon).matrix(np.array([0.0, 1.0]))[0]
    assert Risk(epsilon).most(0.5) == pytest.approx(truth)
    assert Risk(epsilon).advantage == pytest.approx(truth - lie)
    assert Risk(epsilon).advantage == pytest.approx((math.exp(epsilon) - 1) / (math.exp(epsilon) + 1))


def test_rows_of_one_person_add_up():
    together = Risk(0.5, rows=4)
    assert together.total == 2
    assert together.most(0.2) == pytest.approx(Risk(2).most(0.2))
    assert together.odds_factor == pytest.approx(math.exp(2))


def test_very_many_rows_are_no_overflow():
    risk = Risk(40, rows=10**6)
    assert risk.odds_factor == math.inf
    assert risk.advantage == 1
    assert "endlessly many times" in " ".join(risk.words("more than 3"))


def test_the_sentence_of_the_issue():
    assert (
        Risk(1)
        .sentence("more than 200")
        .startswith('Someone who gives 50 % to "more than 200" before will give at most 73 % after')
    )


def test_a_large_epsilon_is_called_what_it_is():
    assert [Risk(1).protects, Risk(8).protects, Risk(1, rows=8).protects] == [True, False, False]
    assert "hardly any protection" in Risk(8).words("more than 3")[-1]
    assert "hardly any protection" not in Risk(1).words("more than 3")[-1]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.5, "50 %"), (0.7311, "73 %"), (0.9997, "99.97 %"), (0.0004, "0.04 %"), (0, "0 %"), (1, "100 %")],
)
def test_percent_never_rounds_to_certainty(share, text):
    assert percent(share) == text


def test_percent_and_odds_at_the_end_of_floats():
    assert percent(1 - 1e-15) == "nearly 100 %"
    assert percent(1e-15) == "nearly 0 %"
    assert [odds(2.718), odds(math.exp(40)), odds(math.inf)] == ["2.72", "10^17", "endlessly many"]


@pytest.mark.parametrize("epsilon", [0, -1, 41, "x", None, math.nan, True])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(InvalidInput, match="epsilon"):
        Risk(epsilon)


@pytest.mark.parametrize("rows", [0, -1, 1.5, "2", True])
def test_rows_are_counted_from_one(rows):
    with pytest.raises(InvalidInput, match="rows per person"):
        Risk(1, rows=rows)


@pytest.mark.parametrize("belief", [-0.1, 1.1, math.nan, "0.5", True])
def test_a_belief_is_a_probability(belief):
    with pytest.raises(InvalidInput, match="probability"):
        Risk(1).most(belief)
    with pytest.raises(InvalidInput, match="probability"):
        Risk(1).least(belief)
