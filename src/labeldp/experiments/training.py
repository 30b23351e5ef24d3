"""One training of the paper's evaluation: split, private labels, network, test error."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from labeldp.arrays import Floats
from labeldp.data import Dataset
from labeldp.domain import Domain
from labeldp.experiments.journal import Outcome, Run
from labeldp.experiments.methods import METHODS, NOT_PRIVATE
from labeldp.experiments.tasks import Task
from labeldp.learn.network import NetworkRegressor
from labeldp.learn.weights import TrainingLoss, mean_loss

PROTOCOL = 1
"""Raised when the same settings would give other results, so that old records are not mixed with new ones."""
PAPER_BATCH = 8192


@dataclass(frozen=True, eq=False)
class Bench:
    """An experiment set up: the data, the label range, the loss and how long to train. It can be sent to a process."""

    name: str
    dataset: Dataset
    domain: Domain
    loss: TrainingLoss
    epochs: int
    threads: int | None = None

    @classmethod
    def of(cls, task: Task, dataset: Dataset, epochs: int) -> Bench:
        """For one of the paper's experiments."""
        return cls(task.name, dataset, task.domain_of(dataset), task.loss, epochs)

    @property
    def batch_size(self) -> int:
        """8,192 as in the paper from 163,840 rows on; below, what makes about sixteen steps an epoch."""
        return int(min(PAPER_BATCH, max(64, len(self.dataset) * 4 // 5 // 16)))

    def settings(self) -> dict[str, Any]:
        """All that a result depends on besides its `Run`."""
        return {
            "protocol": PROTOCOL,
            "experiment": self.name,
            "data": self.dataset.description,
            "data_digest": _digest(self.dataset),
            "rows": len(self.dataset),
            "epochs": self.epochs,
            "batch_size": self.batch_size,
        }

    def network(self, seed: int, epochs: int | None = None) -> NetworkRegressor:
        """The paper's network and training for this task."""
        return NetworkRegressor(
            categorical=self.dataset.categorical,
            numeric=self.dataset.numeric,
            loss=self.loss,
            epochs=epochs or self.epochs,
            batch_size=self.batch_size,
            threads=self.threads,
            random_state=seed,
        )

    def execute(self, run: Run) -> Outcome:
        """Train and test. As in the paper, every seed partitions the data anew."""
        start, cpu = time.perf_counter(), time.process_time()
        train, test = _parts(self.dataset, run.seed)
        values = self.private_values(run, train.labels)
        predictions = self.network(run.seed).fit(train.features, values).predict(test.features)
        return Outcome(
            run=run,
            mechanism_loss=float(np.mean((values - train.labels) ** 2)),
            test_loss=mean_loss(self.loss, predictions, test.labels),
            test_squared_error=float(np.mean((predictions - test.labels) ** 2)),
            seconds=round(time.perf_counter() - start, 3),
            cpu_seconds=round(time.process_time() - cpu, 3),
        )

    def private_values(self, run: Run, labels: Floats) -> Floats:
        """The training labels of a run."""
        if run.method == NOT_PRIVATE:
            return labels
        generator = np.random.default_rng([run.seed, crc32(f"{run.method} {run.epsilon!r}".encode())])
        return METHODS[run.method].private_values(labels, self.domain, run.epsilon, generator)

    def rows_per_second(self) -> float:
        """Measured on a short training, without what the first one costs."""
        sample = self.dataset.take(np.arange(min(len(self.dataset), 40_000)))
        self.network(0, epochs=1).fit(sample.features, sample.labels)
        start = time.perf_counter()
        self.network(0, epochs=4).fit(sample.features, sample.labels)
        return 4 * len(sample) / (time.perf_counter() - start)


@lru_cache(maxsize=1)
def _parts(dataset: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """The partition of a seed; runs come seed by seed."""
    return dataset.split(seed)


def _digest(dataset: Dataset) -> str:
    """Of every label and the first 100,000 rows of features."""
    state = hashlib.blake2b(dataset.labels.tobytes(), digest_size=16)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, dataset.features.schema) as writer:
        writer.write_table(dataset.features.slice(0, 100_000).combine_chunks())
    state.update(sink.getvalue())
    return state.hexdigest()
