"""The figures that `labeldp train` prints: what private labels tell about themselves and about a model."""

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.evaluation.cross_validation import out_of_fold_predictions
from labeldp.evaluation.estimates import Estimate, estimate_error, estimate_gain, estimate_mean, estimate_r2
from labeldp.evaluation.intervals.assumptions import ASSUMPTIONS, PART, TAILS
from labeldp.evaluation.intervals.counted import usable_counts
from labeldp.evaluation.intervals.pieces import LabelPieces
from labeldp.mechanisms import PrivateLabels

Figures = dict[str, dict[str, float | None]]
"""For each figure, by name, its `value` and the ends of its 95 % interval, `lower` and `upper`; None for no end at all."""


def estimates_of_mean(private: PrivateLabels, assume: Collection[str] = ()) -> Figures:
    """The labels' `mean`, and `error_of_mean`: the mean squared error of always predicting it.

    Empty if the mechanism has no prior or too many outputs to be evaluated, or if there are fewer than two labels.
    """
    try:
        mean = estimate_mean(private, assume=assume)
        error = estimate_error(private, np.full(len(private), mean.value), visible=1.0, assume=assume)
    except InvalidInput:
        return {}
    return _figures(mean=mean, error_of_mean=error)


def estimates_of_model(private: PrivateLabels, predictions: Floats, assume: Collection[str] = ()) -> Figures:
    """A model's mean squared test `error`, its `gain` over answering the mean, and its `r2`, from out-of-fold predictions."""
    return _figures(
        error=estimate_error(private, predictions, visible=1.0, assume=assume),
        gain=estimate_gain(private, predictions, assume=assume),
        r2=estimate_r2(private, predictions, assume=assume),
    )


def predicted_out_of_fold(
    estimator: Any, X: Any, targets: NDArray[Any], private: PrivateLabels, folds: int
) -> Floats | None:
    """A prediction for every record by a model that was trained on the `targets` of the other folds, within the bounds.

    None if there are fewer than two records for each fold.
    """
    if len(private) < 2 * folds:
        return None
    predictions = out_of_fold_predictions(estimator, X, targets, folds)
    domain = private.mechanism.domain
    return predictions if domain is None else np.clip(predictions, domain.lower, domain.upper)


def _figures(**estimates: Estimate) -> Figures:
    return {
        name: {
            key: end if math.isfinite(end := getattr(estimate, key)) else None for key in ("value", "lower", "upper")
        }
        for name, estimate in estimates.items()
    }


def made_assumptions(private: PrivateLabels, assume: Collection[str]) -> list[str]:
    """Those of the accepted assumptions that make a difference for these labels, by name."""
    counts = usable_counts(private.mechanism, len(private))
    matters = {
        TAILS: bool(LabelPieces.of(private.mechanism).tails()),
        PART: counts is not None and counts.records > len(private),
    }
    return [name for name in ASSUMPTIONS if name in assume and matters[name]]
