"""Squared loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from labeldp.losses.base import FloatArray, Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.structure import SquaredDistance


@loss("squared", help="(ŷ − y)²: the mean", seeks_mean=True, rank=0)
@dataclass(frozen=True)
class Squared(Loss):
    """(ŷ − y)², without the factor ½. Labels and outputs: all real numbers."""

    @property
    def name(self) -> str:
        return "squared"

    @property
    def structure(self) -> SquaredDistance:
        return SquaredDistance()

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        difference = as_float(output) - as_float(label)
        return as_float(difference * difference)

    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> FloatArray:
        low = as_float(low_output)
        return as_float(low + (as_float(high_output) - low) / 2)
