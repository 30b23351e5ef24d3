"""What private labels alone tell about themselves and about a model: figures with 95 % intervals, noise taken out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.evaluation.estimates import (
    ErrorEstimate,
    Estimate,
    estimate_error,
    estimate_gain,
    estimate_mean,
    out_of_fold_predictions,
)
from labeldp.mechanisms import FiniteMechanism

Figures = dict[str, dict[str, float]]
"""A name, and for each its `value`, `lower` and `upper`."""


def estimates_of_mean(mechanism: FiniteMechanism, codes: NDArray[np.uint32]) -> Figures:
    """The labels' `mean` and the `error_of_mean`, of always answering it; empty where codes do not tell."""
    if mechanism.prior is None or codes.size < 2:
        return {}
    try:
        mean = estimate_mean(mechanism, codes)
        error = estimate_error(mechanism, codes, np.full(codes.size, mean.value), visible=1.0)
    except InvalidInput:  # more outputs than can be looked at together
        return {}
    return {"mean": _figures(mean), "error_of_mean": _figures(error)}


def estimates_of_model(
    model: Any, table: pa.Table, targets: Floats, mechanism: FiniteMechanism, codes: NDArray[np.uint32], folds: int
) -> Figures:
    """The model's mean squared test `error` and its `gain` over the mean's; empty where there are too few records.

    For mechanisms that `estimates_of_mean` can judge. Every record is predicted by a model that did not see it. So the figures speak of models trained on
    (folds − 1)/folds of the records, whose predictions are clipped into the bounds.
    """
    if codes.size < 2 * folds:
        return {}
    predictions = out_of_fold_predictions(model, table, targets, folds)
    if mechanism.domain is not None:
        predictions = np.clip(predictions, mechanism.domain.lower, mechanism.domain.upper)
    error = estimate_error(mechanism, codes, predictions, visible=1.0)
    return {"error": _figures(error), "gain": _figures(estimate_gain(mechanism, codes, predictions))}


def _figures(estimate: Estimate | ErrorEstimate) -> dict[str, float]:
    return {"value": estimate.value, "lower": estimate.lower, "upper": estimate.upper}
