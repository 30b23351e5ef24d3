"""The named losses."""

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.domain import LARGEST
from labeldp.errors import InvalidInput, described
from labeldp.losses.loss import (
    Deviance,
    DistanceLoss,
    HuberDistance,
    Interval,
    Loss,
    PinballDistance,
    SquaredDistance,
    as_float,
    loss,
)

NEAR = 0.25
"""The series is used for |t| below this."""
_TERMS = 11

_Number = TypeVar("_Number", float, Floats)


def log_excess(t: npt.ArrayLike) -> Floats:
    """Return t − log(1 + t) for t > −1, to a relative error of a few units in the last place."""
    t = as_float(t)
    near = np.where(np.abs(t) < NEAR, t, 0.0)
    far = np.where(np.abs(t) < NEAR, 1.0, t)
    s, tail = log_series(near)
    return np.where(np.abs(t) < NEAR, near * s - tail, far - np.log1p(far))


def entropy_excess(t: npt.ArrayLike) -> Floats:
    """Return (1 + t)·log(1 + t) − t for t ≥ −1, to a relative error of a few units in the last place."""
    t = as_float(t)
    near = np.where(np.abs(t) < NEAR, t, 0.0)
    far = np.where((np.abs(t) < NEAR) | (t <= -1), 1.0, t)
    s, tail = log_series(near)
    value = np.where(np.abs(t) < NEAR, near * s + tail * (1 + near), (1 + far) * np.log1p(far) - far)
    return np.where(t <= -1, 1.0, value)


def log_series(t: _Number) -> tuple[_Number, _Number]:
    """Return the pair (s, tail) with s = t/(2 + t) and log(1 + t) = 2s + tail, where tail = 2s³(1/3 + s²/5 + …).

    Since t − 2s = t·s, nothing cancels: t − log(1 + t) = t·s − tail. It uses plain arithmetic only, so that it works for
    arrays and for the single numbers of compiled code.
    """
    s = t / (2 + t)
    square = s * s
    total = 0.0 * square
    for n in range(_TERMS, -1, -1):
        total = total * square + 1 / (2 * n + 3)
    return s, 2 * s * square * total


@loss("squared", help="(ŷ − y)²: the mean", seeks_mean=True, rank=0)
@dataclass(frozen=True)
class Squared(DistanceLoss):
    """Squared loss (ŷ − y)², without a factor ½, for all real labels and outputs.

    Examples
    --------
    >>> from labeldp.losses import Squared
    >>> float(Squared()(output=1, label=4))
    9.0
    """

    name = "squared"
    structure = SquaredDistance()

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        difference = as_float(output) - as_float(label)
        return as_float(difference * difference)

    def stretched(self, labels: Floats, mean: float) -> Floats:  # noqa: ARG002
        # The labels themselves.
        return labels

    def best_answers(self, outcomes: Floats) -> Floats:
        return as_float(outcomes.mean(axis=1))


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

    valid_labels = valid_outputs = Interval(lower=-1.0, lower_open=True)

    name = "squared-log"
    structure = SquaredDistance(scale="log1p")

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        output, label = as_float(output), as_float(label)
        # The logarithm of the ratio does not lose digits when both are large and close.
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


@loss("pinball", example="pinball(0.3)", help="the quantile of that level", rank=5)
@dataclass(frozen=True)
class Pinball(Loss):
    """Pinball loss, which a quantile minimises, for all real labels and outputs.

    It is q·(y − ŷ) where the label is above the output and (1 − q)·(ŷ − y) where it is below. `Pinball(0.5)` is half the
    absolute loss.

    Parameters
    ----------
    quantile : float
        The level q of the quantile, strictly between 0 and 1.

    Examples
    --------
    >>> from labeldp.losses import Pinball
    >>> Pinball(0.75)(output=[0, 8], label=4).tolist()
    [3.0, 1.0]
    """

    quantile: float

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise InvalidInput(f"pinball needs a quantile strictly between 0 and 1, got {described(self.quantile)}")

    @property
    def name(self) -> str:
        return f"pinball({self.quantile!r})"

    @property
    def structure(self) -> PinballDistance:
        return PinballDistance(under=self.quantile, over=1 - self.quantile)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        short = as_float(label) - as_float(output)
        return np.where(short >= 0, self.quantile * short, (self.quantile - 1) * short)

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> Floats:
        # The label a + (1 − q)·(b − a) between the outputs a and b.
        low, high = as_float(low_output), as_float(high_output)
        return as_float(np.minimum(low + (1 - self.quantile) * (high - low), high))

    def best_answers(self, outcomes: Floats) -> Floats:
        return as_float(np.quantile(outcomes, self.quantile, axis=1))


@loss("absolute", help="|ŷ − y|: the median", rank=1)
@dataclass(frozen=True)
class Absolute(DistanceLoss):
    """Absolute loss `|ŷ − y|`, which the median minimises, for all real labels and outputs.

    Examples
    --------
    >>> from labeldp.losses import Absolute
    >>> float(Absolute()(output=1, label=4))
    3.0
    """

    name = "absolute"
    structure = PinballDistance(under=1.0, over=1.0)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        return as_float(np.abs(as_float(output) - as_float(label)))

    def best_answers(self, outcomes: Floats) -> Floats:
        return as_float(np.median(outcomes, axis=1))


@loss("huber", example="huber(1.5)", help="squared up to a distance, then absolute", rank=6)
@dataclass(frozen=True)
class Huber(DistanceLoss):
    """Huber loss: `½·(ŷ − y)²` while `|ŷ − y| ≤ δ`, and `δ·(|ŷ − y| − δ/2)` beyond, for all real labels and outputs.

    Parameters
    ----------
    delta : float
        The distance δ > 0 beyond which the loss is linear.

    Examples
    --------
    >>> from labeldp.losses import Huber
    >>> Huber(2)(output=[0, 3], label=4).tolist()
    [6.0, 0.5]
    """

    delta: float

    def __post_init__(self) -> None:
        if not 1 / LARGEST <= self.delta <= LARGEST:
            raise InvalidInput(
                f"huber needs a finite delta greater than 0, from {1 / LARGEST:g} to {LARGEST:g}, got {described(self.delta)}"
            )

    @property
    def name(self) -> str:
        return f"huber({self.delta!r})"

    @property
    def structure(self) -> HuberDistance:
        return HuberDistance(self.delta)

    @property
    def kinks(self) -> tuple[float, ...]:
        return (self.delta,)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        distance = np.abs(as_float(output) - as_float(label))
        near = np.minimum(distance, self.delta)
        return as_float(near * near / 2 + self.delta * (distance - near))


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

    valid_labels = valid_outputs = Interval(lower=0.0)

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
        """Return the Poisson log loss ŷ − y·log ŷ.

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
        """Return the expected log loss of a mechanism, from its expected deviance.

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

    valid_labels = valid_outputs = Interval(lower=0.0, lower_open=True)

    name = "gamma"
    structure = Deviance(power=2)

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        output, label = np.broadcast_arrays(as_float(output), as_float(label))
        t = (label - output) / output
        # For labels far below the output, 1 + t has lost digits of the label: use the logarithm of the quotient instead.
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
        # Their logarithms, since the deviance depends on quotients; labels far below the mean are merged.
        return as_float(np.log(labels + mean / 100))

    def best_answers(self, outcomes: Floats) -> Floats:
        return as_float(outcomes.mean(axis=1))
