"""Squared loss."""

from dataclasses import dataclass

import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.losses.base import DistanceLoss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.structure import SquaredDistance


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
