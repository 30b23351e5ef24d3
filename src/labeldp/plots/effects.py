"""What each column does to a prediction: curves for numbers, points for categories, with their uncertainty. Plain numbers in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from labeldp.arrays import Floats
from labeldp.plots.axes import FLOOR, INK, NORMAL, PRIOR, QUIET, SMALL, WIDTH, new_figure, tidy
from labeldp.plots.pictures import CURVES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR = CURVES[1]
MOST_CATEGORIES = 8
"""The most categories of a column that are shown, the most frequent ones."""
LONGEST = 9
"""Longer names of categories are cut off."""
FLOOR_SHARE = 0.22
"""The part of a panel's height, at its foot, that shows where the records are."""
SKEWED = 20.0
"""Positive numbers whose largest is this multiple of their median are shown on a logarithmic axis."""
LEAST_SCALE = 0.06
"""No panel is magnified so much that its height is less than this part of the largest one's: small effects look small then."""
KEPT_WORDS = ("others", "missing")
"""Cells that are always shown: rare categories together, and records without a value."""


class Shape(Protocol):
    """The effect of one column: `labeldp.learn.sums.sums_model.Effect` is one."""

    @property
    def name(self) -> str:
        """The column."""

    @property
    def values(self) -> Floats:
        """How much a record in each cell is above the average."""

    @property
    def errors(self) -> Floats:
        """The standard deviation of each of them."""

    @property
    def weights(self) -> Floats:
        """The share of the records in each cell."""

    @property
    def cells(self) -> tuple[str, ...]:
        """What each cell holds, in words."""

    @property
    def positions(self) -> Floats | None:
        """Where the cells of numbers lie; None for categories. A further cell, if there is one, holds missing numbers."""


