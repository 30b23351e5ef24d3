"""Huber loss."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.domain import LARGEST
from labeldp.errors import InvalidInput, described
from labeldp.losses.base import DistanceLoss, as_float
from labeldp.losses.catalogue import loss
from labeldp.losses.structure import HuberDistance


@loss("huber", example="huber(1.5)", help="squared up to a distance, then absolute", rank=6)
@dataclass(frozen=True)
class Huber(DistanceLoss):
    """Huber loss: `½·(ŷ − y)²` while `|ŷ − y| ≤ δ`, and `δ·(|ŷ − y| − δ/2)` beyond, for all real labels and outputs.

    Parameters
    ----------
    delta : float
        The distance δ > 0 from which on the loss is linear.

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

    def __call__(self, output: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
        distance = np.abs(as_float(output) - as_float(label))
        near = np.minimum(distance, self.delta)
        return as_float(near * near / 2 + self.delta * (distance - near))
