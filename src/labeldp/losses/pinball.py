"""Absolute and pinball (quantile) loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labeldp.errors import InvalidInput
from labeldp.losses.base import FloatArray, Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.structure import TiltedDistance


@loss("pinball", example="pinball(0.3)", help="the quantile of that level", rank=5)
@dataclass(frozen=True)
class Pinball(Loss):
    """q·(y − ŷ) where the label is above the output, (1 − q)·(ŷ − y) where it is below; 0 < q < 1.

    `pinball(0.5)` is half the absolute loss.
    """

    quantile: float

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise InvalidInput(f"pinball needs a quantile strictly between 0 and 1, got {self.quantile}")

    @property
    def name(self) -> str:
        return f"pinball({self.quantile!r})"

    @property
    def structure(self) -> TiltedDistance:
        return TiltedDistance(under=self.quantile, over=1 - self.quantile)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        short = as_float(label) - as_float(output)
        return np.where(short >= 0, self.quantile * short, (self.quantile - 1) * short)

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> FloatArray:
        low, high = as_float(low_output), as_float(high_output)
        return as_float(np.minimum(low + (1 - self.quantile) * (high - low), high))


@loss("absolute", help="|ŷ − y|: the median", rank=1)
@dataclass(frozen=True)
class Absolute(Loss):
    """|ŷ − y|. Labels and outputs: all real numbers."""

    @property
    def name(self) -> str:
        return "absolute"

    @property
    def structure(self) -> TiltedDistance:
        return TiltedDistance(under=1.0, over=1.0)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        return as_float(np.abs(as_float(output) - as_float(label)))

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> FloatArray:
        low = as_float(low_output)
        return as_float(low + (as_float(high_output) - low) / 2)
