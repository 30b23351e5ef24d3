"""Gamma deviance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.losses.base import FloatArray, Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.excess import log_excess
from labeldp.losses.interval import Interval
from labeldp.losses.structure import Deviance


@loss("gamma", help="gamma deviance, for positive amounts: the mean", seeks_mean=True, rank=3)
@dataclass(frozen=True)
class Gamma(Loss):
    """Gamma deviance 2·(y/ŷ − 1 − log(y/ŷ)), as in scikit-learn. Labels and outputs: greater than 0."""

    valid_labels: ClassVar[Interval] = Interval(lower=0.0, lower_open=True)
    valid_outputs: ClassVar[Interval] = Interval(lower=0.0, lower_open=True)

    @property
    def name(self) -> str:
        return "gamma"

    @property
    def structure(self) -> Deviance:
        return Deviance(power=2)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        output, label = np.broadcast_arrays(as_float(output), as_float(label))
        t = (label - output) / output
        # Far below the output 1 + t has lost the label's digits, so the logarithm takes the quotient itself.
        far = t < -0.25
        return 2 * np.where(far, t - np.log(np.where(far, label / output, 1.0)), log_excess(np.where(far, 0.0, t)))

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> FloatArray:
        """a·b·(log b − log a)/(b − a)."""
        low, high = as_float(low_output), as_float(high_output)
        ratio = (high - low) / low
        with np.errstate(invalid="ignore"):
            value = np.where(ratio > 0, high * (np.log1p(ratio) / np.where(ratio > 0, ratio, 1.0)), low)
        return as_float(np.clip(value, low, high))
