"""A trained network as plain arrays: it predicts with NumPy alone and pickles without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.losses import Poisson

Singles = NDArray[np.float32]
TrainingLoss = Literal["squared", "poisson"]

ROWS_AT_ONCE = 8192
LARGEST_EXPONENT = 80.0  # e^88 is the end of float32


@dataclass(frozen=True, eq=False)
class Weights:
    """Embeddings of all categorical columns in one table, dense layers with ReLU between them, and the output's link.

    Column j of the codes looks up rows `offsets[j] + code` of `embeddings`. With v the last layer's value, the
    prediction is center + scale·v under squared loss and exp(v) under Poisson loss.
    """

    loss: TrainingLoss
    embeddings: Singles
    offsets: NDArray[np.int32]
    kernels: tuple[Singles, ...]
    biases: tuple[Singles, ...]
    center: float = 0.0
    scale: float = 1.0

    def predict(self, codes: NDArray[np.int32], numeric: Singles) -> Floats:
        """One prediction per row, in pieces so that memory stays small whatever the number of rows."""
        predictions = np.empty(len(codes), np.float64)
        for start in range(0, len(codes), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            predictions[rows] = self._values(codes[rows], numeric[rows])
        if self.loss == "poisson":
            return np.exp(np.minimum(predictions, LARGEST_EXPONENT))
        return self.center + self.scale * predictions

    def _values(self, codes: NDArray[np.int32], numeric: Singles) -> Singles:
        embedded = self.embeddings[codes + self.offsets].reshape(len(codes), -1)
        values = np.concatenate([embedded, numeric], axis=1)
        for layer, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            if layer:
                np.maximum(values, 0, out=values)
            values = values @ kernel + bias
        return values[:, 0]


def mean_loss(loss: TrainingLoss, predictions: Floats, targets: Floats, weights: Floats | None = None) -> float:
    """Mean of (ŷ − y)², or of the Poisson log loss ŷ − y log ŷ."""
    if loss == "squared":
        losses = (predictions - targets) ** 2
    else:
        losses = Poisson().log_loss(np.maximum(predictions, np.finfo(np.float64).tiny), targets)
    return float(np.average(losses, weights=weights))
