"""ε in words is exact: odds change by e^ε, and the rows of one person add up."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from labeldp import Domain, InvalidInput
from labeldp.evaluate import Risk
from labeldp.evaluate.risk import ANY_READER, meaning, odds
from labeldp.formatting import percent
from labeldp.mechanisms import RandomizedResponse

DOCS = Path(__file__).parents[2] / "docs"
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
        .startswith(
            'Someone who knows all other records and considers "more than 200" 50 % likely will consider it at most 73 % likely after'
        )
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


MESSAGES = list(itertools.product(range(-1, 4), repeat=3))
"""Noisy counts of three cells. Every ratio of likelihoods of two records occurs among these."""
WORLDS = list(itertools.product(range(3), repeat=2))  # the label of the victim and of one other record


def histogram_law(message, labels, epsilon):
    """The likelihood of noisy counts up to a constant: integer Laplace noise of scale 2/ε on every count."""
    counts = np.bincount(labels, minlength=3)
    return math.exp(-epsilon / 2 * float(np.abs(np.subtract(message, counts)).sum()))


def response_law(message, labels, epsilon):
    """The likelihood of the codes of randomized response on three values, of which a message has two here."""
    return math.prod(math.exp(epsilon * (code == label)) for code, label in zip(message, labels, strict=False))


def most_moved(law, prior, epsilon):
    """The most by which the odds of a claim about the victim differ if the victim's label was replaced, over all messages."""
    most = 0.0
    for message in MESSAGES:
        seen = {world: prior[world] * law(message, world, epsilon) for world in prior}
        for fixed in range(3):
            replaced = {world: prior[world] * law(message, (fixed, world[1]), epsilon) for world in prior}
            for claim in ({0}, {1}, {2}):  # the other claims are their opposites
                most = max(most, abs(math.log(_odds(seen, claim) / _odds(replaced, claim))))
    return math.exp(most)


def _odds(weights, claim):
    true = sum(weight for world, weight in weights.items() if world[0] in claim)
    return true / (sum(weights.values()) - true)


def uniform(*worlds):
    return dict.fromkeys(worlds, 1 / len(worlds))


@pytest.mark.parametrize("epsilon", [0.5, 1])
def test_odds_differ_by_e_to_twice_epsilon_where_another_record_follows_the_victim(epsilon):
    follows = dict.fromkeys(WORLDS, 1e-12) | uniform((0, 0), (1, 2))
    assert most_moved(histogram_law, follows, epsilon) == pytest.approx(math.exp(ANY_READER * epsilon), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 1])
@pytest.mark.parametrize("law", [histogram_law, response_law])
def test_odds_differ_by_e_to_epsilon_at_most_for_a_reader_who_knows_the_other_record(law, epsilon):
    moved = [most_moved(law, uniform((0, known), (1, known), (2, known)), epsilon) for known in range(3)]
    assert max(moved) <= Risk(epsilon).odds_factor * (1 + 1e-9)
    two = [most_moved(law, uniform((0, known), (1, known)) | {(2, known): 1e-12}, epsilon) for known in range(3)]
    assert max(two) == pytest.approx(Risk(epsilon).odds_factor, rel=1e-6)  # so the bound is not too large either


@pytest.mark.parametrize("law", [histogram_law, response_law])
def test_no_reader_sees_odds_differ_by_more(law):
    generator = np.random.default_rng(0)
    for _ in range(10):
        prior = dict(zip(WORLDS, generator.dirichlet(np.full(len(WORLDS), 0.2)) + 1e-12, strict=True))
        assert most_moved(law, prior, 1) <= math.exp(ANY_READER) * (1 + 1e-9)


def test_a_group_with_one_label_reveals_it_whatever_each_code_hides():
    """The figure of docs/concepts/label-dp.md: log-odds add up over 20,000 records that share one of two labels."""
    truth, lie = RandomizedResponse(Domain.integers(0, 1), 0.5).matrix(np.array([0.0, 1.0]))[0]
    assert 20_000 * (truth - lie) * math.log(truth / lie) == pytest.approx(2449, abs=1)
    assert "e²⁴⁴⁹" in words_of("concepts/label-dp.md")


def words_of(page):
    """The page in one line, with powers as the library writes them."""
    text = (DOCS / page).read_text().replace("e<sup>ε</sup>", "e^ε").replace("e<sup>2ε</sup>", "e^(2ε)")
    return " ".join(text.split())


@pytest.mark.parametrize("page", ["concepts/label-dp.md", "guides/for-legal.md"])
def test_pages_state_the_meaning_of_epsilon_in_the_tested_words(page):
    assert meaning() in words_of(page)
