"""What the page shows, before it is on a page: laws of its figures, and sentences whose numbers are those of the library."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from labeldp import InvalidInput, Prior, advise, compare
from labeldp.explore.answers import (
    Question,
    apart,
    caveats,
    channel,
    compared,
    curve,
    designed,
    grouped,
    headline,
    offered,
    reported,
    simulated_prior,
    why_none,
)
from labeldp.formatting import plain
from labeldp.mechanisms.prediction import PREDICTION_LABELS, ModelErrors

FIRST = Question()
WEEKS = Question(lower=0, upper=52, whole=True, distribution="poisson:mean=6", records=20_000)


def test_the_sentence_on_top_has_the_figures_of_advise():
    advice = advise((0, 400), 50_000, shape="log-normal:mean=80,sd=90", epsilons=[1])
    found = headline(FIRST)
    assert found.trained == advice.outlooks[0].labels
    assert found.sentence == (
        f"At ε = 1, a model trained on 50,000 private labels by auto is predicted to reach R² = {advice.outlooks[0].labels.r2:.2f}. Without "
        f"privacy it is {advice.not_private.r2:.2f}, so this is {100 * advice.outlooks[0].labels.r2 / advice.not_private.r2:.0f} % of that."
    )
    assert found.risk.epsilon == 1


def test_the_sentence_on_top_ranks_mechanisms_as_compare_does():
    """Both take the values that a model trains on by default, which are not the reports of RR-on-Bins."""
    names = ("auto", "rr-on-bins", "discrete-laplace")
    top = {name: headline(replace(FIRST, mechanism=name)).trained.mse for name in names}
    below = {row.mechanism: row.model_error for row in compared(FIRST, names)[0] if row.epsilon == 1}
    assert sorted(names, key=top.get) == sorted(names, key=below.get)
    made = designed(replace(FIRST, mechanism="rr-on-bins")).mechanism
    sent = ModelErrors(FIRST.labels, FIRST.explained).of(made, FIRST.records, made.outputs).mse
    assert abs(top["rr-on-bins"] / sent - 1) > 1e-3


def test_a_public_distribution_leaves_all_of_epsilon_to_the_labels():
    public = replace(FIRST, public=True)
    assert headline(public).trained.mse < headline(FIRST).trained.mse
    dearer = headline(replace(FIRST, epsilon=25 / 24)).trained.mse  # of which 1 is left for the labels
    assert math.isclose(headline(public).trained.mse, dearer, rel_tol=1e-6)
    for free, paid in zip(curve(public).outlooks, curve(FIRST).outlooks, strict=True):
        assert free.epsilon == paid.epsilon
        assert free.risk == paid.risk
        assert free.labels.mse < paid.labels.mse
        assert free.paper.mse < paid.paper.mse


def test_what_a_release_refuses_is_refused_on_top():
    question = Question(cells=10_000, epsilon=0.3, mechanism="rr-on-bins")
    for answer in (designed, headline):
        with pytest.raises(InvalidInput, match="cells"):
            answer(question)


def test_the_curve_stays_when_epsilon_loss_or_mechanism_change():
    """So that moving ε draws no curve again."""
    assert curve(replace(FIRST, epsilon=0.5, loss="absolute", mechanism="rr-on-bins")) is curve(FIRST)


def test_any_mechanism_gets_a_prediction_and_a_warning_that_it_was_not_checked():
    noisy = replace(FIRST, mechanism="discrete-laplace")
    assert headline(noisy).trained.r2 < headline(FIRST).trained.r2
    assert "discrete-laplace" in headline(noisy).sentence
    assert any("were checked with" in note for note in caveats(noisy))
    assert caveats(FIRST) == []
    assert any("absolute" in note for note in caveats(replace(FIRST, loss="absolute")))


def test_hopeless_questions_are_answered_in_words():
    assert "3 records do not teach a model" in headline(replace(FIRST, records=3)).sentence
    assert "1 record does not teach a model" in headline(replace(FIRST, records=1)).sentence
    assert "worse than always answering the mean" in headline(replace(FIRST, mechanism="discrete-laplace")).sentence


@pytest.mark.parametrize(
    ("mechanism", "public"), [("auto", False), ("auto", True), ("rr-on-bins", False), ("discrete-laplace", False)]
)
def test_epsilon_is_divided_as_a_release_divides_it(mechanism, public):
    from labeldp import LabelRandomizer

    question = replace(WEEKS, mechanism=mechanism, public=public, epsilon=0.8)
    found = designed(question)
    plan = LabelRandomizer(0.8, question.domain, mechanism=mechanism, prior=question.assumed if public else None).plan(
        question.records
    )
    assert question.grid == plan.grid
    assert found.epsilon_prior == float(plan.epsilon_prior)
    assert math.isclose(found.epsilon_prior + found.epsilon_labels, 0.8)
    assert found.mechanism.proof()


def test_the_error_of_a_label_is_that_of_the_mechanism():
    found = designed(WEEKS)
    assert math.isclose(found.expected_loss, found.mechanism.expected_loss(WEEKS.labels), rel_tol=1e-9)
    assert math.isclose(found.expected_loss, found.bias**2 + found.deviation**2, rel_tol=1e-9)
    assert designed(replace(WEEKS, loss="poisson")).expected_loss == math.inf  # auto's outputs lie below 0


@pytest.mark.parametrize("epsilon", [1, 8])
def test_an_unbiased_mechanism_has_no_bias_however_labels_are_merged(epsilon):
    assert designed(replace(FIRST, mechanism="unbiased", epsilon=epsilon)).bias == 0
    assert designed(replace(FIRST, mechanism="rr-on-bins", epsilon=epsilon)).bias > 0


@pytest.mark.parametrize("mechanism", offered())
def test_what_one_label_is_reported_as_is_the_row_of_the_matrix(mechanism):
    made = designed(replace(WEEKS, mechanism=mechanism)).mechanism
    found = reported(made, 7.0)
    row = dict(zip(made.outputs.tolist(), made.matrix([7.0])[0].tolist(), strict=True))
    assert row == dict(zip(found.outputs.tolist(), found.probabilities.tolist(), strict=True))
    assert math.isclose(found.probabilities.sum(), 1, rel_tol=1e-12)
    assert (np.diff(found.outputs) >= 0).all()
    value, share = max(row.items(), key=lambda pair: pair[1])
    if made.outputs.size > 1:
        assert f"most often as {plain(value)} ({100 * share:.0f} %)" in found.sentence() or share < 0.01
        assert f"one of {made.outputs.size:,} values" in found.sentence()
        assert f"{plain(made.conditional_moments(np.array([7.0]))[0][0])} on average" in found.sentence()


@pytest.mark.parametrize("mechanism", ["auto", "rr-on-bins", "discrete-laplace"])
def test_two_labels_are_told_apart_by_no_more_than_epsilon_allows(mechanism):
    found = designed(replace(WEEKS, mechanism=mechanism))
    text = apart(reported(found.mechanism, 0.0), reported(found.mechanism, 52.0))
    most = float(re.search(r"more than ([\d.]+) times", text)[1])
    rows = found.mechanism.matrix([0.0, 52.0])
    assert math.isclose(most, max((rows[0] / rows[1]).max(), (rows[1] / rows[0]).max()), rel_tol=0.01)
    assert most <= math.exp(found.epsilon_labels) * 1.01  # three digits are shown


@pytest.mark.parametrize("mechanism", ["auto", "rr-on-bins", "discrete-laplace"])
@pytest.mark.parametrize("upper", [52, 400])
def test_columns_of_the_heat_map_sum_to_one_and_mix_to_what_is_reported(mechanism, upper):
    question = replace(WEEKS, upper=upper, distribution=f"exponential:mean={upper / 5}", mechanism=mechanism)
    made, labels = designed(question).mechanism, question.labels
    table = channel(made, labels, (0, upper))
    totals = table.shares.sum(axis=1)
    assert np.allclose(totals[totals > 0], 1)
    assert max(table.shares.shape) <= 60
    place = np.clip(np.searchsorted(table.label_edges, labels.values, side="right") - 1, 0, table.shares.shape[0] - 1)
    mixed = np.bincount(place, labels.masses, table.shares.shape[0]) @ table.shares
    chances = labels.masses @ made.matrix(labels.values)
    if table.single:
        assert np.allclose(mixed, chances[np.argsort(made.outputs)], atol=1e-9)
    assert math.isclose(mixed.sum(), chances.sum(), rel_tol=1e-9)


def test_grouped_reports_lose_no_probability():
    outputs, weights = np.arange(1000.0), np.full(1000, 1e-3)
    places, sums = grouped(outputs, weights, 120)
    assert len(places) == len(sums) == 120
    assert math.isclose(sums.sum(), 1)
    assert math.isclose(places @ sums, outputs @ weights, rel_tol=0.01)
    assert grouped(np.array([5.0, 2.0]), np.array([0.7, 0.3]), 120)[1].tolist() == [0.3, 0.7]


def test_merged_labels_keep_mass_and_mean():
    fine = FIRST.without(cells=10_001).labels
    coarse = FIRST.without(cells=10_001).merged
    assert len(coarse) <= 401
    assert math.isclose(coarse.mean, fine.mean, rel_tol=1e-9)
    assert abs(coarse.variance / fine.variance - 1) < 1e-3
    few = WEEKS.merged
    assert few.masses.tolist() == WEEKS.labels.masses[WEEKS.labels.masses > 0].tolist()


def test_compared_figures_are_those_of_compare_up_to_merged_labels():
    question = Question(lower=0, upper=400, whole=True)
    names = ("auto", "rr-on-bins", "unbiased", "discrete-laplace")
    points, refused = compared(question, names)
    exact = {
        (row.mechanism, row.epsilon): row
        for row in compare(
            question.labels, [0.5, 2, 4, 8], mechanisms=names, domain=question.domain, records=question.records
        )
    }
    assert not refused
    assert len(question.labels) > PREDICTION_LABELS
    for point in points:
        row = exact.get((point.mechanism, point.epsilon))
        if row is not None:
            assert abs(point.expected_loss / row.expected_loss - 1) < (0.05 if point.epsilon == 8 else 0.02), point
            assert abs(point.model_error / row.model_error - 1) < 0.02, point
            assert abs(point.bias**2 - row.bias**2) < 0.02 * row.expected_loss, point


def test_an_error_that_depends_on_the_grid_is_that_of_compare_too():
    rows, _ = compared(WEEKS, ("rp-with-prior",))
    exact = compare(
        WEEKS.labels,
        [row.epsilon for row in rows],
        mechanisms=["rp-with-prior"],
        domain=WEEKS.domain,
        records=WEEKS.records,
    )
    assert [row.model_error for row in rows] == pytest.approx([row.model_error for row in exact])


@pytest.mark.slow
def test_the_comparison_takes_the_share_that_features_explain():
    less, more = (compared(replace(WEEKS, explained=share), ("auto",))[0] for share in (0.2, 0.8))
    assert all(one.model_error > other.model_error for one, other in zip(less, more, strict=True))


def test_mechanisms_that_take_too_long_are_refused_with_what_to_do():
    points, refused = compared(Question(cells=10_000), ("discrete-staircase", "rr-on-bins"))
    assert {point.mechanism for point in points} == {"rr-on-bins"}
    assert "choose at most" in refused["discrete-staircase"]
    with pytest.raises(InvalidInput, match="choose at most"):
        designed(Question(cells=10_000, mechanism="discrete-staircase"))


@pytest.mark.parametrize("mechanism", ["auto", "rr-on-bins"])
def test_a_simulated_prior_costs_what_a_release_pays_and_differs_by_draw(mechanism):
    question = replace(WEEKS, mechanism=mechanism)
    first, second = simulated_prior(question, 1), simulated_prior(question, 2)
    assert why_none(question) is None
    assert first is simulated_prior(question, 1)
    assert first.drawn != second.drawn
    assert first.epsilon_prior == designed(question).epsilon_prior == float(first.drawn.epsilon_exact)
    assert 0 < first.distance < 1
    few = simulated_prior(replace(question, records=2000), 1)
    many = simulated_prior(replace(question, records=10**8), 1)
    assert many.distance < few.distance


def test_a_simulated_prior_of_a_fine_grid_is_compared_cell_by_cell():
    found = simulated_prior(Question(cells=5000, records=10**9), 1)
    assert np.array_equal(found.assumed.values, found.drawn.values)
    assert found.distance < 0.05


@pytest.mark.parametrize(
    ("parts", "why"), [({"public": True}, "taken as public"), ({"mechanism": "discrete-laplace"}, "not designed for")]
)
def test_it_is_said_where_no_prior_is_drawn(parts, why):
    assert why in why_none(replace(WEEKS, **parts))
    with pytest.raises(InvalidInput, match=why):
        simulated_prior(replace(WEEKS, **parts), 1)


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (Question(lower=-1, loss="poisson"), "poisson loss is for labels"),
        (Question(upper=10, distribution=Prior([0, 20], [1, 1])), "widen the bounds"),
        (Question(upper=10**6, whole=True), "more than this page can show"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_is_computed(question, why):
    with pytest.raises(InvalidInput, match=why):
        question.check()


def test_whole_numbers_and_a_grid_of_their_size_are_different_questions():
    assert Question(whole=True) != Question(cells=401)
    assert Question(whole=True).domain.whole


def test_where_predictions_do_not_hold_the_page_says_so():
    few = replace(FIRST, records=20_000, epsilon=0.25)
    assert any("fewer than 10,000" in note for note in caveats(few))
    assert not any("fewer than 10,000" in note for note in caveats(replace(few, epsilon=0.5)))
    loud = replace(FIRST, mechanism="randomized-response", epsilon=1.0)
    assert any("times the spread of the labels" in note for note in caveats(loud))
    assert not any("times the spread" in note for note in caveats(replace(loud, mechanism="unbiased")))
