"""What every loss offers: a value, its domain, a decision threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.losses.interval import REALS, Interval
from labeldp.losses.structure import Structure

FloatArray = npt.NDArray[np.float64]


class Loss(ABC):
    """A loss ℓ(output, label) ≥ 0 that grows as output and label move apart (the paper's Assumption 1).

    Subclasses are frozen value objects; equal losses compare and hash equal.
    """

    valid_labels: ClassVar[Interval] = REALS
    valid_outputs: ClassVar[Interval] = REALS

    @property
    @abstractmethod
    def name(self) -> str:
        """The text from which `get_loss` makes this loss again (except for callables)."""

    @property
    def structure(self) -> Structure | None:
        """How to minimise over an interval exactly; `None` means only by trying candidate outputs."""
        return None

    @abstractmethod
    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> FloatArray:
        """The loss of `output` when the truth is `label`, broadcast, in float64."""

    @abstractmethod
    def threshold(self, low_output: npt.ArrayLike, high_output: npt.ArrayLike) -> FloatArray:
        """The label between two outputs at which both lose the same, broadcast."""

    def check_assumption(self, values: npt.ArrayLike) -> None:  # noqa: B027 - named losses are proven: nothing to do
        """Refuse a loss that breaks Assumption 1 on the range of `values`."""

    def __str__(self) -> str:
        return self.name


def as_float(values: npt.ArrayLike) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


LossLike = str | Loss | Callable[[FloatArray, FloatArray], FloatArray]
"""A loss wherever one is taken: its name, a `Loss`, or a callable (output, label)."""
