"""Channels (matrices of probabilities) that are optimal for training a model, found by convex programs."""

from labeldp.design.channels.anchors import Anchors, integer_channel
from labeldp.design.channels.cone_program import (
    Channel,
    bias_variance_channel,
    unbiased_channel,
    unbiased_channel_on_outputs,
)
from labeldp.design.channels.visibility import best_values, visible_bias_factor, visible_bias_matrix

__all__ = [
    "Anchors",
    "Channel",
    "best_values",
    "bias_variance_channel",
    "integer_channel",
    "unbiased_channel",
    "unbiased_channel_on_outputs",
    "visible_bias_factor",
    "visible_bias_matrix",
]
