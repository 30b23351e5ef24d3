"""Labels that are held answer with exact sums plus noise, within their budget, and refuse everything else unchanged."""

from __future__ import annotations

import copy
import os
import pickle
import tracemalloc
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import Domain, InsufficientBudget, InvalidInput, LabelDPError, Ledger
from labeldp.mechanisms.bias_variance import NormalScores
from labeldp.release import grid_labels
from labeldp.release import grid_labels as held_labels
from labeldp.release.noisy_sums import SCORES
from labeldp.release.private_sums import PrivateSums
from labeldp.release.sum_queries import SumQueries

GENERATOR = np.random.default_rng(5)
TEN = Domain.integers(0, 9)
SCORED = NormalScores.of(np.arange(0, 10, 3.0), np.array([1.0, 4, 2, 1]))


@pytest.fixture
def noiseless(monkeypatch):
    """Noise is zero, so that answers show the exact sums."""
    monkeypatch.setattr(grid_labels, "add_laplace", lambda values, scale: values)
    monkeypatch.setattr(grid_labels, "cube_noise", lambda count, scale: np.zeros(count, np.int64))


@pytest.mark.usefixtures("noiseless")
@given(st.data())
def test_answers_are_sums_of_clipped_units(data):
    cells = data.draw(st.integers(2, 60))
    units = data.draw(st.lists(st.integers(0, cells - 1), min_size=2, max_size=40))
    lower = data.draw(st.integers(0, cells - 1))
    upper = data.draw(st.integers(lower, cells - 1))
    queries = SumQueries(units, 3, Domain.integers(0, cells - 1))
    parts = data.draw(st.integers(1, cells))
    counted = queries.histogram(parts, Fraction(1))
    ends = np.cumsum(counted.counts)
    assert counted.values.tolist() == [
        sum(end - size <= unit < end for unit in units) for end, size in zip(ends, counted.counts, strict=True)
    ]
    assert set(counted.counts) <= {cells // parts, cells // parts + 1}
    queries.clip(lower, upper)
    clipped = [min(max(unit, lower), upper) for unit in units]
    codes = data.draw(st.lists(st.integers(0, 4), min_size=len(units), max_size=len(units)))
    answer = queries.over_cells([codes, codes[::-1]], [5, 7], 1)
    for values, counts, code in (
        (answer.values[:5], answer.counts[:5], codes),
        (answer.values[5:], answer.counts[5:], codes[::-1]),
    ):
        for cell in range(values.size):
            inside = [unit for unit, one in zip(clipped, code, strict=True) if one == cell]
            assert (values[cell], counts[cell]) == (sum(inside) - lower * len(inside), len(inside))
            assert answer.sizes == (5, 7)
    signs = np.array([[1, -1, 1] if one % 2 else [1, 1, -1] for one in codes], np.int8)
    signed = queries.against_signs(signs, 1)
    centre = (lower + upper) // 2
    assert signed.values.tolist() == (signed.grain * (np.array(clipped) - centre) @ signs.astype(int)).tolist()
    assert signed.counts.tolist() == signs.astype(int).sum(axis=0).tolist()
    np.testing.assert_allclose(answer.sums[:5], np.bincount(codes, clipped, 5), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(signed.sums, np.array(clipped) @ signs.astype(int), rtol=1e-12, atol=1e-9)


@pytest.mark.usefixtures("noiseless")
@given(st.data())
def test_residuals_are_those_of_the_labels_however_often_numbers_are_subtracted(data):
    units = np.array(data.draw(st.lists(st.integers(0, 9), min_size=2, max_size=20)))
    queries = SumQueries(units, 3, TEN)
    reach = 4
    for _ in range(2):
        expected = np.array([data.draw(st.integers(-9, 9)) for _ in units])
        reach = data.draw(st.integers(1, reach))
        queries.subtract(expected, reach)
        residuals = np.clip(units - expected, -reach, reach)
        codes = np.arange(units.size) % 2
        answer = queries.over_cells(codes, 2, Fraction(1, 2))
        assert answer.sums.tolist() == [residuals[codes == cell].sum() for cell in (0, 1)]
        signed = queries.against_signs(np.ones((units.size, 1), np.int8), Fraction(1, 2))
        assert signed.sums.tolist() == [residuals.sum()]
        assert (answer.clip, answer.residuals, signed.residuals) == ((-reach, reach), True, True)
    assert "each label less what earlier sums predict" in queries.released.card()


@pytest.mark.usefixtures("noiseless")
@given(st.lists(st.integers(0, 9), min_size=2, max_size=20), st.integers(0, 9))
def test_scores_are_summed_in_place_of_labels(units, upper):
    """Also after a clip, and residuals are those of the scores."""
    queries = SumQueries(units, 3, TEN)
    queries.clip(0, upper)
    queries.score(SCORED)
    scores = np.interp(np.minimum(units, upper), SCORED.labels, SCORED.scores)
    codes = np.arange(len(units)) % 2
    answer = queries.over_cells(codes, 2, 1)
    assert (queries.domain, answer.domain, answer.scored, queries.released.domain) == (SCORES, SCORES, True, TEN)
    rounding = SCORES.step / 2 * len(units)
    np.testing.assert_allclose(answer.sums, np.bincount(codes, scores, 2), rtol=0, atol=rounding)
    assert PrivateSums.from_json(queries.released.to_json()) == queries.released
    expected = 128 + np.arange(len(units)) % 7  # unit 128 is a score of 0
    queries.subtract(expected, 3)
    residuals = np.clip(scores - (expected - 128) * SCORES.step, -3 * SCORES.step, 3 * SCORES.step)
    answer = queries.against_signs(np.ones((len(units), 1), np.int8), 1)
    np.testing.assert_allclose(answer.sums, residuals.sum(), rtol=0, atol=rounding)
    assert "labels' normal scores" in queries.released.card()
    assert "each score less what earlier sums predict" in queries.released.card()
    assert PrivateSums.from_json(queries.released.to_json()).answers[1].residuals


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize(
    "ask",
    [
        lambda queries: queries.histogram(5, 1),
        lambda queries: queries.subtract(np.array([4, 9, 0]), 2) or queries.over_cells([0, 1, 0], 2, 1),
        lambda queries: queries.subtract(np.array([4, 9, 0]), 2) or queries.against_signs(-np.ones((3, 2), np.int8), 1),
        lambda queries: queries.score(SCORED) or queries.over_cells([[0, 1, 0], [1, 1, 0]], [2, 2], 1),
        lambda queries: queries.score(SCORED) or queries.against_signs(-np.ones((3, 2), np.int8), 1),
        lambda queries: (
            queries.score(SCORED) or queries.subtract(np.array([90, 128, 0]), 8) or queries.over_cells([0, 1, 0], 2, 1)
        ),
        lambda queries: queries.over_cells([0, 1, 0], 2, 1),
        lambda queries: queries.over_cells([[0, 1, 0], [1, 1, 0], [0, 1, 2]], [2, 2, 3], 1),
        lambda queries: queries.against_signs(np.array([[1, -1], [1, 1], [-1, -1]]), 1),
    ],
    ids=[
        *("histogram", "residuals over cells", "residuals and signs"),
        *("scores over cells", "scores and signs", "residuals of scores"),
        *("one partition", "three partitions", "signs"),
    ],
)
def test_the_sensitivity_is_the_most_that_one_label_changes(ask):
    """By trying all labels of one record. Noise is scaled by it."""
    answers = [ask(SumQueries([label, 4, 7], 1, TEN)) for label in range(10)]
    norm = max if answers[0].kind == "signs" else sum
    changes = [norm(np.abs(one.values - other.values)) for one, other in combinations(answers, 2)]
    assert {answer.sensitivity for answer in answers} == {max(changes)}
    assert max(changes) > 0
    assert all(answer.scale >= answer.sensitivity for answer in answers)


@pytest.mark.usefixtures("noiseless")
def test_sums_are_exact_where_floats_would_not_be():
    """The sum of 300,000 labels of 2^32 − 1 has more bits than a float holds."""
    records, top = 300_000, 2**32 - 1
    units = np.full(records, top)
    units[:1000] = GENERATOR.integers(0, top, 1000)
    queries = SumQueries(units, 1, Domain.integers(0, top))
    codes = np.zeros(records, np.int8)
    exact = sum(units.tolist())
    assert exact > 2**50
    assert queries.over_cells(codes, 1, 0.5).values.tolist() == [exact]
    signs = np.where(GENERATOR.random((records, 3)) < 0.5, 1, -1).astype(np.int8)
    signs[:, 0] = 1
    answer = queries.against_signs(signs, 0.5)
    centre = top // 2
    expected = [
        sum(sign * (unit - centre) for sign, unit in zip(column.tolist(), units.tolist(), strict=True))
        for column in signs.T
    ]
    assert answer.values.tolist() == expected
    assert answer.grain == 1


def test_memory_does_not_grow_with_the_product_of_rows_and_columns():
    """A copy of the signs as floats would take 51 MB."""
    records = 100_000
    signs = np.ones((records, 64), np.int8)
    queries = SumQueries(np.zeros(records), 1, TEN)
    tracemalloc.start()
    queries.against_signs(signs, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4e6


def test_sums_that_may_leave_64_bits_are_refused(monkeypatch):
    monkeypatch.setattr(held_labels, "LARGEST_SUM", 40)
    assert SumQueries([1, 2, 3], 1, TEN).records == 3
    with pytest.raises(InvalidInput, match="may not fit into 64-bit integers: give the domain fewer cells"):
        SumQueries([1, 2, 3, 4], 1, TEN)
    with pytest.raises(InvalidInput, match="may not fit into 64-bit integers"):  # units would be divided here
        SumQueries([1, 2, 3], 1, TEN).against_signs(np.ones((3, 9), np.int8), 1)


def test_a_domain_without_a_grid_gets_a_fine_one():
    queries = SumQueries([1, 2], 1, (0, 4))
    assert queries.domain == Domain(0, 4, 2**20 + 1)
    assert queries.clipped == (0, 2**20)
    assert SumQueries([1, 2], 1, TEN).domain is TEN


QUESTIONS = st.one_of(
    st.tuples(st.just("histogram"), st.integers(1, 10)),
    st.tuples(st.just("cells"), st.integers(1, 3)),
    st.tuples(st.just("signs"), st.integers(1, 5)),
    st.tuples(st.just("clip"), st.tuples(st.integers(0, 9), st.integers(0, 9))),
)
AMOUNTS = st.one_of(
    st.fractions(Fraction(1, 1000), 2), st.floats(0.001, 2), st.sampled_from(["0.1", "1/3", 1, "all", "half"])
)


def state(queries):
    return queries.remaining, queries.clipped, len(queries.answers), queries.released.to_json()


@given(st.fractions(Fraction(1, 100), 40, max_denominator=10**6), st.lists(st.tuples(QUESTIONS, AMOUNTS), max_size=12))
def test_no_sequence_of_questions_spends_more_than_epsilon(epsilon, asked):
    queries = SumQueries([0, 3, 9, 4], epsilon, TEN)
    for (kind, what), amount in asked:
        share = {"all": queries.remaining, "half": queries.remaining / 2}.get(amount, amount)
        before = state(queries)
        spent = queries.remaining
        try:
            if kind == "histogram":
                answer = queries.histogram(what, share)
            elif kind == "cells":
                answer = queries.over_cells(np.zeros((what, 4), int), 2, share)
            elif kind == "signs":
                answer = queries.against_signs(np.ones((4, what), np.int8), share)
            else:
                queries.clip(*what)
                continue
        except InvalidInput:
            assert state(queries) == before
            continue
        spent -= queries.remaining
        assert spent == answer.epsilon_exact <= (share if isinstance(share, Fraction) else Fraction(str(share)))
        assert spent > share * Fraction(999, 1000) if isinstance(share, Fraction) and answer.scale else True
    assert queries.remaining >= 0
    assert queries.released.spent == epsilon - queries.remaining <= epsilon
    assert queries.released.proof().holds


def test_all_that_remains_can_be_asked_for_after_many_answers():
    queries = SumQueries([0, 3, 9, 4], 1, TEN)
    for _ in range(40):  # the fraction has 600 digits by then
        queries.over_cells([0, 1, 0, 1], 2, 0.017)
    queries.over_cells([0, 1, 0, 1], 2, queries.remaining)
    assert 0 <= queries.remaining < Fraction(1, 10**15)
    assert queries.released.proof().holds
    assert "rounded up" in str(queries.released.proof())
    with pytest.raises(InvalidInput, match=r"remains\. Nothing was drawn"):
        queries.histogram(2, 0.1)


def test_a_clip_to_one_point_answers_exactly_and_costs_nothing():
    queries = SumQueries([0, 3, 9, 4], 1, TEN)
    queries.clip(3, 3)
    cells = queries.over_cells([0, 0, 1, 1], 3, 1)
    signs = queries.against_signs(np.ones((4, 2), np.int8), 1)
    parts = queries.histogram(2, 1)
    assert cells.values.tolist() == [0, 0, 0]
    assert cells.sums.tolist() == [6, 6, 0]
    assert signs.values.tolist() == [0, 0]
    assert parts.values.tolist() == [4, 0]
    assert {answer.epsilon_exact for answer in queries.answers} == {0}
    assert {answer.variance for answer in queries.answers} == {0.0}
    assert queries.remaining == 1


def test_coarse_units_are_divided_so_that_cube_noise_is_drawn_fast():
    queries = SumQueries([0, 1] * 50, 8, Domain.integers(0, 1))
    answer = queries.against_signs(np.ones((100, 40), np.int8), 8)
    assert answer.grain >= 4 * 40 * 8
    assert answer.sensitivity == answer.grain
    assert abs(answer.sums[0] - 50) < 40 * 41 * 20  # far beyond any noise


LABELS = [0, 3, 9, 4]
SIGNS = np.ones((4, 2), np.int8)
REFUSED = {
    "no labels": (lambda ledger: make([], ledger), "no labels to sum"),
    "one label": (lambda ledger: make([3], ledger), "one label only"),
    "a missing label": (lambda ledger: make([1, None], ledger), "index 1 is missing"),
    "NaN": (lambda ledger: make([float("nan"), 1], ledger), "index 0 is missing or NaN"),
    "text": (lambda ledger: make(["secret", "2"], ledger), "text"),
    "two columns": (lambda ledger: make(np.ones((2, 2)), ledger), "one-dimensional"),
    "epsilon of zero": (lambda ledger: make(LABELS, ledger, 0), "greater than 0"),
    "epsilon below zero": (lambda ledger: make(LABELS, ledger, -1), "greater than 0"),
    "epsilon above 40": (lambda ledger: make(LABELS, ledger, 41), "at most 40"),
    "no domain": (lambda ledger: SumQueries(LABELS, 1, None, ledger=ledger, dataset="sales"), "domain must be given"),
    "labels outside": (
        lambda ledger: SumQueries([3, 99], 1, TEN, out_of_range="error", ledger=ledger, dataset="sales"),
        "index 1 is outside",
    ),
    "an unknown dataset": (
        lambda ledger: SumQueries(LABELS, 1, TEN, ledger=ledger, dataset="x"),
        "does not contain the dataset",
    ),
    "no dataset": (lambda ledger: SumQueries(LABELS, 1, TEN, ledger=ledger), "name of the dataset"),
    "no ledger": (lambda ledger: SumQueries(LABELS, 1, TEN, dataset="sales"), "give ledger=Ledger"),
    "a path as ledger": (lambda ledger: SumQueries(LABELS, 1, TEN, ledger="a.db", dataset="sales"), "must be a Ledger"),
    "a number for another label": (
        lambda ledger: make(LABELS, ledger).subtract(np.zeros(3, np.int64), 1),
        "for each of the 4 labels",
    ),
    "numbers that are floats": (
        lambda ledger: make(LABELS, ledger).subtract(np.zeros(4), 1),
        "a whole number of units within the grid",
    ),
    "residuals wider than labels": (
        lambda ledger: make(LABELS, ledger).subtract(np.zeros(4, np.int64), 5),
        "narrower range than the labels",
    ),
    "a histogram of residuals": (
        lambda ledger: (one := make(LABELS, ledger)).subtract(np.zeros(4, np.int64), 2) or one.histogram(2, 1),
        "a histogram counts labels",
    ),
    "a histogram of scores": (
        lambda ledger: (one := make(LABELS, ledger)).score(SCORED) or one.histogram(2, 1),
        "scores are summed now",
    ),
    "scores of scores": (
        lambda ledger: (one := make(LABELS, ledger)).score(SCORED) or one.score(SCORED),
        "labels become scores once",
    ),
    "scores of residuals": (
        lambda ledger: (one := make(LABELS, ledger)).subtract(np.zeros(4, np.int64), 2) or one.score(SCORED),
        "labels become scores once",
    ),
    "scores of an unordered list, which could depend on other labels": (
        lambda ledger: make(LABELS, ledger).score(NormalScores(np.array([0.0, 9, 3]), np.array([0.0, 1]))),
        "in increasing order",
    ),
    "scores that are not finite": (
        lambda ledger: make(LABELS, ledger).score(NormalScores(np.array([0.0, np.nan]), np.array([0.0]))),
        "that are finite",
    ),
    "too few codes": (lambda ledger: make(LABELS, ledger).over_cells([0, 1], 2, 1), "each of the 4 labels, got 2"),
    "codes as columns": (
        lambda ledger: make(LABELS, ledger).over_cells(np.zeros((4, 2), int), 2, 1),
        "one row for each",
    ),
    "codes of three dimensions": (
        lambda ledger: make(LABELS, ledger).over_cells(np.zeros((1, 4, 1), int), 2, 1),
        "got an array of shape",
    ),
    "a negative code": (lambda ledger: make(LABELS, ledger).over_cells([0, 1, -1, 0], 2, 1), "index 2 is outside"),
    "a code too large": (
        lambda ledger: make(LABELS, ledger).over_cells([0, 1, 2, 5], 2, 1),
        "index 2, index 3 are outside",
    ),
    "codes that are floats": (lambda ledger: make(LABELS, ledger).over_cells([0.0, 1, 1, 0], 2, 1), "integer type"),
    "codes that are booleans": (lambda ledger: make(LABELS, ledger).over_cells([True] * 4, 2, 1), "integer type"),
    "codes that are text": (lambda ledger: make(LABELS, ledger).over_cells(list("abcd"), 2, 1), "integer type"),
    "a missing code": (lambda ledger: make(LABELS, ledger).over_cells([0, 1, None, 0], 2, 1), "integer type"),
    "no cells": (lambda ledger: make(LABELS, ledger).over_cells([0] * 4, 0, 1), "at least 1"),
    "cells that are a float": (lambda ledger: make(LABELS, ledger).over_cells([0] * 4, 2.0, 1), "at least 1, got 2.0"),
    "cells for another number of partitions": (
        lambda ledger: make(LABELS, ledger).over_cells([[0] * 4, [0] * 4], [1], 1),
        "each of the 2 partitions",
    ),
    "no partitions": (lambda ledger: make(LABELS, ledger).over_cells(np.zeros((0, 4), int), 2, 1), "no partition"),
    "too many cells": (lambda ledger: make(LABELS, ledger).over_cells([0] * 4, 10**9, 1), "at most 10,000,000 sums"),
    "a sign of zero": (lambda ledger: make(LABELS, ledger).against_signs(SIGNS * 0, 1), r"\+1 or −1: index 0, index 1"),
    "a sign of -128": (lambda ledger: make(LABELS, ledger).against_signs(SIGNS * np.int8(-128), 1), r"\+1 or −1"),
    "signs that are floats": (lambda ledger: make(LABELS, ledger).against_signs(SIGNS * 1.0, 1), "use np.int8"),
    "signs that are booleans": (lambda ledger: make(LABELS, ledger).against_signs(SIGNS > 0, 1), "use np.int8"),
    "signs of one dimension": (lambda ledger: make(LABELS, ledger).against_signs(SIGNS[:, 0], 1), "with 4 rows"),
    "too few signs": (lambda ledger: make(LABELS, ledger).against_signs(SIGNS[:3], 1), "with 4 rows"),
    "signs without columns": (
        lambda ledger: make(LABELS, ledger).against_signs(SIGNS[:, :0], 1),
        "1 to 65,536 columns",
    ),
    "ragged signs": (lambda ledger: make(LABELS, ledger).against_signs([[1], [1, 1]], 1), "a row for each record"),
    "no parts": (lambda ledger: make(LABELS, ledger).histogram(0, 1), "from 1 to 10"),
    "more parts than points": (lambda ledger: make(LABELS, ledger).histogram(11, 1), "from 1 to 10"),
    "parts that are a float": (lambda ledger: make(LABELS, ledger).histogram(2.0, 1), "from 1 to 10"),
    "a question beyond the budget": (lambda ledger: make(LABELS, ledger).histogram(2, 1.5), "1 of 1 remains"),
    "a question of no cost": (lambda ledger: make(LABELS, ledger).histogram(2, 0), "greater than 0"),
    "a fraction below zero": (lambda ledger: make(LABELS, ledger).histogram(2, Fraction(-1)), "greater than 0"),
    "noise of too many bits": (
        lambda ledger: SumQueries(LABELS, 1, Domain(0, 9, 2**32), ledger=ledger, dataset="sales").over_cells(
            [0] * 4, 1, 1e-9
        ),
        "may not fit into 64-bit",
    ),
    "a clip that widens": (lambda ledger: clipped_twice(make(LABELS, ledger)), "can only narrow"),
    "a clip out of order": (lambda ledger: make(LABELS, ledger).clip(5, 4), "in order"),
    "a clip between units": (lambda ledger: make(LABELS, ledger).clip(0.5, 4), "whole number of grid units"),
}


def make(labels, ledger, epsilon=1):
    return SumQueries(labels, epsilon, TEN, ledger=ledger, dataset="sales")


def clipped_twice(queries):
    queries.clip(2, 7)
    queries.clip(1, 7)


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "ledger.db")
    made.add_dataset("sales", 3)
    return made


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_before_anything_is_charged(case, ledger):
    ask, words = REFUSED[case]
    with pytest.raises(InvalidInput, match=words) as caught:
        ask(ledger)
    assert "secret" not in str(caught.value)
    assert ledger.remaining("sales") == 3


def test_the_ledger_is_charged_once_and_before_the_first_draw(ledger, monkeypatch):
    left = []

    def watched(values, scale):
        left.append(ledger.remaining("sales"))
        return values

    monkeypatch.setattr(grid_labels, "add_laplace", watched)
    queries = make(LABELS, ledger)
    assert ledger.remaining("sales") == 3
    queries.over_cells([0, 0, 1, 1], 2, 0.25)
    queries.histogram(2, 0.25)
    queries.charge()
    assert left == [2, 2]
    assert ledger.remaining("sales") == 2
    assert ledger.history("sales")[0].kind == "sums"
    ledger.verify()


def test_a_failed_draw_stays_charged_and_spent(ledger, monkeypatch):
    def broken(values, scale):
        raise LabelDPError("no noise")

    monkeypatch.setattr(grid_labels, "add_laplace", broken)
    queries = make(LABELS, ledger)
    with pytest.raises(LabelDPError, match="no noise"):
        queries.over_cells([0] * 4, 1, 0.5)
    assert (queries.remaining, queries.answers) == (Fraction(1, 2), ())
    assert ledger.remaining("sales") == 2


def test_a_ledger_with_too_little_refuses_before_anything_is_drawn(ledger, monkeypatch):
    with pytest.raises(InsufficientBudget):
        make(LABELS, ledger, 4)
    queries = [make(LABELS, ledger, 2), make(LABELS, ledger, 2)]  # each alone would fit
    queries[0].charge()
    monkeypatch.setattr(grid_labels, "add_laplace", lambda values, scale: pytest.fail("drawn"))
    with pytest.raises(InsufficientBudget):
        queries[1].histogram(2, 1)
    assert (queries[1].remaining, queries[1].answers) == (2, ())
    assert ledger.remaining("sales") == 1


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_holds_labels_and_budget_cannot_be_duplicated(duplicate):
    with pytest.raises(LabelDPError, match="spend the same budget again"):
        duplicate(SumQueries(LABELS, 1, TEN))


def test_a_forked_copy_answers_nothing(monkeypatch):
    queries = SumQueries(LABELS, 1, TEN)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(LabelDPError, match="another process"):
        queries.histogram(2, 0.5)


def test_it_shows_what_is_public_only():
    queries = SumQueries(LABELS, 1, TEN)
    queries.histogram(2, 0.25)
    assert repr(queries) == "SumQueries(records=4, domain=Domain(0, 9, cells=10), answers=1, remaining=0.75 of 1)"


def test_an_interrupted_clip_never_leaves_noise_too_narrow(monkeypatch):
    queries = SumQueries([0.0] * 9 + [100.0], 1, (0, 100))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("labeldp.release.grid_labels.np.clip", interrupt)
        with pytest.raises(KeyboardInterrupt):
            queries.clip(0, 0)
    assert queries.clipped == (0, 2**20)
    answer = queries.over_cells(np.zeros(10, np.int64), 1, queries.remaining)
    assert answer.scale > 0


def test_an_interrupted_subtraction_leaves_labels_and_their_range_as_they_were(monkeypatch):
    """The new range is taken together with the new labels: noise for a range narrower than that of the labels would be too small."""
    queries = SumQueries(LABELS, 1, TEN)
    held = queries._held
    clip = np.clip

    def interrupted(*arguments, **options):
        clip(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "clip", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queries.subtract(np.zeros(4, np.int64), 2)
    monkeypatch.undo()
    assert queries._held is held
    assert not held.residuals
    assert held.lower <= held.units.min() <= held.units.max() <= held.upper
