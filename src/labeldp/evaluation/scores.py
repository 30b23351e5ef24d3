"""How good predictions are against true labels."""

from __future__ import annotations

import numpy as np

from labeldp.arrays import Floats
from labeldp.losses import Poisson


def scores(predictions: Floats, truth: Floats) -> dict[str, float | None]:
    """Squared and absolute error, R², bias, and the Poisson deviance where both are positive enough for one."""
    error = predictions - truth
    spread = float(np.var(truth))
    squared = float(np.mean(error**2))
    deviance = None
    if truth.min() >= 0 and predictions.min() > 0:
        deviance = float(np.mean(Poisson()(predictions, truth)))
    return {
        "mean squared error": squared,
        "root mean squared error": squared**0.5,
        "mean absolute error": float(np.mean(np.abs(error))),
        "R squared": None if spread == 0 else 1 - squared / spread,
        "mean bias": float(np.mean(error)),
        "mean Poisson deviance": deviance,
    }
