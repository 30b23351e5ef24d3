"""What an error is made of, a bar for each way to train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labeldp.plots.axes import FLOOR, INK, QUIET, SMALL, WIDTH, heading, legend_below, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HATCH = "/////"


def error_parts(
    names: Sequence[str],
    floor: Sequence[float],
    bias: Sequence[float],
    noise: Sequence[float],
    *,
    colours: Mapping[str, str] | None = None,
    xlabel: str = "test error (mean squared)",
    title: str = "",
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw one bar a name: the error that nobody can avoid, the bias that a model keeps, the noise that it fits.

    Parameters
    ----------
    names : sequence of str
        What each bar stands for, from top to bottom.
    floor, bias, noise : sequence of float
        The three parts of each bar.
    colours : mapping of str to str, optional
        The colour of a name: full for its bias, hatched for its noise. The floor is grey.
    xlabel, title : str
        Texts.
    legend : bool
        Whether to say below which part is which.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
    """
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes = ax if ax is not None else new_axes(WIDTH, 1.35 + 0.34 * len(names) + (0.35 if legend else 0.0))
    places = range(len(names))[::-1]
    for place, name, low, kept, fitted in zip(places, names, floor, bias, noise, strict=True):
        colour = (colours or {}).get(name, QUIET)
        axes.barh(place, low, height=0.66, color=FLOOR, label="floor")
        axes.barh(place, kept, left=low, height=0.66, color=colour, label="bias")
        hatched: dict[str, Any] = {"fc": "none", "ec": colour, "hatch": HATCH, "lw": 0.8}
        axes.barh(place, fitted, left=low + kept, height=0.66, **hatched, label="noise")
        total = low + kept + fitted
        axes.annotate(
            f"{total:,.4g}" if total < 1000 else f"{total:,.0f}",
            (total, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=INK,
        )
    axes.set_yticks(places, names)
    most = max(sum(parts) for parts in zip(floor, bias, noise, strict=True))
    axes.set(xlabel=xlabel, xlim=(0, 1.16 * most))
    heading(axes, title)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    tidy(axes)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    if legend:
        swatches = [
            Patch(color=FLOOR, label="floor: what features cannot tell"),
            Patch(color=QUIET, label="bias: the model keeps it, however many records"),
            Patch(fc="none", ec=QUIET, hatch=HATCH, lw=0.8, label="noise: the model averages it over records"),
        ]
        legend_below(axes, swatches, columns=1)
    return axes
