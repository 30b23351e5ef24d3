"""Curves against ε, bars of the parts of an error, and distributions of labels with what becomes of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.plots.axes import (
    FLOOR,
    INK,
    MARKERS,
    PRIOR,
    QUIET,
    SMALL,
    WIDTH,
    epsilon_axis,
    heading,
    legend_below,
    new_axes,
    plain_log_ticks,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    axes.set_yticks(places, names)
    axes.set_xlabel(xlabel)
    axes.set_ylim(-0.6, len(names) - 0.4)
    heading(axes, title)
    tidy(axes)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    return axes


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
            Patch(color=FLOOR, label="floor: what features cannot explain"),
            Patch(color=CURVES[0], label="bias: a model keeps it with any number of records"),
            Patch(**of_noise, label="noise: a model averages it over records"),
        ]
        legend_below(axes, swatches, columns=1)
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
    density = gaussian_filter(_joint_mass(labels, outputs, weights, edges), 1.5, mode="nearest")
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


def _joint_mass(labels: Distribution, outputs: Floats, weights: Floats, edges: Floats) -> Floats:
    """Return P[true label in cell i, private label in cell j] on a square grid, exact up to the cells."""
    values, masses = labels
    rows, columns = (np.clip(part, edges[0], edges[-1]) for part in np.broadcast_arrays(values[:, None], outputs))
    joint_weights = (weights * masses[:, None]).ravel()
    return np.asarray(np.histogram2d(rows.ravel(), columns.ravel(), [edges, edges], weights=joint_weights)[0])
