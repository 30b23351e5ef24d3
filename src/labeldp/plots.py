"""Plots of mechanisms: the bins over the prior, the joint density of true and private labels, curves against ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms import ContinuousMechanism, FiniteMechanism, Mechanism
from labeldp.prior import Prior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, PRIOR, BINS, QUIET = "#1b1f24", "#9db4c8", "#c8553d", "#6b7280"
CURVES = ("#c8553d", "#2f6f8f", "#6a994e", "#8d5a97", "#d4a017", "#444c56", "#4fb0ae", "#b56576")


def new_axes(width: float = 7.0, height: float = 4.2) -> Axes:
    """One set of axes on a figure of its own, which does not live in pyplot's list."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=120).subplots()


def save(axes: Axes, path: Path) -> None:
    """The figure of these axes as PNG or SVG, by the path's ending; the same input gives the same bytes."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, metadata=metadata)


def mechanism(shown: Mechanism, prior: Prior | None = None, *, view: str = "bins", ax: Axes | None = None) -> Axes:
    """One mechanism: `view` is "bins" or "joint"."""
    distribution = prior if prior is not None else getattr(shown, "prior", None)
    if view == "bins":
        return bins(shown, distribution, ax=ax)
    if view == "joint":
        if distribution is None:
            raise InvalidInput("the joint density needs a prior: plot(prior, view='joint')")
        return joint(shown, distribution, ax=ax)
    raise InvalidInput(f'view must be "bins" or "joint", got {view!r}')


def bins(shown: Mechanism, prior: Prior | None = None, *, ax: Axes | None = None) -> Axes:
    """The outputs as lines over the prior, each with the chance that a label of its bin stays in it."""
    if not isinstance(shown, FiniteMechanism):
        raise InvalidInput(f"{shown.kind} has no bins: use view='joint'")
    axes = ax if ax is not None else new_axes()
    top = None
    if prior is not None:
        width = np.gradient(prior.values) if prior.values.size > 1 else np.ones(1)
        top = 1.6 * float(np.quantile(prior.masses / width, 0.98)) or None  # a mass at an end must not hide the rest
        axes.fill_between(prior.values, prior.masses / width, step="mid", color=PRIOR, alpha=0.8, lw=0, label="prior")
    few = shown.outputs.size <= 40
    axes.vlines(
        shown.outputs, 0, 1, transform=axes.get_xaxis_transform(), color=BINS, lw=1.6 if few else 0.4, label="outputs"
    )
    thresholds = getattr(shown.encoder, "thresholds", np.empty(0)) if few else np.empty(0)
    if thresholds.size:
        axes.vlines(
            thresholds, 0, 1, transform=axes.get_xaxis_transform(), color=QUIET, lw=0.8, ls=":", label="bin borders"
        )
    if few:
        for output in shown.outputs:
            axes.annotate(
                f"{output:.4g}", (output, 1.01), xycoords=("data", "axes fraction"), ha="center", fontsize=8, color=BINS
            )
    axes.set(xlabel="label", ylabel="density", ylim=(0, top))
    axes.set_title(f"{type(shown).__name__}, ε = {shown.epsilon:.4g}: {shown.outputs.size} outputs", pad=16)
    return tidy(axes, legend=True)


def joint(shown: Mechanism, prior: Prior, *, ax: Axes | None = None, cells: int = 80) -> Axes:
    """Contours of the joint density of true and private labels, in log scale, with the mean squared error."""
    from matplotlib.colors import LogNorm

    axes = ax if ax is not None else new_axes(5.4, 4.8)
    frame = shown.domain or Domain(float(prior.values[0]), float(prior.values[-1]))
    x = np.linspace(frame.lower, frame.upper, cells + 1)
    density = _smooth(_joint_mass(shown, prior, x))
    levels = np.geomspace(density.max() * 1e-4, density.max(), 13)
    centres = (x[:-1] + x[1:]) / 2
    axes.contourf(
        centres,
        centres,
        np.maximum(density.T, levels[0] / 2),
        levels=levels,
        norm=LogNorm(levels[0], levels[-1]),
        cmap="magma_r",
        extend="min",
    )
    axes.plot([frame.lower, frame.upper], [frame.lower, frame.upper], color=QUIET, lw=0.8, ls="--")
    axes.set(xlabel="true label", ylabel="private label", aspect="equal")
    axes.set_title(
        f"{type(shown).__name__}, ε = {shown.epsilon:.4g}\nMSE {shown.expected_loss(prior):,.1f}", fontsize=10
    )
    return tidy(axes)


def curves(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    *,
    published: Mapping[str, Sequence[float]] | None = None,
    ylabel: str = "expected squared loss",
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One line for each mechanism against ε; published figures as hollow markers in the same colour."""
    axes = ax if ax is not None else new_axes()
    for number, (name, values) in enumerate(lines.items()):
        colour = CURVES[number % len(CURVES)]
        axes.plot(x, values, color=colour, lw=1.8, marker="o", ms=3.5, label=name)
        if published and name in published:
            axes.plot(
                x, published[name], ls="none", marker="o", ms=8, mfc="none", mec=colour, label=f"{name}, published"
            )
    axes.set(xlabel="ε", ylabel=ylabel, yscale="log", title=title)
    plain_log_ticks(axes)
    return tidy(axes, legend=True)


def plain_log_ticks(axes: Axes) -> None:
    """Plain numbers on a logarithmic y axis, several to a decade unless there are many decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0, 7.0) if high < 1000 * low else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def _joint_mass(shown: Mechanism, prior: Prior, edges: Floats) -> Floats:
    """P[true label in cell i, private label in cell j] on a square grid, exact up to the cells."""
    cells = edges.size - 1

    def place(values: Any) -> Any:
        return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, cells - 1)

    result = np.zeros((cells, cells))
    held = prior.masses > 0
    values, masses = prior.values[held], prior.masses[held]
    if isinstance(shown, FiniteMechanism):
        nodes = np.broadcast_to(shown.outputs, (values.size, shown.outputs.size))
        weights = shown.matrix(values)
    elif isinstance(shown, ContinuousMechanism):
        nodes, weights = shown._quadrature(values, edges[1:-1] - edges[0])  # noqa: SLF001 - plots look inside
    else:
        raise InvalidInput(f"cannot draw the joint density of {shown!r}")
    np.add.at(
        result, (np.repeat(place(values), nodes.shape[1]), place(nodes).ravel()), (weights * masses[:, None]).ravel()
    )
    return result


def _smooth(mass: Floats) -> Floats:
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(mass, 1.5, mode="nearest"))


def tidy(axes: Axes, *, legend: bool = False) -> Axes:
    """The look that all our plots share."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(visible=True, color="#e5e7eb", lw=0.6)
    axes.set_axisbelow(True)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
    return axes
