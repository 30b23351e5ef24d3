"""Squared logarithmic loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.losses.base import Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.interval import Interval
from labeldp.losses.structure import SquaredDistance


@loss("squared-log", help="squared difference of log(1 + label)", rank=4)
@dataclass(frozen=True)
class SquaredLog(Loss):
    """Squared logarithmic loss (log(1 + ŷ) − log(1 + y))², as in scikit-learn, for labels and outputs greater than −1.

    Examples
    --------
    >>> from labeldp.losses import SquaredLog
    >>> round(float(SquaredLog()(output=0, label=1)), 4)
    0.4805
    """

    valid_labels: ClassVar[Interval] = Interval(lower=-1.0, lower_open=True)
    valid_outputs: ClassVar[Interval] = Interval(lower=-1.0, lower_open=True)

    name = "squared-log"
    structure = SquaredDistance(scale="log1p")

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        output, label = as_float(output), as_float(label)
        # The logarithm of the larger over the smaller loses no digits when both are large and close.
        distance = np.log1p(np.abs(output - label) / (1 + np.minimum(output, label)))
        return as_float(distance * distance)

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> Floats:
        # The label √((1 + a)·(1 + b)) − 1 between the outputs a and b.
        low, high = as_float(low_output), as_float(high_output)
        half = np.log1p((high - low) / (1 + low)) / 2
        return as_float(np.clip(low + (1 + low) * np.expm1(half), low, high))

    def stretched(self, labels: Floats, mean: float) -> Floats:  # noqa: ARG002
        # log(1 + y), on which the loss is squared.
        return as_float(np.log1p(labels))

    def best_answers(self, outcomes: Floats) -> Floats:
        return as_float(np.expm1(np.log1p(outcomes).mean(axis=1)))
