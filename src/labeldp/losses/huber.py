"""Huber loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labeldp.errors import InvalidInput
from labeldp.losses.base import FloatArray, Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.structure import ClippedSquare


@loss("huber", example="huber(1.5)", help="squared up to a distance, then absolute", rank=6)
@dataclass(frozen=True)
class Huber(Loss):
    """½·(ŷ − y)² while |ŷ − y| ≤ δ, δ·(|ŷ − y| − δ/2) beyond. Labels and outputs: all real numbers."""

    delta: float

    def __post_init__(self) -> None:
        if not (self.delta > 0 and math.isfinite(self.delta)):
            raise InvalidInput(f"huber needs a finite delta greater than 0, got {self.delta}")

    @property
    def name(self) -> str:
        return f"huber({self.delta!r})"

    @property
    def structure(self) -> ClippedSquare:
        return ClippedSquare(self.delta)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        distance = np.abs(as_float(output) - as_float(label))
        near = np.minimum(distance, self.delta)
        return as_float(near * near / 2 + self.delta * (distance - near))

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> FloatArray:
        low = as_float(low_output)
        return as_float(low + (as_float(high_output) - low) / 2)
