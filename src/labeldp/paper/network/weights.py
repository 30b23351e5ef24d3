"""A trained network as plain arrays: it predicts with NumPy alone and pickles without torch.

A row's prediction depends neither on the rows next to it nor, but for the last digit of an exponential, on the processor.
Matrix products add up in an order that depends on both, so their sums are made exact: each layer rounds its inputs and
weights to so few bits (22 for 256 inputs) that every partial sum fits into the 53 bits of a double. That is about as
precise as float32, and takes two to three times as long.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.losses import Poisson

Singles = NDArray[np.float32]
TrainingLoss = Literal["squared", "poisson"]

ROWS_AT_ONCE = 1024
DOUBLE_BITS = 53
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
        """Return one prediction per row, in pieces so that memory stays small regardless of the number of rows."""
        kernels = [_rounded(kernel, 0, _bits(kernel)) for kernel in self.kernels]
        predictions = np.empty(len(codes), np.float64)
        for start in range(0, len(codes), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            predictions[rows] = self._values(kernels, codes[rows], numeric[rows])
        if self.loss == "poisson":
            return np.exp(np.minimum(predictions, LARGEST_EXPONENT))
        return self.center + self.scale * predictions

    def _values(self, kernels: list[Floats], codes: NDArray[np.int32], numeric: Singles) -> Floats:
        embedded = self.embeddings[codes + self.offsets].reshape(len(codes), -1)
        values = np.concatenate([embedded, numeric], axis=1, dtype=np.float64)
        for layer, (kernel, bias) in enumerate(zip(kernels, self.biases, strict=True)):
            if layer:
                np.maximum(values, 0, out=values)
            values = _rounded(values, 1, _bits(kernel)) @ kernel + bias
        return values[:, 0]


def _bits(kernel: NDArray[Any]) -> int:
    """To how many bits inputs and weights are rounded: n products of two such numbers add up to 53 bits at most."""
    return (DOUBLE_BITS - (len(kernel) - 1).bit_length()) // 2


def _rounded(values: NDArray[Any], axis: int, bits: int) -> Floats:
    """Return doubles rounded to multiples of one power of two per row or column, at most 2^bits of them."""
    _, exponents = np.frexp(np.abs(values).max(axis, keepdims=True))
    units = np.ldexp(1.0, exponents - bits)
    result: Floats = np.rint(values / units) * units
    return result


def mean_loss(loss: TrainingLoss, predictions: Floats, targets: Floats, weights: Floats | None = None) -> float:
    """Mean of (ŷ − y)², or of the Poisson log loss ŷ − y log ŷ."""
    if loss == "squared":
        losses = (predictions - targets) ** 2
    else:
        losses = Poisson().log_loss(np.maximum(predictions, np.finfo(np.float64).tiny), targets)
    return float(np.average(losses, weights=weights))
