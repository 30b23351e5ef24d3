"""The design of mechanisms from public numbers: optimal bins for a loss, and optimal channels for a model.

Bins (`bins`) are found exactly in O(k log k). Channels, which are matrices of probabilities (`cone_program`), are found by
convex programs for a few labels (`anchors`) and for what features are likely to show (`visibility`).
"""

from labeldp.design.bins import Bins, optimal_bins

__all__ = ["Bins", "optimal_bins"]
