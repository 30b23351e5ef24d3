"""The figures that `labeldp train` prints."""

from __future__ import annotations

import numpy as np
import pytest
from private_populations import MECHANISMS, population, randomized
from sklearn.linear_model import LinearRegression

from labeldp import estimate_error
from labeldp.evaluate import estimate_gain, estimate_mean
from labeldp.evaluate.estimates import _drifted, estimates_of_mean, estimates_of_model, out_of_fold_predictions
from labeldp.mechanisms import PrivateLabels, RROnBins


def figures(estimate):
    return {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}


def test_the_labels_are_summed_up_by_their_mean_and_its_error():
    labels, _ = population(np.random.default_rng(0), 3000)
    private = randomized(MECHANISMS["auto"], labels)
    mean = estimate_mean(private)
    error = estimate_error(private, np.full(3000, mean.value), visible=1.0)
    assert estimates_of_mean(private) == {"mean": figures(mean), "error_of_mean": figures(error)}
    assert mean.lower < labels.mean() < mean.upper
    assert error.lower < labels.var() < error.upper


def test_a_model_is_summed_up_by_its_error_and_gain():
    labels, feature = population(np.random.default_rng(0), 20_000)
    private = randomized(MECHANISMS["unbiased"], labels)
    found = estimates_of_model(
        private, out_of_fold_predictions(LinearRegression(), feature[:, None], private.values(), 5)
    )
    slope, intercept = np.polyfit(feature, labels, 1)
    error = np.mean((slope * feature + intercept - labels) ** 2)
    assert list(found) == ["error", "gain", "r2"]
    assert found["error"]["lower"] < error < found["error"]["upper"]
    assert found["gain"]["lower"] < labels.var() - error < found["gain"]["upper"]
    assert found["r2"]["lower"] < 1 - error / labels.var() < found["r2"]["upper"]


@pytest.mark.parametrize(("constant", "bound"), [(-1e6, 0.0), (1e6, 20.0)])
def test_predictions_are_clipped_into_the_bounds(constant, bound):
    labels, _ = population(np.random.default_rng(0), 1000)
    private = randomized(MECHANISMS["unbiased"], labels)
    found = estimates_of_model(private, np.full(1000, constant))
    at_the_bound = np.full(1000, bound)
    assert found["error"] == figures(estimate_error(private, at_the_bound, visible=1.0))
    assert found["gain"] == figures(estimate_gain(private, at_the_bound))


def test_nothing_is_said_where_nothing_is_known():
    nine = randomized(MECHANISMS["unbiased"], np.arange(9.0))
    assert estimates_of_mean(nine[:1]) == {}
    assert estimates_of_mean(PrivateLabels(np.zeros(9, np.uint32), RROnBins([1.0, 4.0], 1))) == {}


def test_batches_are_seen_to_differ_about_as_often_as_the_test_allows():
    """Codes that follow one law differ by chance in 1 % of cases: more than 12 of 400 have a probability below 1e-3."""
    random, size = np.random.default_rng(0), MECHANISMS["auto"].outputs.size
    labels, _ = population(random, 400 * 600)
    codes = randomized(MECHANISMS["auto"], labels).codes.reshape(400, 600)
    assert sum(_drifted(each, 200, size) for each in codes) <= 12
    low, high = (randomized(MECHANISMS["auto"], np.full(300, end)).codes for end in (0.0, 20.0))
    assert _drifted(np.r_[low, high], 300, size)
    assert not _drifted(np.zeros(600, np.int64), 300, size)
