"""One training of the paper's evaluation: split the rows, randomize the labels, train a model, test it."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal
from zlib import crc32

import numpy as np
import pyarrow as pa

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.paper.data import Dataset
from labeldp.paper.experiments.methods import NOT_PRIVATE, Targets, get_method
from labeldp.paper.experiments.tasks import Task
from labeldp.paper.experiments.training_log import Run, TrainedRun
from labeldp.paper.network.regressor import NetworkRegressor, network_settings
from labeldp.paper.network.weights import TrainingLoss, mean_loss
from labeldp.training.learners import BoostingRegressor

Model = Literal["network", "boosting"]
PROTOCOL = 3
"""Increase it when a change makes the same settings give other results. Runs of an older protocol are then repeated."""
PAPER_BATCH = 8192


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
        """The setup for one of the paper's experiments."""
        return cls(task.name, dataset, task.domain_of(dataset), task.loss, epochs, model)

    @property
    def batch_size(self) -> int:
        """8,192 as in the paper. With fewer than 163,840 rows it is smaller, for about 16 steps in an epoch."""
        return int(min(PAPER_BATCH, max(64, len(self.dataset) * 4 // 5 // 16)))

    def settings(self) -> dict[str, Any]:
        """Everything that a result depends on besides its `Run`."""
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
        """The paper's network for this task, or gradient boosting. With `share`, its size or epochs follow from that."""
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
            **columns,
            loss=self.loss,
            epochs=epochs,
            batch_size=self.batch_size,
            threads=self.threads,
        )

    def train_and_test(self, run: Run) -> TrainedRun:
        """Train a model and test it. As in the paper, every seed splits the data anew."""
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
        """The values that a run trains on."""
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
    """The split of a seed. One is kept, because runs come seed by seed."""
    return dataset.split(seed)


def _digest(dataset: Dataset) -> str:
    """A digest of every label and of the first 100,000 rows of features."""
    state = hashlib.blake2b(dataset.labels.tobytes(), digest_size=16)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, dataset.features.schema) as writer:
        writer.write_table(dataset.features.slice(0, 100_000).combine_chunks())
    state.update(sink.getvalue())
    return state.hexdigest()
