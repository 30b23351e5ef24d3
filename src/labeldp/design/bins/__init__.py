"""Optimal bins for a loss, found exactly in O(k log k)."""

from labeldp.design.bins.optimal import Bins, optimal_bins

__all__ = ["Bins", "optimal_bins"]
