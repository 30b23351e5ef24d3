"""Published and measured figures side by side, as rows for terminals, CSV files and pages."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from labeldp.paper.experiments.exact import ExactLoss
from labeldp.paper.experiments.methods import NOT_PRIVATE, get_method
from labeldp.paper.experiments.tasks import INFINITY, Published
from labeldp.paper.experiments.training_log import Run, TrainedRun
from labeldp.paper.network.weights import TrainingLoss


@dataclass(frozen=True)
class Measured:
    """A mean over runs with its standard deviation; `sd` None for exact figures and single runs."""

    mean: float
    sd: float | None = None
    runs: int = 0

    @classmethod
    def of(cls, values: Sequence[float]) -> Measured:
        """From one value a run."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def __str__(self) -> str:
        places = 2 if abs(self.mean) >= 10 else 4  # two as in the paper's tables
        return f"{self.mean:,.{places}f}" + ("" if self.sd is None else f" ± {self.sd:,.{places}f}")

    @property
    def short(self) -> str:
        """Five figures are enough where many stand side by side."""
        return f"{self.mean:,.0f}" if abs(self.mean) >= 1e4 else f"{self.mean:#,.5g}"


Figures = Mapping[tuple[str, float], Measured]
"""By method and ε. Where nothing is private the method is `NOT_PRIVATE` and ε infinite."""


@dataclass(frozen=True)
class Line:
    """One figure: `column` is "mechanism" (exact), "mechanism, stand-in" (exact, for a stand-in's labels beside the
    calibrated ones), "mechanism, sampled" (of the training labels of the runs) or "test".
    """

    column: str
    method: str
    epsilon: float
    published: float | None
    published_sd: float | None
    measured: float
    measured_sd: float | None
    runs: int
    ratio: float | None


def exact_figures(losses: Iterable[ExactLoss]) -> dict[tuple[str, float], Measured]:
    """The mechanism column."""
    return {(loss.method, loss.epsilon): Measured(loss.loss) for loss in losses}


def trained_figures(
    outcomes: Iterable[TrainedRun], loss: TrainingLoss
) -> tuple[dict[tuple[str, float], Measured], dict[tuple[str, float], Measured]]:
    """The test column and the sampled mechanism column, over the seeds of each method and ε.

    Squared loss: the test column is the mean squared error. Poisson loss: it is (E − E₀)/E₀ with E the mean of
    ŷ − y log ŷ and E₀ that of the network without privacy on the same partition, as in the paper.
    """
    by_run = {outcome.run: outcome for outcome in outcomes}
    tests: dict[tuple[str, float], list[float]] = {}
    mechanisms: dict[tuple[str, float], list[float]] = {}
    for run, outcome in by_run.items():
        value = outcome.test_squared_error
        if loss == "poisson":
            base = by_run.get(Run(NOT_PRIVATE, INFINITY, run.seed))
            if base is None:
                continue
            value = (outcome.test_loss - base.test_loss) / abs(base.test_loss)
        tests.setdefault((run.method, run.epsilon), []).append(value)
        mechanisms.setdefault((run.method, run.epsilon), []).append(outcome.mechanism_loss)
    return (
        {key: Measured.of(values) for key, values in tests.items()},
        {key: Measured.of(values) for key, values in mechanisms.items()},
    )


def lines(column: str, figures: Figures, published: Published) -> list[Line]:
    """Every figure of a column, with the published one where the paper printed it."""
    result = []
    for (method, epsilon), measured in figures.items():
        mean, sd = _published(published, column.split(",", maxsplit=1)[0], method, epsilon)
        ratio = measured.mean / mean if mean else None
        result.append(Line(column, method, epsilon, mean, sd, measured.mean, measured.sd, measured.runs, ratio))
    return result


def side_by_side(
    column: str, figures: Figures, published: Published, beside: Figures | None = None
) -> tuple[list[str], list[list[str]]]:
    """The paper's table: for each ε and each method that it printed, its figure, ours, and ours over its.

    Figures for a stand-in, `beside`, get a fourth column for each method.
    """
    methods = sorted({method for name, method, _ in published if name == column})
    budgets = sorted({epsilon for method, epsilon in figures if method in methods or method == NOT_PRIVATE})
    parts = ("paper", "ours", "ratio", "stand-in") if beside else ("paper", "ours", "ratio")
    head = ["ε", *(f"{get_method(method).title}, {part}" for method in methods for part in parts)]
    rows = []
    for epsilon in budgets:
        cells = [epsilon_text(epsilon)]
        for method in methods:
            measured = _measured(figures, method, epsilon)
            mean, sd = published.get((column, method, epsilon), (None, None))
            cells.append("" if mean is None else str(Measured(mean, sd or None)))
            cells.append("" if measured is None else str(measured))
            cells.append("" if measured is None or not mean else f"{measured.mean / mean:.4f}")
            if beside:
                cells.append(str(beside.get((method, epsilon), "")))
        if any(cells[1:]):
            rows.append(cells)
    return head, rows


def grid(figures: Figures, methods: Sequence[str]) -> tuple[list[str], list[list[str]], list[int]]:
    """Every method against every ε, and the place of the lowest figure in each row (−1 where nothing is private)."""
    shown = [method for method in methods if any(name == method for name, _ in figures)]
    rows, best = [], []
    for epsilon in sorted({epsilon for _, epsilon in figures if epsilon != INFINITY}):
        found = [figures.get((method, epsilon)) for method in shown]
        rows.append([epsilon_text(epsilon), *("" if f is None else f.short for f in found)])
        best.append(1 + min(range(len(shown)), key=lambda i: math.inf if (f := found[i]) is None else f.mean))
    base = figures.get((NOT_PRIVATE, INFINITY))
    if base is not None:
        rows.append([epsilon_text(INFINITY), *(base.short for _ in shown)])
        best.append(-1)
    return ["ε", *(get_method(method).title for method in shown)], rows, best


def write_lines(path: Path, rows: Sequence[Line]) -> None:
    """As CSV, empty where there is nothing."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Line.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def write_table(path: Path, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table as it is printed, as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def epsilon_text(epsilon: float) -> str:
    return "∞" if epsilon == INFINITY else f"{epsilon:g}"


def _measured(figures: Figures, method: str, epsilon: float) -> Measured | None:
    return figures.get((NOT_PRIVATE if epsilon == INFINITY else method, epsilon))


def _published(published: Published, column: str, method: str, epsilon: float) -> tuple[float | None, float | None]:
    """The non-private figure is the last row of the paper's RR-on-Bins column."""
    return published.get((column, "rr-on-bins" if method == NOT_PRIVATE else method, epsilon), (None, None))
