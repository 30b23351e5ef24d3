"""The test error of a model trained on private labels, from the same labels."""

from __future__ import annotations

import numpy as np
from private_populations import DOMAIN, PRIOR, population, randomized
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from labeldp.evaluate import cross_validated_error
from labeldp.evaluate.estimates import out_of_fold_predictions
from labeldp.mechanisms import RROnBins, Unbiased


def test_cross_validation_estimates_the_error_of_the_model():
    random = np.random.default_rng(8)
    labels, feature = population(random, 20_000)
    mechanism = Unbiased.optimal(PRIOR, 4, domain=DOMAIN)
    private = randomized(mechanism, labels)
    estimate = cross_validated_error(LinearRegression(), feature[:, None], private)
    model = LinearRegression().fit(feature[:, None], private.values())
    fresh_labels, fresh = population(random, 100_000)
    truth = np.mean((model.predict(fresh[:, None]) - fresh_labels) ** 2)
    assert abs(estimate.mean_squared_error - truth) < 5 * estimate.standard_error


def test_it_trains_on_the_training_values_by_default():
    """On the paper's outputs the model would be pulled to the middle, and its error would be higher."""
    labels, feature = population(np.random.default_rng(8), 5000)
    private = randomized(RROnBins.optimal(PRIOR, 1), labels)
    default, auto, bins = (
        cross_validated_error(LinearRegression(), feature[:, None], private, **how).value
        for how in ({}, {"decoder": "auto"}, {"decoder": "bins"})
    )
    assert default == auto < bins


def test_no_record_is_predicted_by_a_model_that_saw_it():
    """A model that repeats what it saw for the same features cannot repeat the record's own target."""
    targets = np.arange(100.0)
    predictions = out_of_fold_predictions(KNeighborsRegressor(1), targets[:, None], targets, 5)
    assert (predictions != targets).all()
    assert np.abs(predictions - targets).max() < 10
