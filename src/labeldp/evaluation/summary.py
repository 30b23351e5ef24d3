"""The figures that `labeldp train` prints: what private labels tell about themselves and about a model."""

from typing import Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.evaluation.cross_validation import out_of_fold_predictions
from labeldp.evaluation.estimates import Estimate, estimate_error, estimate_gain, estimate_mean
from labeldp.mechanisms import PrivateLabels

Figures = dict[str, dict[str, float]]
"""For each figure, by name, its `value` and the ends of its 95 % interval, `lower` and `upper`."""


def estimates_of_mean(private: PrivateLabels) -> Figures:
    """The labels' `mean`, and `error_of_mean`: the mean squared error of always predicting it.

    Empty if the mechanism has no prior or too many outputs to be evaluated, or if there are fewer than two labels.
    """
    try:
        mean = estimate_mean(private)
        error = estimate_error(private, np.full(len(private), mean.value), visible=1.0)
    except InvalidInput:
        return {}
    return _figures(mean=mean, error_of_mean=error)


def estimates_of_model(estimator: Any, X: Any, targets: Floats, private: PrivateLabels, folds: int) -> Figures:
    """The estimator's mean squared test `error`, and its `gain`: how much lower that is than the error of the mean.

    Every record is predicted by a model that was trained on the `targets` of the other folds, and the predictions are
    clipped into the bounds. Empty if there are fewer than two records for each fold.
    """
    if len(private) < 2 * folds:
        return {}
    predictions = out_of_fold_predictions(estimator, X, targets, folds)
    if (domain := private.mechanism.domain) is not None:
        predictions = np.clip(predictions, domain.lower, domain.upper)
    error = estimate_error(private, predictions, visible=1.0)
    return _figures(error=error, gain=estimate_gain(private, predictions))


def _figures(**estimates: Estimate) -> Figures:
    return {name: {"value": e.value, "lower": e.lower, "upper": e.upper} for name, e in estimates.items()}
