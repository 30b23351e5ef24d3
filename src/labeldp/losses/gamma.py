"""Gamma deviance."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.losses.base import Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.deviance_series import log_excess
from labeldp.losses.interval import Interval
from labeldp.losses.structure import Deviance


@loss("gamma", help="gamma deviance, for positive amounts: the mean", seeks_mean=True, rank=3)
@dataclass(frozen=True)
class Gamma(Loss):
    """Gamma deviance 2·(y/ŷ − 1 − log(y/ŷ)), as in scikit-learn, for labels and outputs greater than 0.

    Examples
    --------
    >>> from labeldp.losses import Gamma
    >>> round(float(Gamma()(output=1, label=2)), 4)
    0.6137
    """

    valid_labels: ClassVar[Interval] = Interval(lower=0.0, lower_open=True)
    valid_outputs: ClassVar[Interval] = Interval(lower=0.0, lower_open=True)

    name = "gamma"
    structure = Deviance(power=2)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        output, label = np.broadcast_arrays(as_float(output), as_float(label))
        t = (label - output) / output
        # For labels far below the output, 1 + t has lost digits of the label: take the logarithm of the quotient instead.
        far = t < -0.25
        return 2 * np.where(far, t - np.log(np.where(far, label / output, 1.0)), log_excess(np.where(far, 0.0, t)))

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> Floats:
        # The label a·b·(log b − log a)/(b − a) between the outputs a and b.
        low, high = as_float(low_output), as_float(high_output)
        ratio = (high - low) / low
        with np.errstate(invalid="ignore"):
            value = np.where(ratio > 0, high * (np.log1p(ratio) / np.where(ratio > 0, ratio, 1.0)), low)
        return as_float(np.clip(value, low, high))

    def stretched(self, labels: Floats, mean: float) -> Floats:
        # Their logarithms, since the deviance sees quotients; labels far below the mean are taken together.
        return as_float(np.log(labels + mean / 100))

    def best_answers(self, outcomes: Floats) -> Floats:
        return as_float(outcomes.mean(axis=1))
