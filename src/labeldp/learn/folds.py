"""The test error of a model on a table, from private labels: every record predicted by a model that did not see it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import clone

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.evaluation import estimate_error, estimate_gain
from labeldp.mechanisms import FiniteMechanism


def out_of_fold_error(
    model: Any, table: pa.Table, targets: Floats, mechanism: FiniteMechanism, codes: NDArray[np.uint32], folds: int
) -> dict[str, float]:
    """Noise-corrected mean squared error, and its gain over the mean's, with 95 % intervals; empty where there are none.

    It speaks of models trained on (folds − 1)/folds of the records, whose predictions are clipped into the bounds.
    """
    if mechanism.prior is None or codes.size < 2 * folds:
        return {}
    fold = np.random.default_rng(0).permutation(codes.size) % folds
    predictions = np.empty(codes.size)
    for number in range(folds):
        held, kept = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        fitted = clone(model).fit(table.take(pa.array(kept)), targets[kept])
        predictions[held] = fitted.predict(table.take(pa.array(held)))
    if mechanism.domain is not None:
        predictions = np.clip(predictions, mechanism.domain.lower, mechanism.domain.upper)
    try:
        estimate = estimate_error(mechanism, codes, predictions, visible=1.0)
        gain = estimate_gain(mechanism, codes, predictions)
    except InvalidInput:
        return {}
    return {
        "mean_squared_error": estimate.mean_squared_error,
        "lower": estimate.lower,
        "upper": estimate.upper,
        "gain": gain.value,
        "gain_lower": gain.lower,
        "gain_upper": gain.upper,
    }
