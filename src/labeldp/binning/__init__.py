"""Optimal bins: the optimiser, and beside it the paper's algorithm, the linear program and signature matrices."""

from __future__ import annotations

from labeldp.binning.bins import Bins
from labeldp.binning.linear_program import BestMatrix, best_matrix
from labeldp.binning.optimal import optimal_bins
from labeldp.binning.reference import ReferenceBins, algorithm_2
from labeldp.binning.signature import Signature, signature

__all__ = [
    "BestMatrix",
    "Bins",
    "ReferenceBins",
    "Signature",
    "algorithm_2",
    "best_matrix",
    "optimal_bins",
    "signature",
]
