"""Densities of labels: bins over a prior, and the joint density of true and private labels. Plain numbers in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.plots.axes import BINS, PRIOR, QUIET, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Distribution = tuple[Floats, Floats]
"""Increasing values, and their masses."""

MOST_NAMED = 40
"""Outputs beyond this number get thin lines and no figures."""


def bins(
    outputs: Floats,
    thresholds: Floats,
    prior: Distribution | None = None,
    *,
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
    title : str
        Above the plot.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib axes
    """
    axes = ax if ax is not None else new_axes()
    top = None
    if prior is not None:
        values, masses = prior
        density = masses / (np.gradient(values) if values.size > 1 else np.ones(1))
        top = 1.6 * float(np.quantile(density, 0.98)) or None  # a mass at an end must not hide the rest
        axes.fill_between(values, density, step="mid", color=PRIOR, alpha=0.8, lw=0, label="prior")
    few = outputs.size <= MOST_NAMED
    upright: dict[str, Any] = {"ymin": 0, "ymax": 1, "transform": axes.get_xaxis_transform()}
    axes.vlines(outputs, **upright, color=BINS, lw=1.6 if few else 0.4, label="outputs")
    if few:
        if thresholds.size:
            axes.vlines(thresholds, **upright, color=QUIET, lw=0.8, ls=":", label="bin borders")
        for output in outputs:
            axes.annotate(
                f"{output:.4g}", (output, 1.01), xycoords=("data", "axes fraction"), ha="center", fontsize=8, color=BINS
            )
    axes.set(xlabel="label", ylabel="density", ylim=(0, top))
    axes.set_title(title, pad=16)
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
    from scipy.ndimage import gaussian_filter

    axes = ax if ax is not None else new_axes(5.4, 4.8)
    density = gaussian_filter(_joint_mass(labels, outputs, weights, edges), 1.5, mode="nearest")
    levels = np.geomspace(density.max() * 1e-4, density.max(), 13)
    centres = (edges[:-1] + edges[1:]) / 2
    axes.contourf(
        centres,
        centres,
        np.maximum(density.T, levels[0] / 2),
        levels=levels,
        norm=LogNorm(levels[0], levels[-1]),
        cmap="magma_r",
        extend="min",
    )
    axes.plot(edges[[0, -1]], edges[[0, -1]], color=QUIET, lw=0.8, ls="--")
    axes.set(xlabel="true label", ylabel="private label", aspect="equal")
    axes.set_title(title, fontsize=10)
    return tidy(axes)


def _joint_mass(labels: Distribution, outputs: Floats, weights: Floats, edges: Floats) -> Floats:
    """P[true label in cell i, private label in cell j] on a square grid, exact up to the cells."""
    cells = edges.size - 1
    values, masses = labels

    def place(numbers: Floats) -> Any:
        return np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, cells - 1)

    result = np.zeros((cells, cells))
    rows, columns = np.repeat(place(values), outputs.shape[1]), place(outputs).ravel()
    np.add.at(result, (rows, columns), (weights * masses[:, None]).ravel())
    return result
