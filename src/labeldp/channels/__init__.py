"""Randomizers designed by convex programs: what to give up of bias, of variance, and how to release the answer exactly."""

from __future__ import annotations

from labeldp.channels.anchors import Anchors
from labeldp.channels.direct import direct_unbiased
from labeldp.channels.integers import ExactRelease, release_exactly
from labeldp.channels.program import Columns, least_penalty, least_variance
from labeldp.channels.visibility import visible_factor, visible_part

__all__ = [
    "Anchors",
    "Columns",
    "ExactRelease",
    "direct_unbiased",
    "least_penalty",
    "least_variance",
    "release_exactly",
    "visible_factor",
    "visible_part",
]
