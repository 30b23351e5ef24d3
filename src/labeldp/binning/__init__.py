"""Optimal bins for a loss, found exactly in O(k log k).

May import `sampling`, `priors` and below. It knows nothing of mechanisms.
"""

from labeldp.binning.bins import Bins
from labeldp.binning.optimal import optimal_bins

__all__ = ["Bins", "optimal_bins"]
