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


def draw(task: Task, labels: LabelDistribution, exact: Figures, tested: Figures) -> dict[str, Figure]:
    """Every figure that these results allow, by file name."""
    methods = [get_method(name) for name in task.methods]
    mechanisms = [method.name for method in methods if method.clip and not method.ours]
    drawn = {"figure-mechanisms": panels(exact, tested, mechanisms, task)}
    if task.name == "criteo":
        drawn["figure-joint"] = joint(task, labels)
        clipping = [
            method.name
            for method in methods
            if method.mechanism_name in ("rr-on-bins", *task.baselines) and not method.ours
        ]
        drawn["figure-clipping"] = panels(exact, tested, clipping, task)
    ours = [method.name for method in methods if method.ours and any(name == method.name for name, _ in tested)]
    if ours:
        drawn["figure-ours"] = panels({}, tested, ("rr-on-bins", *ours), task)
    return drawn


def panels(exact: Figures, tested: Figures, methods: Sequence[str], task: Task) -> Figure:
    """Curves against ε: the error of the labels and, if there are any, of the models. Hollow marks are published figures."""
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
            axes.set_yscale("symlog", linthresh=0.01)  # a loss below the one without privacy is negative
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return drawn


def joint(task: Task, labels: LabelDistribution) -> Figure:
    """Joint densities of true and private labels at ε = 3: RR-on-Bins and the Laplace mechanism."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(9.6, 4.8), layout="constrained", dpi=120)
    for axes, name in zip(drawn.subplots(1, 2), ("rr-on-bins", "laplace"), strict=True):
        method = get_method(name)
        mechanism = method.mechanism(labels.prior, task.domain, JOINT_EPSILON, labels.records)
        mechanism.plot(labels.prior, view="joint", ax=axes)
        error = mechanism.expected_loss(labels.prior)
        axes.set_title(f"{method.title}, ε = {JOINT_EPSILON:g} in all\nMSE {error:,.1f}", fontsize=10)
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
        style = ":" if method.ours else "-" if method.clip else "--"
        axes.errorbar(
            x,
            [point.mean for point in points],
            yerr=[point.sd or 0.0 for point in points],
            color=method.colour,
            ls=style,
            lw=1.7,
            marker="o",
            ms=3.5,
            capsize=2,
            label=method.title,
        )
        printed = [(epsilon, published[name, epsilon]) for epsilon in x if (name, epsilon) in published]
        if printed:
            label = f"{method.title}, published"
            axes.plot(*np.transpose(printed), ls="none", marker="o", ms=8, mfc="none", mec=method.colour, label=label)
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
