"""Published and measured figures side by side, and the paper's claims about them."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from labeldp.paper.experiments.methods import NOT_PRIVATE, get_method
from labeldp.paper.experiments.tasks import INFINITY, Published, Task
from labeldp.paper.experiments.trainings import Run, TrainedRun
from labeldp.paper.network.weights import TrainingLoss

BINS = "rr-on-bins"


@dataclass(frozen=True)
class Measured:
    """A mean over runs and its standard deviation. `sd` is None for exact figures and single runs."""

    mean: float
    sd: float | None = None
    runs: int = 0

    @classmethod
    def of(cls, values: Sequence[float]) -> Measured:
        """From one value for each run."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def __str__(self) -> str:
        places = 2 if abs(self.mean) >= 10 else 4  # two as in the paper's tables
        return f"{self.mean:,.{places}f}" + ("" if self.sd is None else f" ± {self.sd:,.{places}f}")

    @property
    def short(self) -> str:
        """The mean with five significant digits, for tables with many columns."""
        return f"{self.mean:,.0f}" if abs(self.mean) >= 1e4 else f"{self.mean:#,.5g}"


Figures = Mapping[tuple[str, float], Measured]
"""By method and ε. Without privacy the method is `NOT_PRIVATE` and ε is infinite."""


@dataclass(frozen=True)
class ComparedFigure:
    """One measured figure and the published one, if there is one.

    `column` is "mechanism" (exact error of the labels), "mechanism, stand-in" (the same for labels of a stand-in),
    "mechanism, sampled" (error of the training labels that were drawn) or "test".
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


def trained_figures(
    trained: Iterable[TrainedRun], loss: TrainingLoss
) -> tuple[dict[tuple[str, float], Measured], dict[tuple[str, float], Measured]]:
    """Return the test column and the sampled mechanism column: means over the seeds of each method and ε.

    With squared loss the test column is the mean squared error. With Poisson loss it is (E − E₀)/E₀ as in the paper: E is
    the mean of ŷ − y log ŷ, and E₀ that of the model without privacy on the same split.
    """
    by_run = {result.run: result for result in trained}
    tests: dict[tuple[str, float], list[float]] = {}
    mechanisms: dict[tuple[str, float], list[float]] = {}
    for run, result in by_run.items():
        value = result.test_squared_error
        if loss == "poisson":
            base = by_run.get(Run(NOT_PRIVATE, INFINITY, run.seed))
            if base is None:
                continue
            value = (result.test_loss - base.test_loss) / abs(base.test_loss)
        tests.setdefault((run.method, run.epsilon), []).append(value)
        mechanisms.setdefault((run.method, run.epsilon), []).append(result.mechanism_loss)
    return (
        {key: Measured.of(values) for key, values in tests.items()},
        {key: Measured.of(values) for key, values in mechanisms.items()},
    )


def compare(column: str, figures: Figures, published: Published) -> list[ComparedFigure]:
    """Return every figure of a column, with the published one where the paper printed it."""
    compared = []
    for (method, epsilon), measured in figures.items():
        mean, sd = _published(published, column.split(",", maxsplit=1)[0], method, epsilon)
        ratio = measured.mean / mean if mean else None
        compared.append(
            ComparedFigure(column, method, epsilon, mean, sd, measured.mean, measured.sd, measured.runs, ratio)
        )
    return compared


def side_by_side(
    column: str, figures: Figures, published: Published, stand_in: Figures | None = None
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the paper's table: for each ε and method, the paper's figure, ours, and the ratio ours / paper's.

    Figures for the labels of a stand-in add a fourth column for each method.
    """
    methods = sorted({method for name, method, _ in published if name == column})
    budgets = sorted({epsilon for method, epsilon in figures if method in methods or method == NOT_PRIVATE})
    parts = ("paper", "ours", "ratio", "stand-in") if stand_in else ("paper", "ours", "ratio")
    head = ["ε", *(f"{get_method(method).title}, {part}" for method in methods for part in parts)]
    rows = []
    for epsilon in budgets:
        cells = [epsilon_text(epsilon)]
        for method in methods:
            measured = figures.get((NOT_PRIVATE if epsilon == INFINITY else method, epsilon))
            mean, sd = published.get((column, method, epsilon), (None, None))
            cells.append("" if mean is None else str(Measured(mean, sd or None)))
            cells.append("" if measured is None else str(measured))
            cells.append("" if measured is None or not mean else f"{measured.mean / mean:.4f}")
            if stand_in:
                cells.append(str(stand_in.get((method, epsilon), "")))
        if any(cells[1:]):
            rows.append(cells)
    return head, rows


def grid(figures: Figures, methods: Sequence[str]) -> tuple[list[str], list[list[str]], list[int]]:
    """Header and rows for every method and ε, and the column of the lowest figure in each row (−1 without privacy)."""
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


def write_figures(path: Path, figures: Sequence[ComparedFigure]) -> None:
    """Write figures as CSV. Fields without a value are empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(ComparedFigure.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(figure) for figure in figures)


def write_table(path: Path, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table as CSV, with the text that is printed."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def epsilon_text(epsilon: float) -> str:
    return "∞" if epsilon == INFINITY else f"{epsilon:g}"


def _published(published: Published, column: str, method: str, epsilon: float) -> tuple[float | None, float | None]:
    """Return the published mean and deviation. Without privacy, that is the last row of the paper's RR-on-Bins column."""
    return published.get((column, BINS if method == NOT_PRIVATE else method, epsilon), (None, None))


