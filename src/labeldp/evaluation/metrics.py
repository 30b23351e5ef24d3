"""How good predictions are against true labels, where somebody has them. Not private."""

import numpy as np

from labeldp.arrays import Floats
from labeldp.losses import Poisson


def metrics(predictions: Floats, labels: Floats) -> dict[str, float | None]:
    """Squared and absolute error, R², bias, and the Poisson deviance, by name; None where one is not defined."""
    error = predictions - labels
    variance = float(np.var(labels))
    squared = float(np.mean(error**2))
    has_deviance = labels.min() >= 0 and predictions.min() > 0
    return {
        "mean squared error": squared,
        "root mean squared error": squared**0.5,
        "mean absolute error": float(np.mean(np.abs(error))),
        "R squared": None if variance == 0 else 1 - squared / variance,
        "mean bias": float(np.mean(error)),
        "mean Poisson deviance": float(np.mean(Poisson()(predictions, labels))) if has_deviance else None,
    }
