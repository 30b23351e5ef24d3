"""Losses: the cost of an output when the true value is a label. `get_loss` makes one from a name or a function."""

from labeldp.losses.loss import LOSSES, Custom, Interval, Loss, LossLike, get_loss, loss_examples, seeks_mean
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
