"""Pictures from plain numbers: bins over a prior, joint densities, curves against ε, and the look they share.

May import `arrays` only. Mechanisms and priors draw themselves with it (`mechanism.plot()`).
"""

from labeldp.plots.axes import CURVES, QUIET, new_axes, plain_log_ticks, save, tidy
from labeldp.plots.densities import bins, joint
from labeldp.plots.lines import curves

__all__ = ["CURVES", "QUIET", "bins", "curves", "joint", "new_axes", "plain_log_ticks", "save", "tidy"]
