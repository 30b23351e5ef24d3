"""The paper's figures, in its layout: mechanism on the left, generalization on the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from labeldp import plots
from labeldp.paper.experiments.methods import NOT_PRIVATE, get_method
from labeldp.paper.experiments.summary import Figures
from labeldp.paper.experiments.tasks import INFINITY, LabelDistribution, Published, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

JOINT_EPSILON = 3.0


def draw(task: Task, source: LabelDistribution, exact: Figures, tested: Figures) -> dict[str, Figure]:
    """Every figure that these results allow, by file name."""
    drawn: dict[str, Figure] = {}
    methods = ("rr-on-bins", *task.baselines)
    drawn["figure-mechanisms"] = panels(exact, tested, methods, task)
    if task.name == "criteo":
        drawn["figure-joint"] = joint(task, source)
        clipped = (
            "rr-on-bins",
            "laplace",
            "laplace-unclipped",
            "staircase",
            "staircase-unclipped",
            "continuous-exponential",
        )
        drawn["figure-clipping"] = panels(exact, tested, clipped, task)
    ours = [name for name in task.methods if get_method(name).ours and any(method == name for method, _ in tested)]
    if ours:
        drawn["figure-ours"] = panels({}, tested, ("rr-on-bins", *ours), task)
    return drawn


def panels(exact: Figures, tested: Figures, methods: Sequence[str], task: Task) -> Figure:
    """Curves against ε: the error of the labels, and of the networks if any were trained. The paper's as hollow marks."""
    from matplotlib.figure import Figure

    titles = {"mechanism": "Mechanism", "test": "Generalization"}
    shown = {name: figures for name, figures in (("mechanism", exact), ("test", tested)) if figures}
    drawn = Figure(figsize=(5.6 * len(shown), 4.2), layout="constrained", dpi=120)
    for axes, (name, figures) in zip(drawn.subplots(1, len(shown), squeeze=False)[0], shown.items(), strict=True):
        relative = name == "test" and task.loss == "poisson"
        _panel(axes, figures, methods, {} if relative else _of_column(task.published, name))
        axes.set(title=titles[name], ylabel="relative Poisson loss" if relative else "mean squared error")
        if relative:
            axes.axhline(0, color=plots.QUIET, lw=0.8)
            axes.set_yscale("symlog", linthresh=0.01)  # losses below the base are possible
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return drawn


def joint(task: Task, source: LabelDistribution) -> Figure:
    """Densities of true and private labels at ε = 3: RR-on-Bins and the Laplace mechanism."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(9.6, 4.8), layout="constrained", dpi=120)
    for axes, name in zip(drawn.subplots(1, 2), ("rr-on-bins", "laplace"), strict=True):
        mechanism = get_method(name).mechanism(source.prior, task.domain, JOINT_EPSILON, source.records)
        mechanism.plot(source.prior, view="joint", ax=axes)
        error = mechanism.expected_loss(source.prior)
        axes.set_title(f"{get_method(name).title}, ε = {JOINT_EPSILON:g} in all\nMSE {error:,.1f}", fontsize=10)
    return drawn


def _panel(axes: Axes, figures: Figures, methods: Sequence[str], published: Mapping[tuple[str, float], float]) -> None:
    budgets: set[float] = set()
    for name in methods:
        x = sorted(epsilon for method, epsilon in figures if method == name)
        if not x:
            continue
        budgets.update(x)
        points = [figures[name, epsilon] for epsilon in x]
        method = get_method(name)
        colour = method.colour
        style = "-" if method.clip and not method.ours else ":" if method.ours else "--"
        axes.errorbar(
            x,
            [point.mean for point in points],
            yerr=[point.sd or 0.0 for point in points],
            color=colour,
            ls=style,
            lw=1.7,
            marker="o",
            ms=3.5,
            capsize=2,
            label=get_method(name).title,
        )
        printed = [(epsilon, published[name, epsilon]) for epsilon in x if (name, epsilon) in published]
        if printed:
            label = f"{get_method(name).title}, published"
            axes.plot(*np.transpose(printed), ls="none", marker="o", ms=8, mfc="none", mec=colour, label=label)
    base = figures.get((NOT_PRIVATE, INFINITY))
    if base is not None and base.mean > 0:
        axes.axhline(base.mean, color=plots.QUIET, lw=1, ls="--", label="not private")
    axes.set(xlabel="ε", xscale="log", yscale="log")
    axes.set_xticks(sorted(budgets), [f"{epsilon:g}" for epsilon in sorted(budgets)])
    plots.plain_log_ticks(axes)
    axes.minorticks_off()
    plots.tidy(axes)
    axes.legend(frameon=False, fontsize=8, handlelength=3.2)  # long enough to tell dashed from solid


def _of_column(published: Published, column: str) -> dict[tuple[str, float], float]:
    return {(method, epsilon): mean for (name, method, epsilon), (mean, _) in published.items() if name == column}
