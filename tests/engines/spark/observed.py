"""Notes every private label that any attempt of any task gives out, and makes tasks go wrong in the middle.

`observed` is a block in which the tasks of both passes are wrapped. Each attempt of pass two writes what it emits to a file of
its own, before Spark gets it. `two_labels` then counts the ids that were ever given more than one private label.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from pyspark import TaskContext, cloudpickle

from labeldp.engines.spark import jobs, writing
from labeldp.engines.spark.shuffle import integers_of
from labeldp.sampling import BoundRandomness, OsEntropy

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this file

CHECKING, DRAWING, ORDERING = "CheckTask", "DrawTask", "OrderTask"
FAIL, HANG = "fail", "hang"
HALF = 2
"""After so many batches a task goes wrong. It has more than twice as many."""
CUT_ROWS = 200
PAIR = np.dtype([("id", "<i8"), ("code", "<i8")])


class FreshNoise(BoundRandomness):
    """What a naive engine would use: new words each time."""

    __slots__ = ()

    def draw(self, symbols, *, ids=None, digest, rounding=False):
        return OsEntropy().draw(symbols, rounding=rounding)

    def __reduce__(self):
        return FreshNoise, (self._digest, self._subkeys)


@dataclass(frozen=True)
class Fault:
    """What goes wrong, in one attempt of one task: `FAIL` raises, `HANG` waits until somebody kills it."""

    task: str
    kind: str

    def strike(self, folder: str) -> None:
        try:
            marker = os.open(f"{folder}/fired", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return
        os.write(marker, f"{_executor()} {TaskContext.get().partitionId()}\n".encode())
        os.close(marker)
        if self.kind == FAIL:
            raise RuntimeError
        while True:
            time.sleep(0.05)


@dataclass(frozen=True)
class Observed:
    """A task of pass two, watched."""

    task: object
    folder: str
    fault: Fault | None

    def __call__(self, batches):
        context, name = TaskContext.get(), type(self.task).__name__
        attempt = f"{name}-{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}-{uuid.uuid4()}"
        with Path(self.folder, f"{attempt}.labels").open("wb") as file:
            for number, batch in enumerate(_cut(self.task(batches))):
                codes = np.asarray(batch.column("code"))
                pairs = np.empty(codes.size, PAIR)
                pairs["id"] = integers_of(np.asarray(batch.column("key"))) if name == DRAWING else batch.column(0)
                pairs["code"] = codes
                file.write(pairs[codes >= 0].tobytes())
                file.flush()
                yield batch
                if number == HALF and self.fault is not None and self.fault.task == name:
                    self.fault.strike(self.folder)


def _cut(batches):
    """Small batches, so that there is a middle in which a task can go wrong."""
    for batch in batches:
        for start in range(0, batch.num_rows, CUT_ROWS):
            yield batch.slice(start, CUT_ROWS)


@dataclass(frozen=True)
class Checked:
    """The task of pass one, which may go wrong."""

    task: object
    folder: str
    fault: Fault | None

    def __call__(self, batches):
        return self.task(self._passed_on(batches))

    def _passed_on(self, batches):
        for number, batch in enumerate(batches):
            yield batch
            if number == HALF and self.fault is not None and self.fault.task == CHECKING:
                self.fault.strike(self.folder)


@contextmanager
def observed(folder: Path, fault: Fault | None = None, *, fresh: bool = False) -> Iterator[None]:
    """A block in which tasks are watched. With `fresh`, they draw fresh noise. Ids must be integers."""
    draw, order, mapped = writing.DrawTask, writing.OrderTask, jobs.mapped

    def checked(frame, task, schema):
        return mapped(frame, Checked(task, str(folder), fault), schema)

    def drawing(*arguments):
        task = draw(*arguments)
        if fresh:
            task = replace(task, randomness=FreshNoise(task.randomness._digest, task.randomness._subkeys))
        return Observed(task, str(folder), fault)

    def ordering(*arguments):
        return Observed(order(*arguments), str(folder), fault)

    with (
        mock.patch.object(jobs, "mapped", checked),
        mock.patch.object(writing, DRAWING, drawing),
        mock.patch.object(writing, ORDERING, ordering),
    ):
        yield


def attempts(folder: Path, task: str) -> dict[int, int]:
    """How many attempts of each partition there were."""
    counts: dict[int, int] = {}
    for file in folder.glob(f"{task}-*.labels"):
        partition = int(file.stem.split("-")[2])
        counts[partition] = counts.get(partition, 0) + 1
    return counts


def seen(folder: Path) -> np.ndarray:
    """All pairs of id and code that any attempt emitted."""
    return np.concatenate([np.fromfile(file, PAIR) for file in folder.glob("*.labels")])


def two_labels(*pairs: np.ndarray) -> int:
    """How many ids occur with more than one code."""
    different = np.unique(np.concatenate(pairs))
    return int(np.count_nonzero(np.unique(different["id"], return_counts=True)[1] > 1))


def committed(message) -> np.ndarray:
    """The pairs in a message."""
    table = message.to_arrow()
    pairs = np.empty(table.num_rows, PAIR)
    pairs["id"], pairs["code"] = table[0], table["code"]
    return pairs


class Fired(NamedTuple):
    """Where the fault struck."""

    executor: int
    """The process."""
    partition: int


def fired(folder: Path) -> Fired:
    """Where the fault struck. Fails if it did not."""
    return Fired(*map(int, (folder / "fired").read_text().split()))


def _executor() -> int:
    """The Java process whose daemon forked this worker."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[1])
