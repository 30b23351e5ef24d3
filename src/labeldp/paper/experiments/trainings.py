"""Trainings of an experiment: one training, many of them on all cores, and the log of finished ones.

A training splits the rows, randomizes the labels, trains a model and tests it. Many run in processes with one thread each, or in
one process with many threads for large data. The log has one JSON line for each, so that an interrupted reproduction continues
where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import joblib
import numpy as np
import pyarrow as pa

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.json_text import parse_json
from labeldp.learn.learners import BoostingRegressor
from labeldp.paper.data import Dataset
from labeldp.paper.experiments.tasks import INFINITY, NOT_PRIVATE, Targets, Task, get_method
from labeldp.paper.network.network_regressor import NetworkRegressor, network_settings
from labeldp.paper.network.weights import TrainingLoss, mean_loss

Model = Literal["network", "boosting"]
PROTOCOL = 3
"""Increase it when a change makes the same settings give other results. Runs of an older protocol are then repeated."""
PAPER_BATCH = 8192
SHARED_ROWS = 5_000_000
"""With more rows, a copy of the data in each process takes too much memory."""
IDLE_SECONDS = 10
"""A process without work ends after this time and frees its memory."""


@dataclass(frozen=True)
class Run:
    """One training to do: a method at one ε (infinite without privacy), with one seed for split, noise and model."""

    method: str
    epsilon: float
    seed: int


@dataclass(frozen=True)
class TrainedRun:
    """The result of one training: the error of its private labels, its loss on the test rows, and the time it took."""

    run: Run
    mechanism_loss: float
    test_loss: float
    test_squared_error: float
    seconds: float
    cpu_seconds: float


class TrainingLog:
    """A file of trained runs, each with the settings it was trained under. Lines of other settings are kept and not read.

    A line is written by a single call and flushed to the disk, so a crash loses only the runs in progress. An incomplete
    line is skipped.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings: dict[str, Any] = json.loads(json.dumps(settings))

    def read(self) -> dict[Run, TrainedRun]:
        """Return the finished runs of these settings. If a run was logged twice, the first counts."""
        if not self.path.exists():
            return {}
        found: dict[Run, TrainedRun] = {}
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            trained = self._trained(line)
            if trained is not None:
                found.setdefault(trained.run, trained)
        return found

    def _trained(self, line: str) -> TrainedRun | None:
        """Return the run of a line; None if it has other settings, is incomplete or damaged."""
        try:
            record = parse_json(line, self.path)
            if not isinstance(record, dict) or record.pop("settings", None) != self.settings:
                return None
            run = Run(str(record.pop("method")), float(record.pop("epsilon")), int(record.pop("seed")))
            return TrainedRun(run, **{name: float(figure) for name, figure in record.items()})
        except (InvalidInput, KeyError, TypeError, ValueError):
            return None

    def append(self, trained: TrainedRun) -> None:
        """Add a line, after a line break if the last line is incomplete."""
        record = asdict(trained)
        record = {**record.pop("run"), **record}
        # JSON lacks infinity and NaN, so these are text
        beyond = {n: repr(figure) for n, figure in record.items() if isinstance(figure, float) and not isfinite(figure)}
        record |= beyond | {"epsilon": repr(trained.run.epsilon), "settings": self.settings}
        with self.path.open("ab+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            incomplete = file.read(1) not in (b"", b"\n")
            file.write((("\n" if incomplete else "") + json.dumps(record) + "\n").encode())
            os.fsync(file.fileno())


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """What all trainings of an experiment share: data, label range, loss and model. It can be sent to another process."""

    name: str
    dataset: Dataset
    domain: Domain
    loss: TrainingLoss
    epochs: int
    model: Model = "network"
    threads: int | None = None

    @classmethod
    def of(cls, task: Task, dataset: Dataset, epochs: int, model: Model = "network") -> TrainingSetup:
        """Return the setup for one of the paper's experiments."""
        return cls(task.name, dataset, task.domain_of(dataset), task.loss, epochs, model)

    @property
    def batch_size(self) -> int:
        """8,192 as in the paper. With fewer than 163,840 rows it is smaller, for about 16 steps in an epoch."""
        return int(min(PAPER_BATCH, max(64, len(self.dataset) * 4 // 5 // 16)))

    def settings(self) -> dict[str, Any]:
        """Return everything that a result depends on besides its `Run`."""
        return {
            "protocol": PROTOCOL,
            "experiment": self.name,
            "data": self.dataset.description,
            "data_digest": _digest(self.dataset),
            "rows": len(self.dataset),
            "model": self.model,
            **({"epochs": self.epochs, "batch_size": self.batch_size} if self.model == "network" else {}),
        }

    def regressor(self, seed: int, share: float | None = None) -> Any:
        """Return the paper's network for this task, or gradient boosting. With `share`, its size or epochs follow from that."""
        columns: dict[str, Any] = {
            "categorical": self.dataset.categorical,
            "numeric": self.dataset.numeric,
            "random_state": seed,
        }
        if self.model == "boosting":
            loss = "poisson" if self.loss == "poisson" else "squared_error"
            return BoostingRegressor(**columns, loss=loss, share=1.0 if share is None else share)
        epochs = self.epochs
        if share is not None:
            epochs = min(epochs, network_settings(len(self.dataset) * 4 // 5, share, self.batch_size)["epochs"])
        return NetworkRegressor(
            **columns, loss=self.loss, epochs=epochs, batch_size=self.batch_size, threads=self.threads
        )

    def train_and_test(self, run: Run) -> TrainedRun:
        """Train a model and test it. As in the paper, every seed splits the data differently."""
        start, cpu = time.perf_counter(), time.process_time()
        train, test = _split(self.dataset, run.seed)
        targets = self.targets(run, train.labels)
        predictions = self.regressor(run.seed, targets.share).fit(train.features, targets.values).predict(test.features)
        return TrainedRun(
            run=run,
            mechanism_loss=float(np.mean((targets.values - train.labels) ** 2)),
            test_loss=mean_loss(self.loss, predictions, test.labels),
            test_squared_error=float(np.mean((predictions - test.labels) ** 2)),
            seconds=round(time.perf_counter() - start, 3),
            cpu_seconds=round(time.process_time() - cpu, 3),
        )

    def targets(self, run: Run, labels: Floats) -> Targets:
        """Return the values that a run trains on."""
        if run.method == NOT_PRIVATE:
            return Targets(labels)
        generator = np.random.default_rng([run.seed, crc32(f"{run.method} {run.epsilon!r}".encode())])
        return get_method(run.method).targets(labels, self.domain, run.epsilon, generator)

    def seconds_per_run(self) -> float:
        """Estimated from a short training on some of the rows, after one that is not timed."""
        rows = min(len(self.dataset), 40_000)
        sample = self.dataset.take(np.arange(rows))
        short = replace(self, dataset=sample, epochs=2)
        short.regressor(0).fit(sample.features, sample.labels)
        start = time.perf_counter()
        short.regressor(0).fit(sample.features, sample.labels)
        passes = self.epochs / short.epochs if self.model == "network" else 1.0
        return (time.perf_counter() - start) * passes * 0.8 * len(self.dataset) / rows


@lru_cache(maxsize=1)
def _split(dataset: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Return the split of a seed. One is kept, because runs come seed by seed."""
    return dataset.split(seed)


def _digest(dataset: Dataset) -> str:
    """Return a digest of every label and of the first 100,000 rows of features."""
    state = hashlib.blake2b(dataset.labels.tobytes(), digest_size=16)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, dataset.features.schema) as writer:
        writer.write_table(dataset.features.slice(0, 100_000).combine_chunks())
    state.update(sink.getvalue())
    return state.hexdigest()


def planned_runs(methods: Sequence[str], epsilons: Iterable[float], seeds: int) -> list[Run]:
    """Return all trainings, seed by seed, so that an interruption leaves complete tables with fewer seeds.

    Each seed starts with the training without privacy, whether or not `epsilons` has infinity.
    """
    budgets = sorted(epsilon for epsilon in set(epsilons) if epsilon != INFINITY)
    return [
        run
        for seed in range(seeds)
        for run in (
            Run(NOT_PRIVATE, INFINITY, seed),
            *(Run(method, epsilon, seed) for epsilon in budgets for method in methods),
        )
    ]


def default_workers(rows: int) -> int:
    """Return the number of processes: one for each core that may be used, or a single one if there are very many rows."""
    return 1 if rows > SHARED_ROWS else int(joblib.cpu_count())


def train_all(setup: TrainingSetup, runs: Sequence[Run], workers: int) -> Iterator[TrainedRun]:
    """Yield the trained runs as they finish. If the iteration ends early, the workers end too."""
    if workers == 1 or len(runs) == 1:
        yield from map(setup.train_and_test, runs)
        return
    with joblib.parallel_config(
        "loky",
        inner_max_num_threads=1,
        idle_worker_timeout=IDLE_SECONDS,
        initializer=_start_worker,  # sends the data once; an argument of each task would be sent with each run
        initargs=(replace(setup, threads=1), os.getpid()),
    ):
        parallel = joblib.Parallel(min(workers, len(runs)), return_as="generator_unordered", batch_size=1)
        results = parallel(joblib.delayed(_train_in_worker)(run) for run in runs)
    try:
        for trained in results:  # noqa: UP028 - `yield from` would close it outside of the filter below
            yield trained
    except BrokenProcessPool as error:
        raise LabelDPError(
            "a training process died, most likely because memory ran out. Finished trainings are kept: "
            "run the same command again, with --workers 1 or fewer --rows"
        ) from error
    finally:
        with warnings.catch_warnings(action="ignore"):  # about abandoned tasks
            results.close()


def forecast(setup: TrainingSetup, trainings: int, processes: int) -> str:
    """Return how long trainings will take, estimated from a short training that uses all cores."""
    idle = 1.0 if processes == 1 else max(1.0, joblib.cpu_count() / processes)  # one process has a thread for each core
    seconds = trainings * setup.seconds_per_run() * idle
    passes = f" × {setup.epochs} epochs" if setup.model == "network" else ""
    return (
        f"{trainings} trainings of {len(setup.dataset) * 4 // 5:,} rows{passes} in "
        f"{processes} process{'es' if processes > 1 else ''}: about {duration(seconds)} at the speed measured just now. "
        "They can be interrupted and resumed."
    )


def duration(seconds: float) -> str:
    """Return a time in words, rounded as an estimate is."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 86_400:.1f} days"


_setup: TrainingSetup | None = None


def _start_worker(setup: TrainingSetup, parent: int) -> None:
    """Keep the data in this worker, and end the worker when its parent ends for any reason."""
    global _setup  # noqa: PLW0603 - a pool's only way to keep something in its processes
    _setup = setup

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _train_in_worker(run: Run) -> TrainedRun:
    assert _setup is not None
    try:
        return _setup.train_and_test(run)
    except Exception as error:
        error.add_note(f"in the training {run}")
        raise
