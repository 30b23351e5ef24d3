"""What a plot shows in words, for people who do not see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


def in_words(drawn: Axes | Figure) -> str:
    """Return what a plot shows, for people who do not see it: lines from their first point to their last, bars in their parts.

    Parameters
    ----------
    drawn : matplotlib axes or figure
        The plot.

    Returns
    -------
    str
        A sentence for each set of axes.
    """
    return " ".join(_axes_in_words(axes) for axes in root_figure(drawn).axes)


def _axes_in_words(axes: Axes) -> str:
    from matplotlib.container import BarContainer, ErrorbarContainer

    title = axes.get_title()
    bars = [held for held in axes.containers if isinstance(held, BarContainer)]
    if bars:
        parts: dict[str, list[str]] = {}
        names = {place: text.get_text() for place, text in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)}
        for bar in bars:
            (patch,) = bar.patches
            name = names[round(patch.get_y() + patch.get_height() / 2)]
            parts.setdefault(name, []).append(f"{bar.get_label()} {patch.get_width():,.4g}")
        lines = [f"{name}: {', '.join(of_name)}" for name, of_name in parts.items()]
        what = ", ".join(filter(None, [title, axes.get_xlabel()]))
        return f"Bars, {what}. {'; '.join(lines)}."
    named = [(str(line.get_label()), line) for line in axes.lines]
    named += [(str(held.get_label()), held.lines[0]) for held in axes.containers if isinstance(held, ErrorbarContainer)]
    places = _named_places(axes)
    lines = [_line_in_words(name, line, places) for name, line in named if not name.startswith("_")]
    scales = " against ".join(filter(None, [axes.get_ylabel(), axes.get_xlabel()]))
    return f"{', '.join(filter(None, [title, scales]))}: {'; '.join(lines)}."


def _named_places(axes: Axes) -> dict[float, str]:
    """Return the names along the x axis, where it has names instead of a scale."""
    from matplotlib.ticker import FixedLocator

    if not isinstance(axes.xaxis.get_major_locator(), FixedLocator):
        return {}
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return {float(place): text.get_text() for place, text in ticks if text.get_text()}


def _line_in_words(name: str, line: Line2D, places: dict[float, str]) -> str:
    x, y = (np.asarray(values, dtype=float) for values in line.get_data())
    known = np.flatnonzero(np.isfinite(y))
    if known.size == 0:
        return f"{name} without figures"
    first, last = (
        (f"{y[place]:,.5g}", places.get(float(x[place]), f"{x[place]:g}")) for place in (known[0], known[-1])
    )
    if y[known[0]] == y[known[-1]]:
        return f"{name} {first[0]}"
    return f"{name} from {first[0]} at {first[1]} to {last[0]} at {last[1]}"


def root_figure(drawn: Axes | Figure) -> Figure:
    from matplotlib.figure import Figure

    figure = drawn if isinstance(drawn, Figure) else drawn.get_figure(root=True)
    assert figure is not None
    return figure
