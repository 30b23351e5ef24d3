"""Poisson deviance, and the Poisson log loss that it stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.losses.base import FloatArray, Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.excess import entropy_excess
from labeldp.losses.interval import Interval
from labeldp.losses.structure import Deviance


@loss("poisson", help="Poisson deviance, for counts: the mean", seeks_mean=True, rank=2)
@dataclass(frozen=True)
class Poisson(Loss):
    """Poisson deviance 2·(y·log(y/ŷ) − (y − ŷ)), with 0·log 0 = 0: the usual constant, as in scikit-learn.

    Labels and outputs: y ≥ 0 and ŷ ≥ 0; at ŷ = 0 a positive label loses infinitely much.

    The Poisson log loss ŷ − y·log ŷ is half the deviance plus a function of the label alone, so both have the same best
    mechanism. Only the deviance meets Assumption 1 (the log loss is not monotone in y); `log_loss` and
    `expected_log_loss` report the other value.
    """

    valid_labels: ClassVar[Interval] = Interval(lower=0.0)
    valid_outputs: ClassVar[Interval] = Interval(lower=0.0)

    @property
    def name(self) -> str:
        return "poisson"

    @property
    def structure(self) -> Deviance:
        return Deviance(power=1)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        output, label = np.broadcast_arrays(as_float(output), as_float(label))
        positive = output > 0
        divisor = np.where(positive, output, 1.0)
        with np.errstate(over="ignore"):
            value = 2 * divisor * entropy_excess((label - divisor) / divisor)
        return np.where(positive, value, np.where(label == 0, 0.0, math.inf))

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> FloatArray:
        """The logarithmic mean (b − a)/(log b − log a)."""
        low, high = as_float(low_output), as_float(high_output)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mean = np.where(high > low, (high - low) / np.log1p((high - low) / low), low)
        return as_float(np.clip(np.where(low > 0, mean, 0.0), low, high))

    def log_loss(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        """The Poisson log loss ŷ − y·log ŷ."""
        output, label = np.broadcast_arrays(as_float(output), as_float(label))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(label == 0, output, output - label * np.log(output))

    def expected_log_loss(self, expected_deviance: float, values: npt.ArrayLike, masses: npt.ArrayLike) -> float:
        """The expected log loss of a mechanism with this expected deviance, under the prior (values, masses)."""
        y, p = as_float(values), as_float(masses)
        entropy = np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0)), 0.0)
        return expected_deviance / 2 + float(np.dot(p, y - entropy) / p.sum())
