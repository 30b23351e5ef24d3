"""The look that all plots share: axes, colours, ticks, legend, files.

Figures are 5.2 inches wide with text of 9 to 11 points, so that a picture shrunk to 400 pixels can still be read. The legend
stands below the axes, where no line runs through it. An SVG file has a light and a dark version of everything but the
colours of the mechanisms, which are legible on both.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.plots.words import root_figure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, FLOOR, GRID, PAPER = "#1b1f24", "#6b7280", "#c5cbd3", "#e5e7eb", "#ffffff"
PRIOR = "#9db4c8"
DARK = {INK: "#e6e9ed", QUIET: "#a8b0ba", FLOOR: "#4a525c", GRID: "#343b44", PAPER: "#15191e", PRIOR: "#4d6377"}
"""What the colours of text, grid and background become where the reader prefers dark pages."""

WIDTH = 5.2
"""Inches."""
SMALL, NORMAL, LARGE = 9.0, 10.0, 11.0
"""Sizes of text in points: legends and figures at marks, axes, titles."""
MARKERS = "osD^vPX*<>ph8"
"""A marker for each line of a plot, so that colour is not all that tells them apart."""


def new_axes(width: float = WIDTH, height: float = 3.4) -> Axes:
    """Return one set of axes on its own figure, outside of pyplot's list of figures. A notebook shows it.

    Parameters
    ----------
    width, height : float
        In inches.

    Returns
    -------
    matplotlib axes
    """
    from labeldp.plots.in_notebooks import ShownAxes

    return new_figure(width, height).subplots(subplot_kw={"axes_class": ShownAxes})


def new_figure(width: float = WIDTH, height: float = 3.4) -> Figure:
    """Return an empty figure outside of pyplot's list of figures. A notebook shows it.

    Parameters
    ----------
    width, height : float
        In inches.

    Returns
    -------
    matplotlib figure
    """
    from labeldp.plots.in_notebooks import ShownFigure

    return ShownFigure(figsize=(width, height), layout="constrained", dpi=160, facecolor=PAPER)


def save(drawn: Axes | Figure, path: Path, *, alt: str = "") -> None:
    """Write a figure to a file. The same input gives the same bytes, with matplotlib 3.11 or newer.

    Parameters
    ----------
    drawn : matplotlib axes or figure
        The figure, or any axes on it.
    path : Path
        Ends in .png or .svg.
    alt : str
        What the picture shows, for people who do not see it; written into the file.
    """
    path.write_bytes(image(drawn, path.suffix.lower().lstrip("."), alt=alt))


def image(drawn: Axes | Figure, kind: str, *, alt: str = "") -> bytes:
    """Return the content of a "png" or "svg" file with the figure."""
    if kind == "svg":
        return ('<?xml version="1.0" encoding="utf-8"?>\n' + svg(drawn, alt=alt)).encode()
    buffer = io.BytesIO()
    root_figure(drawn).savefig(buffer, format=kind, metadata={"Description": alt} if alt else None)
    return buffer.getvalue()


def svg(drawn: Axes | Figure, *, alt: str = "") -> str:
    """Return the figure as an SVG element. Text stays text, and where the reader prefers dark pages it is dark.

    Parameters
    ----------
    drawn : matplotlib axes or figure
        The figure, or any axes on it.
    alt : str
        What the picture shows, for people who do not see it.

    Returns
    -------
    str
        The same for the same figure, with matplotlib 3.11 or newer.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "labeldp", "font.family": "sans-serif"}):
        root_figure(drawn).savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    start = text.index("<svg")
    end = text.index(">", start)
    words = f' role="img" aria-label="{escape(alt)}"' if alt else ""
    return f"{text[start:end]}{words}>\n <style>{_dark_rules()}</style>{text[end + 1 :]}"


def heading(axes: Axes, text: str, *, pad: float = 6.0) -> None:
    """Put a title above the axes.

    Parameters
    ----------
    axes : matplotlib axes
        The axes.
    text : str
        The title.
    pad : float
        Its distance from the axes, in points.
    """
    axes.set_title(text, color=INK, fontsize=LARGE, pad=pad)


def plain_log_ticks(axes: Axes) -> None:
    """Put a few plain numbers on a logarithmic y axis.

    Parameters
    ----------
    axes : matplotlib axes
        The axes.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axes.get_ylim()
    steps = {8: (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), 80: (1.0, 2.0, 5.0), 1000: (1.0, 3.0)}
    between = next((subs for most, subs in steps.items() if high <= most * low), (1.0,))
    narrow = high <= 2.5 * low  # hardly a curve: evenly spaced numbers
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]) if narrow else LogLocator(subs=between))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.6g}" if value < 1e6 else f"{value / 1e6:,.6g} M")
    )
    axes.yaxis.set_minor_locator(NullLocator())


def epsilon_axis(axes: Axes, budgets: Iterable[float]) -> None:
    """Make the x axis one of ε: logarithmic, with ticks at the budgets that leave room for their numbers.

    Parameters
    ----------
    axes : matplotlib axes
        The axes.
    budgets : iterable of float
        The values of ε that have figures.
    """
    from matplotlib.ticker import NullLocator

    known = sorted(set(budgets))
    room = 0.12 * math.log(known[-1] / known[0]) if known else 0.0
    shown: list[float] = []
    for epsilon in known:
        if not shown or math.log(epsilon / shown[-1]) >= room:
            shown.append(epsilon)
    axes.set(xlabel="ε (privacy budget, log scale)", xscale="log")
    axes.set_xticks(shown, [f"{epsilon:.3g}" for epsilon in shown])
    axes.xaxis.set_minor_locator(NullLocator())


def tidy(axes: Axes, *, legend: bool = False) -> Axes:
    """Give axes the look that all our plots share.

    Parameters
    ----------
    axes : matplotlib axes
        The axes.
    legend : bool
        Whether to show one, below the axes.

    Returns
    -------
    matplotlib axes
        The same axes.
    """
    axes.set_facecolor(PAPER)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.tick_params(labelsize=NORMAL, labelcolor=INK, color=QUIET)
    axes.grid(visible=True, color=GRID, lw=0.7)
    axes.set_axisbelow(True)
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set(color=INK, fontsize=NORMAL)
    if legend:
        legend_below(axes)
    return axes


def legend_below(
    axes: Axes, handles: Iterable[Artist] | None = None, *, others: Iterable[Axes] = (), columns: int = 2
) -> None:
    """Put the legend below the axes and their label, where no line can run through it.

    Parameters
    ----------
    axes : matplotlib axes
        Where it goes.
    handles : iterable of matplotlib artists, optional
        What it names; by default all that has a label on these axes and the others.
    others : iterable of matplotlib axes
        More axes of the same figure, for one legend below the last of them.
    columns : int
        How many columns it has.
    """
    from matplotlib.transforms import offset_copy

    figure = root_figure(axes)
    if handles is None:
        named: dict[str, Artist] = {}
        for each in (*others, axes):
            named |= {label: handle for handle, label in zip(*each.get_legend_handles_labels(), strict=True)}
    else:
        named = {str(handle.get_label()): handle for handle in handles}
    if not named:
        return
    axes.legend(
        list(named.values()),
        list(named),
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=offset_copy(axes.transAxes, figure, y=-36 if axes.get_xlabel() else -20, units="points"),
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        handlelength=3.0,  # long enough to tell dashed from solid
        columnspacing=1.2,
    )


def _dark_rules() -> str:
    """Return rules that replace the colours of `DARK` in an SVG of matplotlib, which writes them into style attributes."""
    rules = (
        f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme: dark) {{{' '.join(rules)}}}"
