"""Absolute and pinball (quantile) loss."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput, described
from labeldp.losses.base import DistanceLoss, Loss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.structure import PinballDistance


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
