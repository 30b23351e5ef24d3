"""A reproduction from start to end: exact figures, trainings that can be interrupted, and a folder with the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib

from labeldp.domain import Domain
from labeldp.errors import MissingExtra
from labeldp.paper.data import Dataset
from labeldp.paper.experiments import claims, summary
from labeldp.paper.experiments.claims import Claim
from labeldp.paper.experiments.exact import exact_losses
from labeldp.paper.experiments.methods import get_method
from labeldp.paper.experiments.pool import default_workers, execute_all, plan
from labeldp.paper.experiments.summary import Figures, Line
from labeldp.paper.experiments.tasks import PAPER_EPSILONS, LabelDistribution, Scale, Task, labels_of
from labeldp.paper.experiments.training import Bench, Model
from labeldp.paper.experiments.training_log import TrainedRun, TrainingLog
from labeldp.release.locks import exclusive

Tell = Callable[[str], None]
Progress = Callable[[int, int], None]
"""Called with the number of finished trainings and of all."""


@dataclass
class Reproduction:
    """One experiment with its figures as they become known.

    `source` is what `exact` is computed from. `beside` is a stand-in whose labels are distributed otherwise, with `exact`
    figures of its own in `exact_beside`; `left_out` says which package it lacks, if that is why it is not there.
    """

    task: Task
    source: LabelDistribution
    domain: Domain
    calibrated: bool
    dataset: Dataset | None = None
    beside: LabelDistribution | None = None
    left_out: str = ""
    exact: Figures = field(default_factory=dict)
    exact_beside: Figures = field(default_factory=dict)
    tested: Figures = field(default_factory=dict)
    sampled: Figures = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, task: Task, *, data: Path | None, rows: int | None, stand_in: str | None = None, trained: bool
    ) -> Reproduction:
        """Loads what is needed.

        Exact figures without the genuine file need the calibrated prior and nothing else, where there is one. A stand-in
        beside it is left out if its package is missing, unless it was asked for by name.
        """
        calibrated = task.calibrated if data is None else None
        required = trained or calibrated is None
        dataset, left_out = None, ""
        if required or task.stand_in_beside:
            try:
                dataset = task.load(data, rows, stand_in)
            except MissingExtra as error:
                if required or stand_in is not None:
                    raise
                left_out = str(error)
        domain = task.domain if dataset is None else task.domain_of(dataset)
        if calibrated is None:
            assert dataset is not None
            return cls(task, labels_of(dataset, domain), domain, calibrated=False, dataset=dataset)
        beside = labels_of(dataset, domain) if dataset is not None and task.stand_in_beside else None
        return cls(task, calibrated, domain, calibrated=True, dataset=dataset, beside=beside, left_out=left_out)

    @property
    def genuine(self) -> bool:
        """Whether these are the paper's own records."""
        return self.dataset is not None and self.dataset.name == self.task.name

    @property
    def data_in_words(self) -> str:
        """What the figures rest on."""
        words = f"Labels of the mechanism figures: {self.source.description}."
        if self.beside is not None:
            words += f" Labels of the figures called stand-in: {self.beside.description}."
        if self.dataset is not None and self.settings:
            words += f" Data of the trained figures: {self.dataset.description}, {len(self.dataset):,} rows."
        if not self.genuine:
            words += (" Neither is" if self.beside is not None else " This is a stand-in, not") + " the paper's data."
        return words + (f" Figures for other records are left out: {self.left_out}." if self.left_out else "")

    def compute_exact(self, epsilons: Sequence[float] | None = None) -> None:
        """The mechanism column, at the paper's ε unless told; the smallest are left out where there are too few labels."""
        wanted = PAPER_EPSILONS if epsilons is None else epsilons
        private = [epsilon for epsilon in wanted if math.isfinite(epsilon)]
        self.exact = self._exact(self.source, private)
        if self.beside is not None:
            self.exact_beside = self._exact(self.beside, private)

    def _exact(self, source: LabelDistribution, epsilons: Sequence[float]) -> Figures:
        feasible = [e for e in epsilons if len(self.domain.grid) <= source.records * e**2]
        return summary.exact_figures(exact_losses(source, self.domain, self.task.methods, feasible))

    def train(
        self,
        folder: Path,
        scale: Scale,
        methods: Sequence[str],
        *,
        model: Model = "network",
        workers: int | None = None,
        tell: Tell = print,
        progress: Progress | None = None,
    ) -> list[TrainedRun]:
        """Trains what the folder does not hold yet, and keeps each outcome as soon as it is there."""
        assert self.dataset is not None
        records = len(self.dataset) * 4 // 5
        for epsilon in scale.epsilons:  # what cannot be paid for is said before anything is trained
            for method in methods:
                get_method(method).split(self.domain, epsilon, records)
        bench = Bench.of(self.task, self.dataset, scale.epochs, model)
        processes = default_workers(len(self.dataset)) if workers is None else workers
        log = TrainingLog(folder / "runs.jsonl", bench.settings())
        self.settings = {**bench.settings(), "runs": scale.runs, "processes": processes}
        runs = plan(methods, scale.epsilons, scale.runs)
        with exclusive(folder / "runs.jsonl", str(folder)):
            known = log.read()
            missing = [run for run in runs if run not in known]
            if len(missing) < len(runs):
                tell(f"{len(runs) - len(missing)} of {len(runs)} trainings are in {log.path} already")
            if missing:
                tell(_forecast(bench, len(missing), records, processes))
            for done, outcome in enumerate(execute_all(bench, missing, processes), start=1):
                log.append(outcome)
                known[outcome.run] = outcome
                if progress is not None:
                    progress(done, len(missing))
        outcomes = [known[run] for run in runs]
        self.tested, self.sampled = summary.trained_figures(outcomes, self.task.loss)
        return outcomes

    def claims(self) -> list[Claim]:
        """What the paper says in words, checked."""
        found = list(claims.mechanism_claims(self.task, self.exact, calibrated=self.calibrated))
        found += claims.stand_in_claims(self.task, self.exact_beside)
        if self.tested:
            near = self.task.name == "criteo"
            found += claims.trained_claims(self.task, self.tested, stand_in_near=near)
        return found

    def lines(self) -> list[Line]:
        """Every figure beside the published one."""
        columns = (
            ("mechanism", self.exact),
            ("mechanism, stand-in", self.exact_beside),
            ("mechanism, sampled", self.sampled),
            ("test", self.tested),
        )
        return [line for name, column in columns for line in summary.lines(name, column, self.task.published)]


def _forecast(bench: Bench, trainings: int, records: int, processes: int) -> str:
    """How long it will take, as measured by a short training that has all cores to itself."""
    idle = 1.0 if processes == 1 else max(1.0, joblib.cpu_count() / processes)  # one process has a thread for each core
    seconds = trainings * bench.seconds_per_run() * idle
    passes = f" × {bench.epochs} epochs" if bench.model == "network" else ""
    return (
        f"{trainings} trainings of {records:,} rows{passes} in {processes} process{'es' if processes > 1 else ''}: "
        f"about {duration(seconds)} at the speed measured just now. They can be interrupted and resumed."
    )


def duration(seconds: float) -> str:
    """A time in words, to the precision of a guess."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 86_400:.1f} days"
