"""Curves against ε."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from labeldp.plots.axes import CURVES, new_axes, plain_log_ticks, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_INSIDE = 5
"""With more lines than this the legend stands beside the plot: inside it would hide some."""


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
    """Draw one line a name against ε.

    Parameters
    ----------
    x : sequence of float
        The values of ε.
    lines : mapping of str to sequence of float
        The figures of each name.
    published : mapping of str to sequence of float, optional
        Figures to show beside a line, as hollow markers in its colour.
    colours : mapping of str to str, optional
        The colour of a name, where it has its own.
    dashed : collection of str
        Names whose line is dashed.
    ylabel, title : str
        Texts.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
    """
    axes = ax if ax is not None else new_axes()
    for number, (name, values) in enumerate(lines.items()):
        colour = (colours or {}).get(name, CURVES[number % len(CURVES)])
        style = "--" if name in dashed else "-"
        axes.plot(x, values, color=colour, ls=style, lw=1.8, marker="o", ms=3.5, label=name)
        if published and name in published:
            axes.plot(
                x, published[name], ls="none", marker="o", ms=8, mfc="none", mec=colour, label=f"{name}, published"
            )
    axes.set(xlabel="ε", ylabel=ylabel, yscale="log", title=title)
    plain_log_ticks(axes)
    tidy(axes)
    beside = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if len(lines) > MOST_INSIDE else {}
    axes.legend(frameon=False, fontsize=8, handlelength=3.2, **beside)  # long enough to tell dashed from solid
    return axes
