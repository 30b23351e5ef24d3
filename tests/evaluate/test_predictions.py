"""Predictions obey the laws of what they predict, at the extremes too, and are close to what was measured."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from labeldp import Domain, InvalidInput, Prior, advise, compare
from labeldp.evaluate.shapes import shaped_prior
from labeldp.learn.method import ENOUGH_FOR_LABELS, choose_method, labels_worth
from labeldp.mechanisms import choose
from labeldp.mechanisms.bias_variance import BiasVariance, weight_of_variance
from labeldp.mechanisms.prediction import ModelErrors, error_of_model, features_joint
from labeldp.paper.data import criteo_prior

BOUNDS = Domain(0, 400)
EPSILONS = [0.02, 0.1, 0.5, 1, 2, 4, 8, 16]
RECORDS = [100, 1_000, 10_000, 10**5, 10**7]
METHODS = ["labels", "sums"]


@pytest.fixture(scope="module")
def predictors():
    shapes = {
        "criteo": criteo_prior(),
        "uniform": shaped_prior("uniform", BOUNDS),
        "two": Prior([0, 400], [9, 1]),
    }
    return {(name, r): ModelErrors(prior, r, domain=BOUNDS) for name, prior in shapes.items() for r in (0.1, 0.6)}


@pytest.mark.parametrize("method", METHODS)
def test_more_epsilon_never_hurts(predictors, method):
    for predictor in predictors.values():
        for records in (100, 10_000, 10**7):
            errors = [getattr(predictor, method)(epsilon, records).mse for epsilon in EPSILONS]
            assert all(after <= before * 1.001 for before, after in pairwise(errors))


@pytest.mark.parametrize("method", METHODS)
def test_more_records_never_hurt(predictors, method):
    for predictor in predictors.values():
        for epsilon in (0.1, 1, 8):
            errors = [getattr(predictor, method)(epsilon, records).mse for records in RECORDS]
            assert all(after <= before * 1.001 for before, after in pairwise(errors))


def test_true_labels_are_better_than_private_ones_and_the_floor_better_than_all(predictors):
    for (_, explained), predictor in predictors.items():
        floor = (1 - explained) * predictor.mean_only().mse
        for records in (1_000, 10**6):
            true = predictor.not_private(records).mse
            assert true >= floor
            for epsilon in (0.1, 1, 8):
                for method in (predictor.labels, predictor.sums, predictor.paper):
                    assert method(epsilon, records).mse >= true * 0.9999


def test_the_mean_explains_nothing(predictors):
    for predictor in predictors.values():
        assert predictor.mean_only().r2 == 0
        assert predictor.mean_only().rmse == pytest.approx(math.sqrt(predictor.prior.variance))


def test_with_endless_records_private_labels_reach_the_floor(predictors):
    for (_, explained), predictor in predictors.items():
        assert predictor.labels(4, 10**12).r2 == pytest.approx(explained, abs=0.01)
        assert predictor.not_private(10**12).r2 == pytest.approx(explained, abs=0.001)


def test_the_bias_of_the_papers_bins_does_not_average_out():
    predictor = ModelErrors(criteo_prior(), 0.64, domain=BOUNDS)
    assert predictor.paper(1, 10**9).r2 < 0.2
    assert predictor.labels(1, 10**9).r2 > 0.6


@pytest.mark.parametrize("explained", [0.0, 0.005, 0.02, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_features_explain_the_share_that_they_are_said_to(explained):
    prior = shaped_prior("exponential:mean=90", Domain(0, 400, 101))
    joint = features_joint(prior, explained)
    centred = prior.values - prior.mean
    assert centred @ joint @ centred == pytest.approx(explained * prior.variance, rel=1e-3, abs=1e-6)
    assert joint.sum() == pytest.approx(1, abs=1e-4)


def test_features_that_tell_nothing_leave_nothing_to_learn():
    predictor = ModelErrors(criteo_prior(), 0.0, domain=BOUNDS)
    for epsilon in (0.001, 1, 40):
        assert predictor.labels(epsilon, 10**6).r2 == pytest.approx(0, abs=2e-3)
        assert predictor.labels(epsilon, 10**6).r2 <= 1e-9


def test_features_that_tell_all_leave_no_floor():
    predictor = ModelErrors(criteo_prior(), 1.0, domain=BOUNDS)
    assert predictor.not_private(10**6).r2 == pytest.approx(1, abs=1e-5)
    assert predictor.labels(40, 10**6).r2 > 0.99


@pytest.mark.parametrize("explained", [0.0, 0.5, 1.0])
def test_the_extremes_have_finite_answers(explained):
    predictor = ModelErrors(criteo_prior(), explained, domain=BOUNDS)
    for records in (1, 2, 10**15):
        for method in (predictor.labels, predictor.paper, predictor.sums):
            for epsilon in (0.001, 40):
                assert -5 < method(epsilon, records).r2 <= 1
        assert -1.1 < predictor.not_private(records).r2 <= 1


def test_at_the_smallest_epsilon_nothing_is_learned_and_at_the_largest_nothing_lost():
    predictor = ModelErrors(criteo_prior(), 0.64, domain=BOUNDS)
    assert predictor.labels(0.001, 10_000).r2 == pytest.approx(0, abs=0.01)
    assert predictor.labels(40, 10_000).mse == pytest.approx(predictor.not_private(10_000).mse, rel=0.01)


def test_a_billion_records_help_even_at_the_smallest_epsilon():
    predictor = ModelErrors(criteo_prior(), 0.64, domain=BOUNDS)
    assert predictor.labels(0.001, 10**9).r2 > predictor.labels(0.001, 10**6).r2


def test_units_do_not_matter():
    """Cents instead of euros have 10,000 times the squared error and the same R²."""
    euros = ModelErrors(Prior([0, 10, 50, 400], [4, 3, 2, 1]), 0.5, domain=BOUNDS)
    cents = ModelErrors(Prior([0, 1_000, 5_000, 40_000], [4, 3, 2, 1]), 0.5, domain=Domain(0, 40_000))
    for method in ("labels", "paper", "sums"):
        assert getattr(cents, method)(1, 5_000).r2 == pytest.approx(getattr(euros, method)(1, 5_000).r2, abs=2e-3)


def test_where_zero_is_does_not_matter():
    here = ModelErrors(Prior([0, 10, 50, 400], [4, 3, 2, 1]), 0.5, domain=BOUNDS)
    there = ModelErrors(Prior([1000, 1010, 1050, 1400], [4, 3, 2, 1]), 0.5, domain=Domain(1000, 1400))
    assert there.labels(1, 5_000).mse == pytest.approx(here.labels(1, 5_000).mse, rel=1e-3)


def test_a_finer_grid_changes_little():
    coarse = ModelErrors(shaped_prior("exponential:mean=90", Domain(0, 400, 101)), 0.5, domain=BOUNDS)
    fine = ModelErrors(shaped_prior("exponential:mean=90", Domain(0, 400, 20_001)), 0.5, domain=BOUNDS)
    for epsilon in (0.5, 4):
        assert fine.labels(epsilon, 10_000).mse == pytest.approx(coarse.labels(epsilon, 10_000).mse, rel=0.01)


@pytest.mark.parametrize("scale", [1e-90, 1e98])
def test_very_small_and_very_large_labels_are_predicted_alike(scale):
    usual, other = (ModelErrors(shaped_prior("uniform", (0, s)), 0.5, domain=Domain(0, s)) for s in (1, scale))
    for method in ("labels", "paper", "sums"):
        assert getattr(other, method)(1, 5_000).r2 == pytest.approx(getattr(usual, method)(1, 5_000).r2, abs=2e-3)


def test_a_coarse_prior_keeps_the_mean_and_nearly_all_of_the_spread():
    for text in ("exponential:mean=4", "log-normal:mean=80,sd=90", "uniform", "normal:mean=200,sd=3"):
        fine = shaped_prior(text, Domain(0, 400, 20_001))
        coarse = ModelErrors(fine, 0.5, domain=BOUNDS).prior
        assert len(coarse) <= 102
        assert coarse.mean == pytest.approx(fine.mean, rel=1e-9)
        assert coarse.variance == pytest.approx(fine.variance, rel=0.01)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6])
def test_the_smallest_epsilon_that_is_allowed_has_an_answer(epsilon):
    predictor = ModelErrors(criteo_prior(), 0.64, domain=BOUNDS)
    for method in (predictor.labels, predictor.paper):
        assert method(epsilon, 10_000).r2 == pytest.approx(0, abs=0.01)


def test_a_prior_with_one_value_has_nothing_to_predict():
    with pytest.raises(InvalidInput, match="give narrower bounds"):
        advise(BOUNDS, 1000, prior=Prior([3, 5], [0, 1]))


def test_no_signal_and_no_noise_cost_nothing():
    assert error_of_model(0, 100, 10) == error_of_model(100, 0, 10) == 0


MEASURED = {
    (10_000, 0.5): 5_051,
    (10_000, 2): 4_499,
    (10_000, 8): 4_222,
    (50_000, 0.5): 4_766,
    (50_000, 2): 4_305,
    (400_000, 0.5): 4_327,
    (400_000, 4): 4_109,
}
"""Test errors of the default learner on Criteo-like data (docs/research/measurements.md)."""


@pytest.mark.parametrize("cell", MEASURED)
def test_predictions_are_close_to_what_models_reached(cell):
    records, epsilon = cell
    found = ModelErrors(criteo_prior(), 0.64, domain=BOUNDS).labels(epsilon, records).mse
    assert found == pytest.approx(MEASURED[cell], rel=0.07)


@pytest.mark.parametrize("cell", MEASURED)
def test_what_models_reached_is_in_the_likely_range(cell):
    records, epsilon = cell
    found = ModelErrors(criteo_prior(), 0.64, domain=BOUNDS).labels(epsilon, records)
    low, high = found.likely_r2
    assert 0 <= low < found.r2 < high < 1
    assert low <= 1 - MEASURED[cell] / found.spread <= high


def test_an_untouched_prior_is_used_as_it_is():
    prior = Prior([0, 10, 50], [2, 1, 1])
    assert np.array_equal(ModelErrors(prior, 0.5, domain=BOUNDS).prior.values, prior.values)


@pytest.mark.parametrize(
    "domain",
    [
        Domain.integers(0, 1),
        Domain(-1e5, 1e9),
        *(pytest.param(domain, marks=pytest.mark.slow) for domain in (Domain(0, 400), Domain.integers(0, 52))),
    ],
)
def test_advise_and_the_regressor_choose_the_same_method(domain):
    """For every number of records and every ε, unless labels are worth so much that they follow sums: both come from the same prediction."""
    epsilons = [0.01, 0.1, 0.5, 1, 1.8, 2.2, 2.6, 3, 4, 8, 40]
    chosen = set()
    for records in (2, 50, 1_000, 10_000, 50_000, 10**6, 10**9):
        for outlook in advise(domain, records, epsilons=epsilons).outlooks:
            advised = "sums" if outlook.sums.mse <= outlook.labels.mse else "labels"
            enough = labels_worth(records, outlook.epsilon) > ENOUGH_FOR_LABELS
            name = choose_method(records, outlook.epsilon, 20, domain).name
            assert name == ("both" if enough else advised), (records, outlook.epsilon)
            chosen.add(name)
    assert chosen == {"labels", "sums", "both"}


@pytest.mark.parametrize("explained", [0.2, 0.64])
@pytest.mark.parametrize("epsilon", [0.5, 2, 8])
def test_advise_and_compare_predict_the_same_error(explained, epsilon):
    """Where a public prior leaves all of ε to the labels, as `compare` does."""
    prior, domain = criteo_prior(), Domain.integers(0, 400)
    advice = advise(domain, 30_000, explained=explained, epsilons=[epsilon], prior=prior, public=True)
    rows = compare(
        prior,
        [epsilon],
        mechanisms=["auto", "not-private", "mean-only"],
        domain=domain,
        records=30_000,
        explained=explained,
    )
    auto, true, mean = (row.model_error for row in rows)
    assert auto == pytest.approx(advice.outlooks[0].labels.mse, rel=0.01)  # designs of 101 and of 401 labels
    assert (true, mean) == (advice.not_private.mse, advice.mean_only.mse)


def test_the_parts_of_a_prediction_add_up(predictors):
    for (_, explained), predictor in predictors.items():
        for found in (
            predictor.labels(1, 5000),
            predictor.sums(1, 5000),
            predictor.not_private(5000),
            predictor.mean_only(),
        ):
            assert found.floor == pytest.approx((1 - explained) * found.spread)
            assert found.bias >= 0
            assert found.noise >= 0


def test_merged_labels_have_the_error_of_all_labels():
    """The moments of a mechanism at 401 labels are merged, not computed at 101 labels between its cells."""
    prior = criteo_prior()
    mechanism = BiasVariance.optimal(prior, 1, weight_of_variance(20_000), visible=0.7, domain=Domain.integers(0, 400))
    found = ModelErrors(prior, 0.64).of(mechanism, 20_000)
    assert found.mse == pytest.approx(ModelErrors(prior, 0.64, public=True).labels(1, 20_000).mse, rel=0.01)
    assert found.mse == pytest.approx(
        ModelErrors(prior, 0.64).of(choose(prior, 1, 20_000).mechanism, 20_000).mse, rel=0.01
    )
