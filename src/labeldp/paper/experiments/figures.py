"""The paper's figures, in its layout: mechanism on the left, generalization on the right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from labeldp import plots
from labeldp.mechanisms.auto import Choice
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
    titles = {"mechanism": "Mechanism", "test": "Generalization"}
    shown = {name: figures for name, figures in (("mechanism", exact), ("test", tested)) if figures}
    drawn = plots.new_figure(height=2.8 * len(shown) + 0.12 * len(methods) + 0.5)
    for axes, (name, figures) in zip(drawn.subplots(len(shown), squeeze=False)[:, 0], shown.items(), strict=True):
        relative = name == "test" and task.loss == "poisson"
        _panel(axes, figures, methods, {} if relative else _of_column(task.published, name))
        plots.heading(axes, titles[name])
        axes.set_ylabel("relative Poisson loss" if relative else "mean squared error")
        if relative:
            axes.axhline(0, color=plots.QUIET, lw=0.8)
            axes.set_yscale("symlog", linthresh=0.01)  # a loss below the one without privacy is negative
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        plots.tidy(axes)
    *others, last = drawn.axes
    plots.legend_below(last, others=others)
    return drawn


def joint(task: Task, labels: LabelDistribution) -> Figure:
    """Joint densities of true and private labels at ε = 3: RR-on-Bins and the Laplace mechanism."""
    drawn = plots.new_figure(5.6, 3.3)
    for axes, name in zip(drawn.subplots(1, 2), ("rr-on-bins", "laplace"), strict=True):
        method = get_method(name)
        mechanism = method.mechanism(labels.prior, task.domain, JOINT_EPSILON, labels.records)
        mechanism.plot(labels.prior, view="joint", ax=axes)
        error = mechanism.expected_loss(labels.prior)
        plots.heading(axes, f"{method.title}, ε = {JOINT_EPSILON:g} in all\nMSE {error:,.1f}")
    return drawn


CHOICES = {
    "rr-on-bins": "rr-on-bins",
    "rr-on-bins, debiased": "debiased",
    "unbiased": "unbiased",
    "bias-variance": "bias-variance",
    "auto": "auto",
}
"""The alternatives of `labeldp.alternatives`, and the method that has their colour."""


def error_parts(
    choices: Iterable[Choice],
    *,
    names: Mapping[str, str],
    title: str,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Bars of the predicted error of a model in its parts, for the choices in `names`, which says what to call each."""
    shown = [choice for choice in choices if choice.name in names]
    return plots.error_parts(
        [names[choice.name] for choice in shown],
        [choice.prediction.floor for choice in shown],
        [choice.prediction.bias for choice in shown],
        [choice.prediction.noise for choice in shown],
        colours={names[choice.name]: get_method(CHOICES[choice.name]).colour for choice in shown},
        xlabel="predicted test error (mean squared)",
        title=title,
        legend=legend,
        ax=ax,
    )


def _panel(axes: Axes, figures: Figures, methods: Sequence[str], published: Mapping[tuple[str, float], float]) -> None:
    budgets: set[float] = set()
    for number, name in enumerate(methods):
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
            marker=plots.marker(number),
            ms=5,
            capsize=2,
            label=method.title,
        )
        printed = [(epsilon, published[name, epsilon]) for epsilon in x if (name, epsilon) in published]
        if printed:
            label = f"{method.title}, published"
            axes.plot(*np.transpose(printed), **plots.hollow(method.colour), label=label)
    base = figures.get((NOT_PRIVATE, INFINITY))
    if base is not None and base.mean > 0:
        axes.axhline(base.mean, color=plots.QUIET, lw=1, ls="--", label="not private")
    axes.set_yscale("log")
    plots.epsilon_axis(axes, budgets)
    plots.plain_log_ticks(axes)


def _of_column(published: Published, column: str) -> dict[tuple[str, float], float]:
    return {(method, epsilon): mean for (name, method, epsilon), (mean, _) in published.items() if name == column}
