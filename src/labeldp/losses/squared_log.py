"""Squared logarithmic loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.losses.base import FloatArray, Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.interval import Interval
from labeldp.losses.structure import SquaredDistance


@loss("squared-log", help="squared difference of log(1 + label)", rank=4)
@dataclass(frozen=True)
class SquaredLog(Loss):
    """(log(1 + ŷ) − log(1 + y))²: log1p rather than log, so that labels of 0 are welcome (as in scikit-learn's MSLE).

    Labels and outputs: greater than −1.
    """

    valid_labels: ClassVar[Interval] = Interval(lower=-1.0, lower_open=True)
    valid_outputs: ClassVar[Interval] = Interval(lower=-1.0, lower_open=True)

    @property
    def name(self) -> str:
        return "squared-log"

    @property
    def structure(self) -> SquaredDistance:
        return SquaredDistance(scale="log1p")

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        output, label = as_float(output), as_float(label)
        # log of the quotient of the larger by the smaller: no digit is lost when both are large and close.
        distance = np.log1p(np.abs(output - label) / (1 + np.minimum(output, label)))
        return as_float(distance * distance)

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> FloatArray:
        """The geometric mean of 1 + a and 1 + b, less 1."""
        low, high = as_float(low_output), as_float(high_output)
        half = np.log1p((high - low) / (1 + low)) / 2
        return as_float(np.clip(low + (1 + low) * np.expm1(half), low, high))
