"""Optimal bins: the optimiser, and beside it the paper's algorithm, the linear program and signature matrices."""

from __future__ import annotations

from labeldp.binning.bins import Bins
from labeldp.binning.optimal import optimal_bins

__all__ = ["Bins", "optimal_bins"]
