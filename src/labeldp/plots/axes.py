"""The look that all plots share: axes, colours, ticks, files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, PRIOR, BINS, QUIET = "#1b1f24", "#9db4c8", "#c8553d", "#6b7280"
CURVES = ("#c8553d", "#2f6f8f", "#6a994e", "#8d5a97", "#d4a017", "#444c56", "#4fb0ae", "#b56576")


def new_axes(width: float = 7.0, height: float = 4.2) -> Axes:
    """One set of axes on a figure of its own, outside of pyplot's list of figures.

    Parameters
    ----------
    width, height : float
        In inches.

    Returns
    -------
    matplotlib axes
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=120).subplots()


def save(axes: Axes, path: Path) -> None:
    """Write the figure of these axes to a file. The same input gives the same bytes, with matplotlib 3.11 or newer.

    Parameters
    ----------
    axes : matplotlib axes
        The axes.
    path : Path
        Ends in .png or .svg.
    """
    import matplotlib as mpl

    figure = axes.get_figure(root=True)
    assert figure is not None
    with mpl.rc_context({"svg.hashsalt": "labeldp"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def plain_log_ticks(axes: Axes) -> None:
    """Put plain numbers on a logarithmic y axis, several to a decade unless there are many decades.

    Parameters
    ----------
    axes : matplotlib axes
        The axes.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator

    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0) if high < 1000 * low else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def tidy(axes: Axes, *, legend: bool = False) -> Axes:
    """Give axes the look that all our plots share.

    Parameters
    ----------
    axes : matplotlib axes
        The axes.
    legend : bool
        Whether to show one.

    Returns
    -------
    matplotlib axes
        The same axes.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(visible=True, color="#e5e7eb", lw=0.6)
    axes.set_axisbelow(True)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
    return axes
