"""The report of a reproduction: published and measured figures side by side on one HTML page, and the other files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.paper.experiments import figures, summary
from labeldp.paper.experiments.methods import get_method
from labeldp.paper.experiments.reproduction import Reproduction
from labeldp.paper.experiments.tasks import Task
from labeldp.paper.html_page import Report
from labeldp.plots import in_words, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTIONS = {
    "figure-mechanisms": "The paper's mechanisms against ε; hollow marks are published figures, bars standard deviations.",
    "figure-joint": "Joint density of true and private labels at ε = 3, contours in log scale.",
    "figure-clipping": "With clipping into the label range (solid) and without (dashed).",
    "figure-ours": "The same budgets with training values that are less biased. This goes beyond the paper.",
}


def write_reproduction(reproduction: Reproduction, folder: Path, command: str) -> list[Path]:
    """Write `figures.csv`, the tables as CSV, the figures as PNG and SVG, and `report.html`. Returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "figures.csv"]
    summary.write_figures(written[0], reproduction.compared_figures())
    task, exact, tested = reproduction.task, reproduction.exact, reproduction.tested
    for column, measured, stand_in in (("mechanism", exact, reproduction.exact_stand_in), ("test", tested, {})):
        if task.published and measured:
            written.append(folder / f"table-{column}.csv")
            summary.write_table(written[-1], *summary.side_by_side(column, measured, task.published, stand_in))
    drawn = figures.draw(task, reproduction.labels, exact, tested)
    for name, figure in drawn.items():
        for kind in ("png", "svg"):
            written.append(folder / f"{name}.{kind}")
            save(figure, written[-1], alt=alt(name, figure))
    written.append(folder / "report.html")
    page(reproduction, drawn, command).write(written[-1])
    return written


def page(reproduction: Reproduction, drawn: Mapping[str, Figure], command: str) -> Report:
    """The report: claims, tables and figures."""
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
    """What a figure shows, for people who do not see it."""
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
        head, rows = summary.side_by_side("mechanism", exact, task.published, stand_in)
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
        f"{settings['rows']:,} rows, split 80/20 anew for each of {settings['runs']} seeds; {model}. Figures: {measure}, "
        "mean ± standard deviation over seeds. All are in `figures.csv`."
    )
    if task.published:
        head, rows = summary.side_by_side("test", reproduction.tested, task.published)
        report.table(head, rows, caption="Published and measured, and measured over published")
    _grid(report, reproduction.tested, task, "All methods that were trained; the lowest in each row is bold")
    ours = [method.title for method in map(get_method, task.methods) if method.ours]
    report.text(f"Beyond the paper: {', '.join(ours)}. They have the same guarantee and other training values.")
    _grid(report, reproduction.sampled, task, "Mean squared error of the training labels as drawn in these runs")


def _grid(report: Report, measured: summary.Figures, task: Task, caption: str) -> None:
    head, rows, best = summary.grid(measured, task.methods)
    report.table(head, rows, caption=caption, best=best)
