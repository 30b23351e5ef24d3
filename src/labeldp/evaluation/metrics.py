"""How good predictions are against true labels, where somebody has them. Not private."""

import numpy as np

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.losses import Poisson, get_loss


def metrics(predictions: Floats, labels: Floats, loss: str = "squared") -> dict[str, float | None]:
    """Squared and absolute error, R², bias, and the Poisson deviance, by name; None where one is not defined.

    A model for another loss has that one first.
    """
    error = predictions - labels
    variance = float(np.var(labels))
    squared = float(np.mean(error**2))
    has_deviance = labels.min() >= 0 and predictions.min() > 0
    return _own(predictions, labels, loss) | {
        "mean squared error": squared,
        "root mean squared error": squared**0.5,
        "mean absolute error": float(np.mean(np.abs(error))),
        "R squared": None if variance == 0 else 1 - squared / variance,
        "mean bias": float(np.mean(error)),
        "mean Poisson deviance": float(np.mean(Poisson()(predictions, labels))) if has_deviance else None,
    }


def _own(predictions: Floats, labels: Floats, loss: str) -> dict[str, float | None]:
    try:
        measure = get_loss(loss)
    except InvalidInput:  # a function that had a name only where the model was trained
        return {}
    if measure.name in ("squared", "absolute", "poisson"):
        return {}
    with np.errstate(all="ignore"):
        mean = float(np.mean(measure(predictions, labels)))
    return {f"mean {measure.name} loss, which it was trained for": mean if np.isfinite(mean) else None}