def effects(shapes: Sequence[Shape], *, note: str = "") -> Figure:
    """Draw one panel for each column, each on its own scale, with how much the column moves predictions.

    Parameters
    ----------
    shapes : sequence of Shape
        The effects, at least one.
    note : str
        What the picture leaves out, below the legend.

    Returns
    -------
    matplotlib figure
    """
    columns = min(2, len(shapes))
    rows = math.ceil(len(shapes) / columns)
    figure = new_figure(WIDTH, 0.9 + 1.85 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[len(shapes) :]:
        axes.remove()
    least = LEAST_SCALE * max(high - low for low, high in map(_reach, shapes))
    for axes, shape in zip(grid, shapes, strict=False):
        if shape.positions is None:
            _points(axes, shape)
        else:
            _curve(axes, shape)
        _dress(axes, shape, least)
    figure.supylabel("effect on the prediction", color=INK, fontsize=NORMAL)
    _legend(figure, note)
    return figure


def _curve(axes: Axes, shape: Shape) -> None:
    """Draw a line through the cells of numbers, and a point for missing ones."""
    positions = np.asarray(shape.positions, np.float64)
    values, errors = shape.values[: positions.size], shape.errors[: positions.size]
    axes.fill_between(positions, values - 2 * errors, values + 2 * errors, color=COLOUR, alpha=0.22, lw=0)
    few = positions.size <= MOST_CATEGORIES
    axes.plot(positions, values, color=COLOUR, lw=2.2, marker="o" if few else "", ms=4, label="effect")
    logarithmic = positions[0] > 0 and positions[-1] > SKEWED * positions[positions.size // 2]
    scale = np.log(positions) if logarithmic else positions
    middles = (scale[1:] + scale[:-1]) / 2
    reach = np.diff(scale[[0, -1]])[0] or 1.0
    edges = np.concatenate([[scale[0] - 0.02 * reach], middles, [scale[-1] + 0.02 * reach]])
    densities = shape.weights[: positions.size] / np.maximum(np.diff(edges), 1e-3 * reach)
    top = float(np.quantile(densities, 0.9)) * 1.2
    heights = 0.9 * FLOOR_SHARE * np.minimum(densities / top, 1)
    _records(axes, heights, np.exp(edges) if logarithmic else edges)
    if logarithmic:
        axes.set_xscale("log")
    _numbers(axes, logarithmic)
    _corner(axes, f"moves ±{_size(shape):.2g}", left=values[0] <= values[-1])
    if len(shape.values) > positions.size and shape.weights[-1] > 0:
        beyond = scale[-1] + 0.16 * reach
        where = math.exp(beyond) if logarithmic else beyond
        _bars(axes, [where], shape.values[-1:], shape.errors[-1:], "missing")
        text: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": SMALL, "color": QUIET}
        axes.annotate("missing", (where, 0.02), xycoords=("data", "axes fraction"), rotation=90, **text)


def _points(axes: Axes, shape: Shape) -> None:
    """Draw a point for each of the most frequent categories, in the order of their effects."""
    order = [cell for cell in np.argsort(-shape.weights, kind="stable") if shape.weights[cell] > 0]
    kept = [cell for cell in order if shape.cells[cell] in KEPT_WORDS]
    named = [cell for cell in order if shape.cells[cell] not in KEPT_WORDS]
    chosen = np.array(named[:MOST_CATEGORIES] + kept)
    chosen = chosen[np.argsort(shape.values[chosen], kind="stable")]
    places = np.arange(chosen.size)
    heights = FLOOR_SHARE * 0.9 * shape.weights[chosen] / shape.weights[chosen].max()
    _records(axes, np.insert(heights, np.arange(1, heights.size), 0), np.add.outer(places, [-0.31, 0.31]).ravel())
    _bars(axes, places, shape.values[chosen], shape.errors[chosen], "effect")
    words = [_cut_off(shape.cells[cell]) for cell in chosen]
    slanted = sum(map(len, words)) > 22 or chosen.size > 6
    axes.set_xticks(places, words, rotation=40 if slanted else 0, ha="right" if slanted else "center")
    for text in axes.get_xticklabels():
        text.set_rotation_mode("anchor")
    axes.set_xlim(-0.7, chosen.size - 0.3)
    left_out = f", {MOST_CATEGORIES} of {len(named)}" if len(named) > MOST_CATEGORIES else ""
    _corner(axes, f"moves ±{_size(shape):.2g}{left_out}", left=True)


def _records(axes: Axes, heights: Floats, edges: Floats) -> None:
    """Draw the distribution of the records, at the foot of a panel."""
    axes.stairs(heights, edges, transform=axes.get_xaxis_transform(), fill=True, color=PRIOR, lw=0, zorder=0.8)


def _bars(axes: Axes, places: Any, values: Floats, errors: Floats, label: str) -> None:
    axes.errorbar(
        places, values, yerr=2 * errors, fmt="o", color=COLOUR, ms=5, elinewidth=3.5, capsize=0, alpha=1, label=label
    )
    for bars in axes.containers[-1][2]:
        bars.set_alpha(0.35)


def _numbers(axes: Axes, logarithmic: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axes.xaxis.set_major_locator(LogLocator(numticks=4) if logarithmic else MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


def _short(value: float) -> str:
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, "k")):
        if abs(value) >= 10 * size or (size > 1e3 and abs(value) >= size):
            return f"{value / size:g}{letter}"
    return f"{value:,g}"


def _corner(axes: Axes, text: str, *, left: bool) -> None:
    """Write into the upper corner that the effects leave free."""
    place, side = (0.02, "left") if left else (0.98, "right")
    axes.annotate(
        text, (place, 0.99), xycoords="axes fraction", va="top", ha=side, fontsize=SMALL, color=QUIET, zorder=3
    )


def _dress(axes: Axes, shape: Shape, least: float) -> None:
    """Apply the common style, with room for the records at the foot and without numbers there."""
    from matplotlib.ticker import MaxNLocator

    tidy(axes)
    axes.tick_params(labelsize=SMALL)
    axes.grid(visible=False, axis="x")
    axes.axhline(0, color=FLOOR, lw=1.2, zorder=1)
    axes.set_title(shape.name, color=INK, fontsize=NORMAL, pad=4.0)
    low, high = _reach(shape)
    more = max(0.0, least - (high - low)) / 2
    low, high = low - more, high + more
    ticks = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high)
    axes.set_yticks([tick for tick in ticks if low <= tick <= high])
    span = high - low
    axes.set_ylim(low - span * (FLOOR_SHARE / (1 - FLOOR_SHARE) + 0.03), high + 0.12 * span)


def _reach(shape: Shape) -> tuple[float, float]:
    """Return the lowest and the highest effect with their usual uncertainty."""
    values, errors = (part[shape.weights > 0] for part in (shape.values, shape.errors))
    usual = 2 * float(np.quantile(errors, 0.75))
    low, high = min(0.0, float(values.min()) - usual), max(0.0, float(values.max()) + usual)
    return (low, high) if high > low else (-1.0, 1.0)


def _size(shape: Shape) -> float:
    """Return how much the column moves predictions: the standard deviation of its effect over the records."""
    return math.sqrt(float(shape.weights @ np.square(shape.values)))


def _legend(figure: Figure, note: str) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], color=COLOUR, lw=2.2, marker="o", ms=5, label="effect"),
        Patch(color=COLOUR, alpha=0.3, lw=0, label="± 2 standard deviations"),
        Patch(color=PRIOR, lw=0, label="records"),
    ]
    look: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "labelcolor": INK, "columnspacing": 1.2}
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=3, **look)
    words = "moves ±…: the standard deviation of the effect over the records"
    legend.set_title("\n".join(filter(None, [words, note])))
    legend.get_title().set(color=QUIET, fontsize=SMALL, ha="center", multialignment="center")


def _cut_off(word: str) -> str:
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"
