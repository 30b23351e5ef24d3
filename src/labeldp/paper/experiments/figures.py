"""The report of a reproduction: the paper's figures in its layout, tables, and one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp import plots
from labeldp.mechanisms.auto import Choice
from labeldp.paper.experiments.reproduction import Figures, Reproduction, grid, side_by_side, write_figures, write_table
from labeldp.paper.experiments.tasks import INFINITY, NOT_PRIVATE, LabelDistribution, Published, Task, get_method
from labeldp.paper.html_page import Report
from labeldp.plots import in_words, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

JOINT_EPSILON = 3.0

CAPTIONS = {
    "figure-mechanisms": "The paper's mechanisms against ε; hollow marks are published figures, bars standard deviations.",
    "figure-joint": "Joint density of true and private labels at ε = 3, contours in log scale.",
    "figure-clipping": "With clipping into the label range (solid) and without (dashed).",
    "figure-ours": "The same budgets with training values that are less biased. This goes beyond the paper.",
}


def draw(task: Task, labels: LabelDistribution, exact: Figures, tested: Figures) -> dict[str, Figure]:
    """Return every figure that these results allow, by file name."""
    methods = [get_method(name) for name in task.methods]
    mechanisms = [method.name for method in methods if method.clip and not method.ours]
    drawn = {"figure-mechanisms": panels(exact, tested, mechanisms, task)}
    if task.name == "criteo":
        drawn["figure-joint"] = joint(task, labels)
        compared = ("rr-on-bins", *task.baselines)
        clipping = [method.name for method in methods if method.mechanism_name in compared and not method.ours]
        drawn["figure-clipping"] = panels(exact, tested, clipping, task)
    ours = [method.name for method in methods if method.ours and any(name == method.name for name, _ in tested)]
    if ours:
        drawn["figure-ours"] = panels({}, tested, ("rr-on-bins", *ours), task)
    return drawn


def panels(exact: Figures, tested: Figures, methods: Sequence[str], task: Task) -> Figure:
    """Draw curves against ε: the error of the labels and, if there are any, of the models. Hollow marks are published figures."""
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


def error_parts(
    choices: Iterable[Choice], *, names: Mapping[str, str], title: str, legend: bool = True, ax: Axes | None = None
) -> Axes:
    """Draw bars of the predicted error of a model in its parts, for the choices in `names`, which gives each its title."""
    shown = [choice for choice in choices if choice.name in names]
    return plots.error_parts(
        [names[choice.name] for choice in shown],
        [choice.prediction.floor for choice in shown],
        [choice.prediction.bias for choice in shown],
        [choice.prediction.noise for choice in shown],
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
        look: dict[str, Any] = {"ls": style, "lw": 1.7, "marker": plots.marker(number), "ms": 5, "capsize": 2}
        means, deviations = [point.mean for point in points], [point.sd or 0.0 for point in points]
        axes.errorbar(x, means, yerr=deviations, color=method.colour, **look, label=method.title)
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


def write_reproduction(reproduction: Reproduction, folder: Path, command: str) -> list[Path]:
    """Write `figures.csv`, the tables as CSV, the figures as PNG and SVG, and `report.html`. Returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "figures.csv"]
    write_figures(written[0], reproduction.compared_figures())
    task, exact, tested = reproduction.task, reproduction.exact, reproduction.tested
    for column, measured, stand_in in (("mechanism", exact, reproduction.exact_stand_in), ("test", tested, {})):
        if task.published and measured:
            written.append(folder / f"table-{column}.csv")
            write_table(written[-1], *side_by_side(column, measured, task.published, stand_in))
    drawn = draw(task, reproduction.labels, exact, tested)
    for name, figure in drawn.items():
        for kind in ("png", "svg"):
            written.append(folder / f"{name}.{kind}")
            save(figure, written[-1], alt=alt(name, figure))
    written.append(folder / "report.html")
    page(reproduction, drawn, command).write(written[-1])
    return written


def page(reproduction: Reproduction, drawn: Mapping[str, Figure], command: str) -> Report:
    """Return the report: claims, tables and figures."""
    report = Report(f"Reproduction: {reproduction.task.name}", reproduction.task.title)
    report.text(reproduction.data_in_words)
    report.preformatted(command)
    report.heading("What the paper says, checked")
    report.table(
        ("claim", "here", "figures"),
        [(claim.text, "holds" if claim.holds else "does not hold", claim.detail) for claim in reproduction.claims()],
    )
    _mechanism(report, reproduction)
    if reproduction.tested:
        _generalization(report, reproduction)
    report.heading("Figures")
    for name, figure in drawn.items():
        report.figure(figure, CAPTIONS[name], alt=alt(name, figure))
    return report


def alt(name: str, figure: Figure) -> str:
    """Return what a figure shows, for people who do not see it."""
    if name != "figure-joint":
        return f"{CAPTIONS[name]} {in_words(figure)}"
    titles = "; ".join(axes.get_title().replace("\n", ", ") for axes in figure.axes)
    return f"{CAPTIONS[name]} {titles}."


def _mechanism(report: Report, reproduction: Reproduction) -> None:
    task, exact, stand_in = reproduction.task, reproduction.exact, reproduction.exact_stand_in
    report.heading("Mechanism: the error of the private training labels")
    words = (
        f"Exact expectations for {reproduction.labels.records:,} training labels, nothing sampled. Methods that need a prior "
        "pay ε₁ = √(cells/records) of their budget for it."
    )
    if reproduction.stand_in_labels is not None:
        words += f" The stand-in has {reproduction.stand_in_labels.records:,} training labels."
    report.text(words)
    if task.published:
        head, rows = side_by_side("mechanism", exact, task.published, stand_in)
        report.table(head, rows, caption="Published and computed, and computed over published")
    _grid(report, exact, task, "All methods; the lowest in each row is bold")
    if stand_in:
        _grid(report, stand_in, task, "All methods on the stand-in's labels")


def _generalization(report: Report, reproduction: Reproduction) -> None:
    task, settings = reproduction.task, reproduction.settings
    report.heading("Generalization: the error of models trained on private labels")
    measure = (
        "relative Poisson loss (E − E₀)/E₀ on the test rows, E₀ without privacy"
        if task.loss == "poisson"
        else "mean squared error on the test rows, against true labels"
    )
    model = "gradient boosting"
    if settings["model"] == "network":
        model = f"the paper's network, {settings['epochs']} epochs of batches of {settings['batch_size']:,}"
    report.text(
        f"{settings['rows']:,} rows, split 80/20 again for each of {settings['runs']} seeds; {model}. Figures: {measure}, "
        "mean ± standard deviation over seeds. All are in `figures.csv`."
    )
    if task.published:
        head, rows = side_by_side("test", reproduction.tested, task.published)
        report.table(head, rows, caption="Published and measured, and measured over published")
    _grid(report, reproduction.tested, task, "All methods that were trained; the lowest in each row is bold")
    ours = [method.title for method in map(get_method, task.methods) if method.ours]
    report.text(f"Beyond the paper: {', '.join(ours)}. They have the same guarantee and other training values.")
    _grid(report, reproduction.sampled, task, "Mean squared error of the training labels as drawn in these runs")


def _grid(report: Report, measured: Figures, task: Task, caption: str) -> None:
    head, rows, best = grid(measured, task.methods)
    report.table(head, rows, caption=caption, best=best)
