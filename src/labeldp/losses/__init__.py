"""Losses: what an output costs when the truth is a label, one loss a file. `get_loss` makes one from a name or a function.

May import the base only (`arrays`, `errors`, `catalogue`). Every room above may import it.
"""

from labeldp.losses.base import Loss, LossLike
from labeldp.losses.by_name import get_loss, loss_examples, seeks_mean
from labeldp.losses.catalogue import LOSSES
from labeldp.losses.custom import Custom
from labeldp.losses.gamma import Gamma
from labeldp.losses.huber import Huber
from labeldp.losses.interval import Interval
from labeldp.losses.pinball import Absolute, Pinball
from labeldp.losses.poisson import Poisson
from labeldp.losses.squared import Squared
from labeldp.losses.squared_log import SquaredLog

__all__ = [
    "LOSSES",
    "Absolute",
    "Custom",
    "Gamma",
    "Huber",
    "Interval",
    "Loss",
    "LossLike",
    "Pinball",
    "Poisson",
    "Squared",
    "SquaredLog",
    "get_loss",
    "loss_examples",
    "seeks_mean",
]
