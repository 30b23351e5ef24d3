"""What every loss offers: a value, the labels and outputs it accepts, and the threshold between two outputs."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.losses.interval import REALS, Interval
from labeldp.losses.structure import Structure

_MOST_BISECTIONS = 1100  # enough for any two doubles
_TRIED = 25
_REFINEMENTS = 16  # to less than a thousandth of the distance between two that were tried
_GOLDEN = 0.6180339887498949


class Loss(ABC):
    """A loss ℓ(output, label) ≥ 0 that does not fall as output and label move apart (the paper's Assumption 1).

    Subclasses are frozen dataclasses, so equal losses compare and hash equal. A new loss needs a `name` and `__call__`. A
    `structure` makes optimal bins exact and fast, and a closed form of `threshold` saves its bisection.

    Attributes
    ----------
    name : str
        The text from which `get_loss` makes this loss again (except for callables).
    structure : object or None
        How to minimise the loss over an interval of outputs exactly. None means that it is minimised over a finite set of
        candidate outputs.
    valid_labels, valid_outputs : Interval
        The labels and outputs for which the loss is defined.

    Examples
    --------
    >>> from labeldp import get_loss
    >>> loss = get_loss("squared")
    >>> loss([1, 2], 4).tolist()
    [9.0, 4.0]
    >>> float(loss.threshold(0, 10))
    5.0
    """

    valid_labels: ClassVar[Interval] = REALS
    valid_outputs: ClassVar[Interval] = REALS

    @property
    @abstractmethod
    def name(self) -> str:
        """The text from which `get_loss` makes this loss again (except for callables)."""

    @property
    def structure(self) -> Structure | None:
        """How to minimise the loss over an interval of outputs exactly, or None."""
        return None

    @abstractmethod
    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        """The loss of `output` when the truth is `label`, broadcast, in float64."""

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> Floats:
        """The label between two outputs at which both lose the same.

        Found by bisection: under Assumption 1, the larger the label, the more the lower output loses against the higher.

        Parameters
        ----------
        low_output, high_output : array-like of float
            Outputs with `low_output <= high_output`, broadcast against each other.

        Returns
        -------
        array of float64
            Labels at or below it lose least at `low_output`, labels above it at `high_output`.
        """
        low, high = np.broadcast_arrays(as_float(low_output), as_float(high_output))
        left, right = low.copy(), high.copy()
        for _ in range(_MOST_BISECTIONS):
            middle = left + (right - left) / 2
            if np.all((middle <= left) | (middle >= right)):
                break
            low_wins = self(low, middle) <= self(high, middle)
            left, right = np.where(low_wins, middle, left), np.where(low_wins, right, middle)
        return as_float(left)

    def stretched(self, labels: Floats, mean: float) -> Floats | None:  # noqa: ARG002
        """Labels on the scale where a model's errors matter alike to this loss: what `auto` designs a mechanism for.

        Parameters
        ----------
        labels : array of float64
            Labels in increasing order.
        mean : float
            The mean of the labels' distribution.

        Returns
        -------
        array of float64 or None
            An increasing function of the labels. None, the default, stands for their normal scores.
        """
        return None

    def best_answers(self, outcomes: Floats) -> Floats:
        """The answer of least expected loss for each row of equally likely outcomes.

        Found by trying outcomes as answers and refining the best one: the expected loss need not be convex.

        Parameters
        ----------
        outcomes : array of float64
            One row per question, each in increasing order.

        Returns
        -------
        array of float64
            One answer per row.
        """
        tried = outcomes[:, np.linspace(0, outcomes.shape[1] - 1, min(_TRIED, outcomes.shape[1])).round().astype(int)]
        risks = np.stack([self(tried[:, [j]], outcomes).mean(axis=1) for j in range(tried.shape[1])], axis=1)
        best = np.argmin(risks, axis=1)[:, None]
        low, high = (np.take_along_axis(tried, np.clip(best + step, 0, tried.shape[1] - 1), axis=1) for step in (-1, 1))
        for _ in range(_REFINEMENTS):  # golden section
            left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            lower_wins = self(left, outcomes).mean(axis=1) <= self(right, outcomes).mean(axis=1)
            low, high = np.where(lower_wins[:, None], low, left), np.where(lower_wins[:, None], right, high)
        return as_float((low + high)[:, 0] / 2)

    def check_assumption(self, values: npt.ArrayLike) -> None:  # noqa: B027 - proven for the named losses
        """Raise `InvalidInput` if the loss breaks Assumption 1 on the range of `values`.

        Parameters
        ----------
        values : array-like of float
            Labels in increasing order.
        """

    def __str__(self) -> str:
        return self.name


class DistanceLoss(Loss):
    """A loss of the distance |output − label| alone: the threshold is the midpoint."""

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> Floats:
        """The midpoint of two outputs.

        Parameters
        ----------
        low_output, high_output : array-like of float
            Outputs with `low_output <= high_output`, broadcast against each other.

        Returns
        -------
        array of float64
            Labels at or below it lose least at `low_output`, labels above it at `high_output`.
        """
        low = as_float(low_output)
        return as_float(low + (as_float(high_output) - low) / 2)


def as_float(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


LossLike = str | Loss | Callable[[Floats, Floats], Floats]
"""A loss wherever one is taken: its name, a `Loss`, or a callable (output, label)."""
