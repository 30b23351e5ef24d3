"""Poisson deviance, and its relation to the Poisson log loss."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.losses.base import Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.deviance_series import entropy_excess
from labeldp.losses.interval import Interval
from labeldp.losses.structure import Deviance


@loss("poisson", help="Poisson deviance, for counts: the mean", seeks_mean=True, rank=2)
@dataclass(frozen=True)
class Poisson(Loss):
    """Poisson deviance 2·(y·log(y/ŷ) − (y − ŷ)), with 0·log 0 = 0, as in scikit-learn, for labels and outputs of 0 or more.

    At ŷ = 0 the loss of a positive label is infinite.

    The Poisson log loss ŷ − y·log ŷ is half the deviance plus a function of the label alone, so both have the same best
    mechanism. Only the deviance meets Assumption 1 (the log loss is not monotone in y). `log_loss` and
    `expected_log_loss` give the value of the other one.

    Examples
    --------
    >>> from labeldp.losses import Poisson
    >>> Poisson()(output=[0, 2], label=0).tolist()
    [0.0, 4.0]
    """

    valid_labels: ClassVar[Interval] = Interval(lower=0.0)
    valid_outputs: ClassVar[Interval] = Interval(lower=0.0)

    name = "poisson"
    structure = Deviance(power=1)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        output, label = np.broadcast_arrays(as_float(output), as_float(label))
        positive = output > 0
        divisor = np.where(positive, output, 1.0)
        with np.errstate(over="ignore"):
            value = 2 * divisor * entropy_excess((label - divisor) / divisor)
        return np.where(positive, value, np.where(label == 0, 0.0, math.inf))

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> Floats:
        # The logarithmic mean (b − a)/(log b − log a) of the outputs a and b.
        low, high = as_float(low_output), as_float(high_output)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mean = np.where(high > low, (high - low) / np.log1p((high - low) / low), low)
        return as_float(np.clip(np.where(low > 0, mean, 0.0), low, high))

    def stretched(self, labels: Floats, mean: float) -> Floats:  # noqa: ARG002
        # Their square roots: the deviance is four times the squared distance of roots, nearly.
        return as_float(np.sqrt(labels))

    def best_answers(self, outcomes: Floats) -> Floats:
        return as_float(outcomes.mean(axis=1))

    def log_loss(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        """The Poisson log loss ŷ − y·log ŷ.

        Parameters
        ----------
        output, label : array-like of float
            Outputs ŷ and labels y, broadcast against each other.

        Returns
        -------
        array of float64
            The log loss of each pair.
        """
        output, label = np.broadcast_arrays(as_float(output), as_float(label))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(label == 0, output, output - label * np.log(output))

    def expected_log_loss(self, expected_deviance: float, values: npt.ArrayLike, masses: npt.ArrayLike) -> float:
        """The expected log loss of a mechanism, from its expected deviance.

        Parameters
        ----------
        expected_deviance : float
            The mechanism's expected deviance under the prior.
        values, masses : array-like of float
            The labels of the prior, and their probabilities up to a common factor.

        Returns
        -------
        float
            E[ŷ − y·log ŷ].
        """
        y, p = as_float(values), as_float(masses)
        entropy = np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0)), 0.0)
        return expected_deviance / 2 + float(np.dot(p, y - entropy) / p.sum())
