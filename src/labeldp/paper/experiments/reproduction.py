"""A reproduction of one experiment: exact figures, and trainings that can be interrupted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeldp.artifact.staging import exclusive
from labeldp.domain import Domain
from labeldp.errors import MissingExtra
from labeldp.paper.data import Dataset
from labeldp.paper.experiments import results
from labeldp.paper.experiments.methods import get_method
from labeldp.paper.experiments.results import Claim, ComparedFigure, Figures, Measured
from labeldp.paper.experiments.tasks import PAPER_EPSILONS, LabelDistribution, Scale, Task, label_distribution
from labeldp.paper.experiments.trainings import (
    Model,
    TrainedRun,
    TrainingLog,
    TrainingSetup,
    default_workers,
    forecast,
    planned_runs,
    train_all,
)


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
        self.tested, self.sampled = results.trained_figures(finished, self.task.loss)
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
        found = list(results.mechanism_claims(self.task, self.exact, self.exact_stand_in, calibrated=self.calibrated))
        if self.tested:
            found += results.trained_claims(self.task, self.tested, near_published=self.task.name == "criteo")
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
        return [row for name, column in columns.items() for row in results.compare(name, column, self.task.published)]