@dataclass(frozen=True)
class Claim:
    """A statement, whether it holds for our figures, and the figures that decide it."""

    text: str
    holds: bool
    detail: str


def mechanism_claims(task: Task, exact: Figures, stand_in: Figures, *, calibrated: bool) -> Iterator[Claim]:
    """Yield claims about the error of the private labels. Calibrated labels must also give the published figures."""
    if calibrated:
        yield from _agrees(exact, task.published, "mechanism", tuple({m for _, m, _ in task.published}), 0.001)
    yield from _lowest(exact, task.baselines, "private labels")
    if {("continuous-exponential", 4.0), ("laplace-unclipped", 4.0)} <= exact.keys():
        yield from _clipping(exact)
    yield from _lowest(stand_in, task.baselines, "private labels of the stand-in")


def trained_claims(task: Task, tested: Figures, *, near_published: bool) -> Iterator[Claim]:
    """Yield claims about the trained models. With `near_published`, the data should give errors near the published ones."""
    yield from _lowest(tested, task.baselines, "models", up_to=4.0 if task.name == "census" else INFINITY)
    if near_published:
        yield from _agrees(tested, task.published, "test", (NOT_PRIVATE,), 0.10)
        yield from _agrees(tested, task.published, "test", (BINS,), 0.15)


def _agrees(
    figures: Figures, published: Published, column: str, methods: Sequence[str], within: float
) -> Iterator[Claim]:
    """Yield the claim that each measured figure is close to the published one, if there are such figures."""
    gaps = {}
    for (method, epsilon), measured in figures.items():
        mean, _ = _published(published, column, method, epsilon)
        if method in methods and mean:
            gaps[method, epsilon] = abs(measured.mean / mean - 1)
    if not gaps:
        return
    (method, epsilon), worst = max(gaps.items(), key=lambda item: item[1])
    what = (
        "without privacy" if methods == (NOT_PRIVATE,) else " and ".join(get_method(m).title for m in sorted(methods))
    )
    yield Claim(
        f"{column} error, {what}: each of {len(gaps)} published figures within {within:.1%}",
        worst <= within,
        f"largest difference {worst:.3%}" + ("" if method == NOT_PRIVATE else f" at ε = {epsilon_text(epsilon)}"),
    )


def _lowest(figures: Figures, rivals: Sequence[str], what: str, up_to: float = INFINITY) -> Iterator[Claim]:
    """Yield the claim that RR-on-Bins has the lowest error, unless it or all other mechanisms were left out."""
    margins: dict[tuple[str, float], float] = {}
    for (method, epsilon), measured in figures.items():
        own = figures.get((BINS, epsilon))
        if method in rivals and own is not None and epsilon <= up_to:
            margins[method, epsilon] = measured.mean / own.mean if own.mean > 0 else measured.mean - own.mean + 1
    limit = "at every ε" if up_to == INFINITY else f"for ε ≤ {up_to:g}"
    text = f"{what}: RR-on-Bins has the lowest error {limit}"
    if not margins:
        return
    (method, epsilon), least = min(margins.items(), key=lambda item: item[1])
    detail = f"closest: {get_method(method).title}, {least:.3f} times as much at ε = {epsilon_text(epsilon)}"
    ties = sorted(f"{get_method(m).title} at ε = {epsilon_text(e)}" for m, e in margins if _tied(figures, m, e))
    if ties:
        detail += f"; less than a standard deviation away, so undecided: {', '.join(ties)}"
    yield Claim(text, least > 1, detail)


def _tied(figures: Figures, method: str, epsilon: float) -> bool:
    """Return whether a rival and RR-on-Bins differ by less than a standard deviation."""
    rival, own = figures[method, epsilon], figures[BINS, epsilon]
    return abs(rival.mean - own.mean) < max(rival.sd or 0.0, own.sd or 0.0)


def _clipping(exact: Figures) -> Iterator[Claim]:
    """Yield what the paper says about clipping and the exponential mechanism."""
    budgets = sorted({epsilon for method, epsilon in exact if method == "continuous-exponential"})
    for method in ("laplace", "staircase"):
        gains = [exact[f"{method}-unclipped", e].mean / exact[method, e].mean for e in budgets]
        yield Claim(
            f"clipping helps the {get_method(method).title} mechanism, most at small ε",
            min(gains) > 1 and all(a > b for a, b in pairwise(gains)),
            f"error divided by {gains[0]:,.1f} at ε = {budgets[0]:g}, by {gains[-1]:,.2f} at ε = {budgets[-1]:g}",
        )
    for rival, start in (("laplace", 1.5), ("laplace-unclipped", 4.0)):
        ratios = {e: exact["continuous-exponential", e].mean / exact[rival, e].mean for e in budgets if e >= start}
        least = min(ratios, key=ratios.__getitem__)
        yield Claim(
            f"the exponential mechanism is worse than {get_method(rival).title} from ε = {start:g} on",
            ratios[least] > 1,
            f"at least {ratios[least]:.3f} times as much (ε = {least:g})",
        )
