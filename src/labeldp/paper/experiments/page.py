"""The report of a reproduction: published and measured figures side by side on one page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.paper.experiments import figures, summary
from labeldp.paper.experiments.methods import get_method
from labeldp.paper.experiments.reproduction import Reproduction
from labeldp.paper.html_page import Report
from labeldp.plots import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTIONS = {
    "figure-mechanisms": "The paper's mechanisms against ε; hollow marks are published figures, bars standard deviations.",
    "figure-joint": "Joint density of true and private labels at ε = 3, contours in log scale.",
    "figure-clipping": "With clipping into the label range (solid) and without (dashed).",
    "figure-ours": "The same budgets with training values that are less biased: what goes past the paper.",
}


def page(shown: Reproduction, drawn: Mapping[str, Figure], command: str) -> Report:
    """Everything that was computed, top to bottom."""
    task = shown.task
    report = Report(f"Reproduction: {task.name}", task.title)
    report.text(shown.data_in_words)
    report.preformatted(command)
    report.heading("What the paper says, checked")
    report.table(
        ("claim", "here", "figures"),
        [(claim.text, "holds" if claim.holds else "does not hold", claim.detail) for claim in shown.claims()],
    )
    _mechanism(report, shown)
    if shown.tested:
        _generalization(report, shown)
    report.heading("Figures")
    for name, figure in drawn.items():
        report.figure(figure, CAPTIONS[name])
    return report


def _mechanism(report: Report, shown: Reproduction) -> None:
    report.heading("Mechanism: the error of the private training labels")
    report.text(
        f"Exact expectations for {shown.source.records:,} training labels, nothing sampled. Methods that are made for a "
        "prior pay ε₁ = √(cells/records) of their budget for it."
        + ("" if shown.beside is None else f" The stand-in has {shown.beside.records:,} training labels.")
    )
    if shown.task.published:
        head, rows = summary.side_by_side("mechanism", shown.exact, shown.task.published, shown.exact_beside)
        report.table(head, rows, caption="Published and computed, and computed over published")
    head, rows, best = summary.grid(shown.exact, shown.task.methods)
    report.table(head, rows, caption="All methods; the lowest in each row is stressed", best=best)
    if shown.exact_beside:
        head, rows, best = summary.grid(shown.exact_beside, shown.task.methods)
        report.table(head, rows, caption="All methods on the stand-in's labels", best=best)


def _generalization(report: Report, shown: Reproduction) -> None:
    settings, relative = shown.settings, shown.task.loss == "poisson"
    report.heading("Generalization: the error of models trained on private labels")
    measure = (
        "relative Poisson loss (E − E₀)/E₀ on the test rows, E₀ without privacy"
        if relative
        else "mean squared error on the test rows, against true labels"
    )
    model = "gradient boosting"
    if settings["model"] == "network":
        model = f"the paper's network, {settings['epochs']} epochs of batches of {settings['batch_size']:,}"
    report.text(
        f"{settings['rows']:,} rows, split 80/20 anew for each of {settings['runs']} seeds; {model}. Figures: {measure}, "
        "mean ± standard deviation over seeds. All are in `figures.csv`."
    )
    if shown.task.published:
        head, rows = summary.side_by_side("test", shown.tested, shown.task.published)
        report.table(head, rows, caption="Published and measured, and measured over published")
    head, rows, best = summary.grid(shown.tested, shown.task.methods)
    report.table(head, rows, caption="All methods that were trained; the lowest in each row is stressed", best=best)
    ours = [get_method(name).title for name in shown.task.methods if get_method(name).ours]
    report.text(f"Past the paper: {', '.join(ours)}. Same guarantee, other training values.")
    head, rows, _ = summary.grid(shown.sampled, shown.task.methods)
    report.table(head, rows, caption="Mean squared error of the training labels as drawn in these runs")


def write_reproduction(shown: Reproduction, folder: Path, command: str) -> list[Path]:
    """`figures.csv`, the tables as CSV, the figures as PNG and SVG, and `report.html`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "figures.csv"]
    summary.write_lines(written[0], shown.lines())
    for column, measured, beside in (("mechanism", shown.exact, shown.exact_beside), ("test", shown.tested, {})):
        if shown.task.published and measured:
            written.append(folder / f"table-{column}.csv")
            table = summary.side_by_side(column, measured, shown.task.published, beside)
            summary.write_table(written[-1], *table)
    drawn = figures.draw(shown.task, shown.source, shown.exact, shown.tested)
    for name, figure in drawn.items():
        for kind in ("png", "svg"):
            written.append(folder / f"{name}.{kind}")
            save(figure.axes[0], written[-1])
    written.append(folder / "report.html")
    page(shown, drawn, command).write(written[-1])
    return written
