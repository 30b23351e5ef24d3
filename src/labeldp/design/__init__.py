"""What a mechanism should do with each label: optimal bins for a loss (`bins`), optimal channels for a model (`channels`).

Both are pure mathematics on public numbers.
"""

from labeldp.design.bins import Bins, optimal_bins

__all__ = ["Bins", "optimal_bins"]
