"""Optimal bins for a loss: the exact optimiser in O(k log k).

May import `sampling`, `priors` and below. Knows nothing of mechanisms.
"""

from __future__ import annotations

from labeldp.binning.bins import Bins
from labeldp.binning.optimal import optimal_bins

__all__ = ["Bins", "optimal_bins"]
