"""Losses: what an output costs when the truth is a label. `get_loss` makes one from a name or a function."""

from labeldp.losses.custom import Custom
from labeldp.losses.lookup import get_loss, loss_examples, seeks_mean
from labeldp.losses.loss import LOSSES, Interval, Loss, LossLike
from labeldp.losses.standard import Absolute, Gamma, Huber, Pinball, Poisson, Squared, SquaredLog

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
