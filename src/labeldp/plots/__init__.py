"""Pictures from plain numbers: bins over a prior, joint densities, curves against ε, errors in parts, effects of columns, and their
common look.

Mechanisms and priors draw themselves with it (`mechanism.plot()`).
"""

from labeldp.plots.axes import (
    QUIET,
    epsilon_axis,
    heading,
    legend_below,
    new_axes,
    new_figure,
    plain_log_ticks,
    save,
    svg,
    tidy,
)
from labeldp.plots.pictures import (
    CURVES,
    bins,
    curves,
    effects,
    error_parts,
    hollow,
    intervals,
    joint,
    marker,
    mean_values,
)
from labeldp.plots.words import in_words

__all__ = [
    "CURVES",
    "QUIET",
    "bins",
    "curves",
    "effects",
    "epsilon_axis",
    "error_parts",
    "heading",
    "hollow",
    "in_words",
    "intervals",
    "joint",
    "legend_below",
    "marker",
    "mean_values",
    "new_axes",
    "new_figure",
    "plain_log_ticks",
    "save",
    "svg",
    "tidy",
]
