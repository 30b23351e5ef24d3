"""A reproduction of one experiment: exact figures, trainings that can be interrupted, and both next to the published figures, with the paper's claims about them."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from labeldp.artifact.staging import exclusive
from labeldp.domain import Domain
from labeldp.errors import MissingExtra
from labeldp.paper.data import Dataset
from labeldp.paper.experiments.tasks import (
    INFINITY,
    NOT_PRIVATE,
    PAPER_EPSILONS,
    LabelDistribution,
    Published,
    Scale,
    Task,
    get_method,
    label_distribution,
)
from labeldp.paper.experiments.trainings import (
    Model,
    Run,
    TrainedRun,
    TrainingLog,
    TrainingSetup,
    default_workers,
    forecast,
    planned_runs,
    train_all,
)
from labeldp.paper.network.weights import TrainingLoss


@dataclass
class Reproduction:
    """One experiment and its figures, filled in by `compute_exact` and `train`.

    Parameters
    ----------
    task : Task
        The experiment.
    labels : LabelDistribution
        The labels that the exact figures are computed for.
    domain : Domain
        The label range.
    calibrated : bool
        Whether `labels` is the calibrated distribution, not that of a data set.
    dataset : Dataset, optional
        The data to train on.
    stand_in_labels : LabelDistribution, optional
        Labels of a stand-in that are distributed differently. They get their own exact figures.
    missing_package : str
        The package that a stand-in needs, if it was left out because the package is not installed.
    exact, exact_stand_in : mapping of (str, float) to Measured
        Exact errors of the labels, by method and ε.
    tested, sampled : mapping of (str, float) to Measured
        Errors of the trained models, and of the labels that they were trained on.
    settings : dict
        What the trained figures depend on.

    Examples
    --------
    >>> from labeldp.paper.experiments import Reproduction, get_task
    >>> reproduction = Reproduction.load(get_task("criteo"), data=None, rows=None, trained=False)
    >>> reproduction.compute_exact([2.0])
    >>> print(reproduction.exact["rr-on-bins", 2.0])  # the paper has 7,260.05
    7,258.48

    """

    task: Task
    labels: LabelDistribution
    domain: Domain
    calibrated: bool
    dataset: Dataset | None = None
    stand_in_labels: LabelDistribution | None = None
    missing_package: str = ""
    exact: Figures = field(default_factory=dict)
    exact_stand_in: Figures = field(default_factory=dict)
    tested: Figures = field(default_factory=dict)
    sampled: Figures = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(
        cls, task: Task, *, data: Path | None, rows: int | None, stand_in: str | None = None, trained: bool
    ) -> Reproduction:
        """Load the data of an experiment.

        Without the genuine file, exact figures only need the calibrated distribution, if it exists. A stand-in with
        other labels is also loaded, unless its package is missing and it was not requested by name.

        Parameters
        ----------
        task : Task
            The experiment.
        data : path or None
            The genuine file. None means calibrated labels and stand-ins.
        rows : int or None
            The number of rows to use. None means all.
        stand_in : str, optional
            Which stand-in. By default the first.
        trained : bool
            Whether models will be trained.

        Returns
        -------
        Reproduction
            Without figures yet.

        Raises
        ------
        MissingExtra
            If a stand-in is needed whose package is not installed.

        Examples
        --------
        >>> from labeldp.paper.experiments import Reproduction, get_task
        >>> reproduction = Reproduction.load(get_task("app-ads"), data=None, rows=2000, trained=True)
        >>> reproduction.labels.records
        1600

        """
        calibrated = task.calibrated if data is None else None
        required = trained or calibrated is None
        dataset, missing_package = None, ""
        if required or task.stand_in_differs:
            try:
                dataset = task.load(data, rows, stand_in)
            except MissingExtra as error:
                if required or stand_in is not None:
                    raise
                missing_package = str(error)
        domain = task.domain if dataset is None else task.domain_of(dataset)
        labels = None if dataset is None else label_distribution(dataset, domain)
        if calibrated is None:
            assert labels is not None
            return cls(task, labels, domain, calibrated=False, dataset=dataset)
        stand_in_labels = labels if task.stand_in_differs else None
        return cls(task, calibrated, domain, True, dataset, stand_in_labels, missing_package)

    @property
    def genuine(self) -> bool:
        """Whether the data are the paper's own records."""
        return self.dataset is not None and self.dataset.name == self.task.name

    @property
    def data_in_words(self) -> str:
        """What the figures are computed from, in words."""
        words = f"Labels of the mechanism figures: {self.labels.description}."
        if self.stand_in_labels is not None:
            words += f" Labels of the figures called stand-in: {self.stand_in_labels.description}."
        if self.dataset is not None and self.settings:
            words += f" Data of the trained figures: {self.dataset.description}, {len(self.dataset):,} rows."
        if not self.genuine:
            words += " This is a stand-in, not" if self.stand_in_labels is None else " Neither is"
            words += " the paper's data."
        if self.missing_package:
            words += f" Figures for other records are left out: {self.missing_package}."
        return words

    def compute_exact(self, epsilons: Sequence[float] = PAPER_EPSILONS) -> None:
        """Compute the exact errors of the labels.

        Parameters
        ----------
        epsilons : sequence of float
            Privacy budgets, by default the paper's. Budgets that are too small for a prior are left out, and so is infinity.

        Examples
        --------
        >>> from labeldp.paper.experiments import Reproduction, get_task
        >>> reproduction = Reproduction.load(get_task("app-ads"), data=None, rows=2000, trained=False)
        >>> reproduction.compute_exact([0.1, 4.0])
        >>> sorted({epsilon for _, epsilon in reproduction.exact})
        [4.0]

        """
        self.exact = self._exact(self.labels, epsilons)
        if self.stand_in_labels is not None:
            self.exact_stand_in = self._exact(self.stand_in_labels, epsilons)

    def _exact(self, labels: LabelDistribution, epsilons: Sequence[float]) -> Figures:
        """Exact figures: the cost of a prior is counted. Its noise is not; it adds about a thousandth at the paper's size."""
        cells = len(self.domain.grid)
        feasible = [epsilon for epsilon in epsilons if cells <= labels.records * epsilon**2 < math.inf]
        return {
            (method, epsilon): Measured(
                get_method(method).expected_loss(labels.prior, self.domain, epsilon, labels.records)
            )
            for method in self.task.methods
            for epsilon in feasible
        }

    def train(
        self,
        folder: Path,
        scale: Scale,
        methods: Sequence[str],
        *,
        model: Model = "network",
        workers: int | None = None,
        on_message: Callable[[str], None] = print,
        on_progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
    ) -> list[TrainedRun]:
        """Train and test models, and save each result in `folder` immediately.

        Existing results in the folder are reused, so an interrupted call can be repeated.

        Parameters
        ----------
        folder : path
            For the log of finished trainings, `runs.jsonl`.
        scale : Scale
            How much to train.
        methods : sequence of str
            Methods of the task to train with.
        model : {"network", "boosting"}
            The paper's network, or gradient boosting.
        workers : int, optional
            Processes. By default one for each core.
        on_message : callable
            Called with text: what the folder holds already, and how long the rest will take.
        on_progress : callable
            Called after each training with the number of finished trainings and of all.

        Returns
        -------
        list of TrainedRun
            One result for each method, ε and seed, and for each seed one without privacy.

        Raises
        ------
        InvalidInput
            If a budget is too small for the number of records. Nothing is trained then.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from labeldp.paper.experiments import Reproduction, Scale, get_task
        >>> reproduction = Reproduction.load(get_task("criteo"), data=None, rows=1000, trained=True)
        >>> with TemporaryDirectory() as folder:
        ...     results = reproduction.train(
        ...         Path(folder),
        ...         Scale(rows=1000, epochs=1, runs=1, epsilons=(8.0,)),
        ...         ["laplace"],
        ...         model="boosting",
        ...         workers=1,
        ...         on_message=lambda text: None,
        ...     )
        >>> [result.run.method for result in results]
        ['not-private', 'laplace']

        """
        assert self.dataset is not None
        records = len(self.dataset) * 4 // 5
        for epsilon in scale.epsilons:  # a budget that is too small is refused before anything is trained
            for method in methods:
                get_method(method).split(self.domain, epsilon, records)
        setup = TrainingSetup.of(self.task, self.dataset, scale.epochs, model)
        processes = default_workers(len(self.dataset)) if workers is None else workers
        log = TrainingLog(folder / "runs.jsonl", setup.settings())
        self.settings = {**setup.settings(), "runs": scale.runs, "processes": processes}
        runs = planned_runs(methods, scale.epsilons, scale.runs)
        with exclusive(folder / "runs.jsonl", str(folder)):
            trained = log.read()
            missing = [run for run in runs if run not in trained]
            if len(missing) < len(runs):
                on_message(f"{len(runs) - len(missing)} of {len(runs)} trainings are in {log.path} already")
            if missing:
                on_message(forecast(setup, len(missing), processes))
            for done, result in enumerate(train_all(setup, missing, processes), start=1):
                log.append(result)
                trained[result.run] = result
                on_progress(done, len(missing))
        finished = [trained[run] for run in runs]
        self.tested, self.sampled = trained_figures(finished, self.task.loss)
        return finished

    def claims(self) -> list[Claim]:
        """Check the paper's claims about its figures.

        Returns
        -------
        list of Claim
            Each with whether it holds for the figures that were computed so far.

        Examples
        --------
        >>> from labeldp.paper.experiments import Reproduction, get_task
        >>> reproduction = Reproduction.load(get_task("criteo"), data=None, rows=None, trained=False)
        >>> reproduction.compute_exact([2.0])
        >>> [claim.holds for claim in reproduction.claims()]
        [True, True]

        """
        found = list(mechanism_claims(self.task, self.exact, self.exact_stand_in, calibrated=self.calibrated))
        if self.tested:
            found += trained_claims(self.task, self.tested, near_published=self.task.name == "criteo")
        return found

    def compared_figures(self) -> list[ComparedFigure]:
        """List every figure, with the published one where there is one.

        Returns
        -------
        list of ComparedFigure
            The rows of `figures.csv`.

        Examples
        --------
        >>> from labeldp.paper.experiments import Reproduction, get_task
        >>> reproduction = Reproduction.load(get_task("criteo"), data=None, rows=None, trained=False)
        >>> reproduction.compute_exact([2.0])
        >>> figure = reproduction.compared_figures()[0]
        >>> figure.method, figure.published, round(figure.ratio, 4)
        ('rr-on-bins', 7260.05, 0.9998)

        """
        columns = {
            "mechanism": self.exact,
            "mechanism, stand-in": self.exact_stand_in,
            "mechanism, sampled": self.sampled,
            "test": self.tested,
        }
        return [row for name, column in columns.items() for row in compare(name, column, self.task.published)]


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
