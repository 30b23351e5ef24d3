"""Curves against ε."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labeldp.plots.axes import MARKERS, WIDTH, epsilon_axis, heading, new_axes, plain_log_ticks, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = ("#ce4a13", "#1689d1", "#b162af", "#41794b", "#bd9062", "#0e6479", "#e97498", "#4d56cb")
"""For lines that have no colour of their own."""
SOLID: dict[str, Any] = {"ls": "-", "lw": 2.4, "ms": 5}
DASHED: dict[str, Any] = {"ls": "--", "lw": 1.5, "ms": 7, "mfc": "none"}


def curves(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    *,
    published: Mapping[str, Sequence[float]] | None = None,
    colours: Mapping[str, str] | None = None,
    dashed: Collection[str] = (),
    ylabel: str = "expected squared loss",
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw one line a name against ε, each with a marker of its own, and the legend below.

    Parameters
    ----------
    x : sequence of float
        The values of ε.
    lines : mapping of str to sequence of float
        The figures of each name.
    published : mapping of str to sequence of float, optional
        Figures to show beside a line, as large hollow circles in its colour.
    colours : mapping of str to str, optional
        The colour of a name, where it has its own.
    dashed : collection of str
        Names whose line is dashed and thin, with hollow markers: a solid line below it shows through.
    ylabel, title : str
        Texts.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
    """
    axes = ax if ax is not None else new_axes(WIDTH, 3.2 + 0.11 * (len(lines) + len(published or {})))
    for number, (name, values) in enumerate(lines.items()):
        colour = (colours or {}).get(name, CURVES[number % len(CURVES)])
        look = DASHED if name in dashed else SOLID
        axes.plot(x, values, color=colour, marker=marker(number), label=name, **look)
        if published and name in published:
            axes.plot(x, published[name], **hollow(colour), label=f"{name}, published")
    axes.set(ylabel=ylabel, yscale="log")
    heading(axes, title)
    epsilon_axis(axes, x)
    plain_log_ticks(axes)
    return tidy(axes, legend=True)


def marker(number: int) -> str:
    """The marker of line number so and so of a plot.

    Parameters
    ----------
    number : int
        From 0.

    Returns
    -------
    str
        As matplotlib names it.
    """
    return MARKERS[number % len(MARKERS)]


def hollow(colour: str) -> dict[str, Any]:
    """How published figures are drawn: large hollow circles.

    Parameters
    ----------
    colour : str
        Of the line that they belong to.

    Returns
    -------
    dict
        Arguments for matplotlib's `plot`.
    """
    return {"ls": "none", "marker": "o", "ms": 10, "mfc": "none", "mec": colour}
