"""Many trainings on all cores: a process each with one thread, or one process with many where the data is large."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import joblib

from labeldp.errors import LabelDPError
from labeldp.paper.experiments.methods import NOT_PRIVATE
from labeldp.paper.experiments.tasks import INFINITY
from labeldp.paper.experiments.training import Bench
from labeldp.paper.experiments.training_log import Run, TrainedRun

SHARED_ROWS = 5_000_000
"""Above this a copy of the data in each process is too much memory."""
IDLE_SECONDS = 10
"""A process without work ends after this and gives its memory back."""


def plan(methods: Sequence[str], epsilons: Iterable[float], runs: int) -> list[Run]:
    """All trainings, seed by seed, so that an interruption leaves whole tables with fewer seeds. Without ε = ∞ no base."""
    budgets = sorted(epsilon for epsilon in set(epsilons) if epsilon != INFINITY)
    return [
        run
        for seed in range(runs)
        for run in (
            Run(NOT_PRIVATE, INFINITY, seed),
            *(Run(method, epsilon, seed) for epsilon in budgets for method in methods),
        )
    ]


def default_workers(rows: int) -> int:
    """A process for each core that this one may use, or one that uses them all."""
    return 1 if rows > SHARED_ROWS else int(joblib.cpu_count())


def execute_all(bench: Bench, runs: Sequence[Run], workers: int) -> Iterator[TrainedRun]:
    """Outcomes as they come. Whatever ends the iteration early, also ends the workers."""
    if workers == 1 or len(runs) == 1:
        yield from map(bench.execute, runs)
        return
    with joblib.parallel_config(
        "loky",
        inner_max_num_threads=1,
        idle_worker_timeout=IDLE_SECONDS,
        initializer=_start,  # tasks that carried the data would send it again with each run
        initargs=(replace(bench, threads=1), os.getpid()),
    ):
        parallel = joblib.Parallel(min(workers, len(runs)), return_as="generator_unordered", batch_size=1)
        outcomes = parallel(joblib.delayed(_execute)(run) for run in runs)
    try:
        for outcome in outcomes:  # noqa: UP028 - `yield from` would close it outside of the filter below
            yield outcome
    except BrokenProcessPool as error:
        raise LabelDPError(
            "a training process died, most likely for want of memory. What was finished is kept: "
            "run the same command again, with --workers 1 or fewer --rows"
        ) from error
    finally:
        with warnings.catch_warnings(action="ignore"):  # that some tasks were not waited for
            outcomes.close()


_bench: Bench | None = None


def _start(bench: Bench, parent: int) -> None:
    """In each worker: keep the data, and end with the parent however it ends."""
    global _bench  # noqa: PLW0603 - a pool's only way to keep something in its processes
    _bench = bench

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _execute(run: Run) -> TrainedRun:
    assert _bench is not None
    try:
        return _bench.execute(run)
    except Exception as error:
        error.add_note(f"in the training {run}")
        raise
