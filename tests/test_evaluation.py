"""Test error from private labels: right on average, with intervals that cover, and honest where it cannot be had."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV

from labeldp import Domain, OsEntropy, Prior, RROnBins
from labeldp.errors import InvalidInput
from labeldp.evaluation import cross_validated_error, estimate_error, moment_values, noise_corrected_scorer
from labeldp.mechanisms.unbiased import Unbiased
from labeldp.randomizer import PrivateLabels

VALUES = np.arange(21.0)
PRIOR = Prior(VALUES, np.exp(-VALUES / 5) + 0.03 * (VALUES == 20))
DOMAIN = Domain.integers(0, 20)


def population(random, size):
    """Labels from the prior and a feature that explains part of them."""
    labels = random.choice(VALUES, size, p=PRIOR.masses)
    return labels, 0.5 * labels + random.normal(0, 1.5, size)


@pytest.mark.parametrize("epsilon", [1, 3])
def test_the_interval_covers_the_true_error_in_180_of_200_seeds(epsilon):
    mechanism = Unbiased.optimal(PRIOR, epsilon, domain=DOMAIN)
    random = np.random.default_rng(17)
    labels, feature = population(random, 200_000)
    truth = np.mean((feature - labels) ** 2)
    covered = 0
    for _ in range(200):
        labels, feature = population(random, 2000)
        estimate = estimate_error(mechanism, mechanism.codes(labels, randomness=OsEntropy()), feature)
        assert estimate.bias_allowance == 0
        covered += estimate.lower <= truth <= estimate.upper
    assert covered >= 180


def test_the_moments_of_an_unbiased_mechanism_are_exact_at_every_anchor():
    mechanism = Unbiased.optimal(PRIOR, 2, domain=DOMAIN, anchors=21)
    moments = moment_values(mechanism, 1000)
    channel = mechanism.matrix(VALUES)
    assert channel @ moments.label == pytest.approx(VALUES, abs=1e-8)
    assert channel @ moments.square == pytest.approx(VALUES**2, abs=1e-4)


def test_a_mechanism_with_two_outputs_widens_its_interval():
    mechanism = RROnBins.optimal(PRIOR, 1)
    random = np.random.default_rng(3)
    truth, wide = [], []
    for _ in range(50):
        labels, feature = population(random, 3000)
        estimate = estimate_error(mechanism, mechanism.codes(labels, randomness=OsEntropy()), feature)
        truth.append(np.mean((feature - labels) ** 2))
        wide.append((estimate.lower, estimate.upper, estimate.bias_allowance))
    assert min(w[2] for w in wide) > 0
    assert sum(low <= t <= high for t, (low, high, _) in zip(truth, wide, strict=True)) >= 45


def test_cross_validation_estimates_the_error_of_the_model():
    random = np.random.default_rng(8)
    labels, feature = population(random, 20_000)
    mechanism = Unbiased.optimal(PRIOR, 4, domain=DOMAIN)
    private = PrivateLabels(mechanism.codes(labels, randomness=OsEntropy()), mechanism)
    estimate = cross_validated_error(LinearRegression(), feature[:, None], private)
    model = LinearRegression().fit(feature[:, None], private.values())
    fresh_labels, fresh = population(random, 100_000)
    truth = np.mean((model.predict(fresh[:, None]) - fresh_labels) ** 2)
    assert abs(estimate.mean_squared_error - truth) < 5 * estimate.standard_error
    assert "interval" in str(estimate)


def test_the_scorer_works_in_a_grid_search():
    random = np.random.default_rng(9)
    labels, feature = population(random, 3000)
    mechanism = Unbiased.optimal(PRIOR, 4, domain=DOMAIN)
    values = mechanism.outputs[mechanism.codes(labels, randomness=OsEntropy())]
    search = GridSearchCV(Ridge(), {"alpha": [1e-3, 1e9]}, scoring=noise_corrected_scorer(mechanism))
    search.fit(feature[:, None], values)
    assert search.best_params_ == {"alpha": 1e-3}
    assert search.best_score_ < 0


def test_the_scorer_refuses_numbers_that_are_no_codes():
    mechanism = Unbiased.optimal(PRIOR, 4, domain=DOMAIN)
    model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(InvalidInput, match="not this mechanism's values"):
        noise_corrected_scorer(mechanism)(model, [[0.0], [1.0]], [0.123, 0.456])


def test_bad_arguments_are_refused():
    mechanism = Unbiased.optimal(PRIOR, 4, domain=DOMAIN)
    with pytest.raises(InvalidInput, match="one prediction per code"):
        estimate_error(mechanism, np.zeros(3, np.uint32), [1.0, 2.0])
    with pytest.raises(InvalidInput, match="confidence"):
        estimate_error(mechanism, np.zeros(2, np.uint32), [1.0, 2.0], confidence=1)
    with pytest.raises(InvalidInput, match="prior"):
        estimate_error(RROnBins([1.0, 4.0], 1), np.zeros(2, np.uint32), [1.0, 2.0])
