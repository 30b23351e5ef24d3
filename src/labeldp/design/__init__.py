"""The design of mechanisms: optimal bins for a loss (`bins`), optimal channels for a model (`channels`).

Both only use public numbers.
"""

from labeldp.design.bins import Bins, optimal_bins

__all__ = ["Bins", "optimal_bins"]
