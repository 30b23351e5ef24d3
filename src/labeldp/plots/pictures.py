"""Curves against ε, bars of the parts of an error, distributions of labels with what becomes of them, and what each column does to a prediction."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from labeldp.arrays import Floats
from labeldp.plots.axes import (
    FLOOR,
    INK,
    MARKERS,
    NORMAL,
    PRIOR,
    QUIET,
    SMALL,
    WIDTH,
    epsilon_axis,
    heading,
    legend_below,
    new_axes,
    new_figure,
    plain_log_ticks,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES = ("#ce4a13", "#1689d1", "#b162af", "#41794b", "#bd9062", "#0e6479", "#e97498", "#4d56cb")
"""Default colours of lines."""
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
    """Draw one line a name against ε, each with its own marker, and the legend below.

    Parameters
    ----------
    x : sequence of float
        The values of ε.
    lines : mapping of str to sequence of float
        The figures of each name.
    published : mapping of str to sequence of float, optional
        Figures to show next to a line, as large hollow circles in its colour.
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
    """Return the marker of line number so and so of a plot.

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
    """Return how published figures are drawn: large hollow circles.

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


HATCH = "/////"


def intervals(
    names: Sequence[str],
    lower: Sequence[float],
    values: Sequence[float],
    upper: Sequence[float],
    *,
    xlabel: str = "",
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw one line a name: an estimate as a dot, and its interval as a bar.

    Parameters
    ----------
    names : sequence of str
        The names, from top to bottom.
    lower, values, upper : sequence of float
        The estimates and the ends of their intervals.
    xlabel, title : str
        Texts.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
    """
    axes = ax if ax is not None else new_axes(WIDTH, 1.2 + 0.3 * len(names))
    places = np.arange(len(names))[::-1]
    axes.hlines(places, lower, upper, colors=CURVES[1], lw=3, alpha=0.55)
    axes.plot(values, places, ls="", marker="o", ms=5, color=CURVES[1])
    axes.set_xlabel(xlabel)
    axes.set_ylim(-0.6, len(names) - 0.4)
    heading(axes, title)
    return _named_rows(axes, names)


def error_parts(
    names: Sequence[str],
    floor: Sequence[float],
    bias: Sequence[float],
    noise: Sequence[float],
    *,
    xlabel: str = "test error (mean squared)",
    title: str = "",
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw one bar for each name: the unavoidable error, the bias that a model keeps, and the noise that it fits.

    Parameters
    ----------
    names : sequence of str
        The name of each bar, from top to bottom.
    floor, bias, noise : sequence of float
        The three parts of each bar.
    xlabel, title : str
        Texts.
    legend : bool
        Whether to explain the parts below the bars.
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
    of_noise: dict[str, Any] = {"fc": "none", "ec": CURVES[1], "hatch": HATCH, "lw": 0.8}
    for place, low, kept, fitted in zip(places, floor, bias, noise, strict=True):
        axes.barh(place, low, height=0.66, color=FLOOR, label="floor")
        axes.barh(place, kept, left=low, height=0.66, color=CURVES[0], label="bias")
        axes.barh(place, fitted, left=low + kept, height=0.66, **of_noise, label="noise")
        total = low + kept + fitted
        text: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": SMALL, "color": INK}
        figure = f"{total:,.4g}" if total < 1000 else f"{total:,.0f}"
        axes.annotate(figure, (total, place), xytext=(4, 0), **text)
    most = max(sum(parts) for parts in zip(floor, bias, noise, strict=True))
    axes.set(xlabel=xlabel, xlim=(0, 1.16 * most))
    heading(axes, title)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    _named_rows(axes, names)
    if legend:
        swatches = [
            Patch(color=FLOOR, label="floor: what features cannot explain"),
            Patch(color=CURVES[0], label="bias: a model keeps it with any number of records"),
            Patch(**of_noise, label="noise: a model averages it over records"),
        ]
        legend_below(axes, swatches, columns=1)
    return axes


def _named_rows(axes: Axes, names: Sequence[str]) -> Axes:
    """Name the rows from top to bottom, without lines between them."""
    tidy(axes).set_yticks(range(len(names))[::-1], names)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    return axes


Distribution = tuple[Floats, Floats]
"""Increasing values, and their masses."""

MOST_BORDERS = 40
"""Beyond this number of outputs the borders of bins are not drawn."""
APART = 0.13
"""The part of the axes' width that the figure at an output needs."""


def bins(
    outputs: Floats,
    thresholds: Floats,
    prior: Distribution | None = None,
    *,
    chances: Floats | None = None,
    colour: str = CURVES[0],
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw outputs as lines over the prior, with the borders of their bins.

    Parameters
    ----------
    outputs : array
        The outputs of a mechanism.
    thresholds : array
        The borders of its bins; may be empty.
    prior : (values, masses), optional
        The distribution of the labels.
    chances : array, optional
        How often each output is drawn: the heights of the lines, on their own scale. Without them all are alike.
    colour : str
        Of the outputs.
    title : str
        Above the plot.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
    """
    from matplotlib.ticker import MaxNLocator

    axes = ax if ax is not None else new_axes()
    top = None
    if prior is not None:
        values, masses = prior
        density = masses / (np.gradient(values) if values.size > 1 else np.ones(1))
        top = 1.6 * float(np.quantile(density, 0.98)) or None  # a mass at an end must not hide the rest
        axes.fill_between(values, density, step="mid", color=PRIOR, alpha=0.8, lw=0, label="prior of the labels")
    few = outputs.size <= MOST_BORDERS
    order = np.argsort(outputs)
    outputs, chances = outputs[order], None if chances is None else chances[order]
    heights = np.ones(outputs.size) if chances is None else 0.97 * chances / np.max(chances)
    upright: dict[str, Any] = {"transform": axes.get_xaxis_transform()}
    what = "outputs" if chances is None else "outputs (height: how often)"
    axes.vlines(outputs, 0, heights, **upright, color=colour, lw=2.2 if few else 1.2, label=what)
    if few and thresholds.size:
        axes.vlines(thresholds, 0, 1, **upright, color=QUIET, lw=0.9, ls=":", label="borders of bins")
    span = np.ptp(outputs) if prior is None else np.ptp(np.concatenate([outputs, prior[0]]))
    before = -np.inf
    for output in outputs:
        if output - before >= APART * span and few:
            text: dict[str, Any] = {"ha": "center", "fontsize": SMALL, "color": colour}
            axes.annotate(f"{output:.4g}", (output, 1.01), xycoords=("data", "axes fraction"), **text)
            before = output
    axes.set(xlabel="label", ylabel="density of labels", ylim=(0, top))
    heading(axes, title, pad=18.0 if few else 6.0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    return tidy(axes, legend=True)


def joint(
    labels: Distribution, outputs: Floats, weights: Floats, edges: Floats, *, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw contours of the joint density of true and private labels, in log scale.

    Parameters
    ----------
    labels : (values, masses)
        The distribution of the labels.
    outputs : array
        Row i holds the private labels that label i can get.
    weights : array
        Their probabilities.
    edges : array
        The borders of the cells on both axes.
    title : str
        Above the plot.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
    """
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator
    from scipy.ndimage import gaussian_filter

    axes = ax if ax is not None else new_axes(4.4, 4.4)
    density = gaussian_filter(joint_mass(labels, outputs, weights, edges, edges), 1.5, mode="nearest")
    levels = np.geomspace(density.max() * 1e-4, density.max(), 13)
    centres = (edges[:-1] + edges[1:]) / 2
    shades: dict[str, Any] = {"norm": LogNorm(levels[0], levels[-1]), "cmap": "magma_r", "extend": "min"}
    axes.contourf(centres, centres, np.maximum(density.T, levels[0] / 2), levels=levels, **shades)
    axes.plot(edges[[0, -1]], edges[[0, -1]], color=QUIET, lw=0.8, ls="--")
    axes.set(xlabel="true label", ylabel="private label", aspect="equal")
    heading(axes, title)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    return tidy(axes)


def mean_values(
    labels: Floats,
    means: Mapping[str, Floats],
    *,
    colours: Mapping[str, str] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw what a label becomes on average, one line a name: an unbiased line lies on the diagonal.

    Parameters
    ----------
    labels : array
        Increasing labels.
    means : mapping of str to array
        The mean of the private values of each label.
    colours : mapping of str to str, optional
        The colour of a name, where it has its own.
    title : str
        Above the plot.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
    """
    from matplotlib.ticker import MaxNLocator

    axes = ax if ax is not None else new_axes(height=3.7)
    axes.plot(labels[[0, -1]], labels[[0, -1]], color=INK, lw=1.2, ls="--", label="the label itself")
    for number, (name, values) in enumerate(means.items()):
        colour = (colours or {}).get(name, CURVES[number % len(CURVES)])
        every = max(1, labels.size // 6)
        marks: dict[str, Any] = {"marker": marker(number), "ms": 5, "markevery": (number * every // 3, every)}
        axes.plot(labels, values, color=colour, lw=2, **marks, label=name)
    axes.set(xlabel="true label", ylabel="mean of its private values")
    heading(axes, title)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4))
    return tidy(axes, legend=True)


def joint_mass(labels: Distribution, outputs: Floats, weights: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return P[true label in cell i, private label in cell j] for cells with these borders, exact up to the cells."""
    values, masses = labels
    places = np.broadcast_arrays(values[:, None], outputs)
    x, y = (np.clip(part, edges[0], edges[-1]).ravel() for part, edges in zip(places, (rows, columns), strict=True))
    return np.asarray(np.histogram2d(x, y, [rows, columns], weights=(weights * masses[:, None]).ravel())[0])


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
