"""Many trainings on all cores: processes with one thread each, or one process with many threads for large data.

And how long they will take.
"""

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
from labeldp.paper.experiments.training import TrainingSetup
from labeldp.paper.experiments.training_log import Run, TrainedRun

SHARED_ROWS = 5_000_000
"""With more rows, a copy of the data in each process takes too much memory."""
IDLE_SECONDS = 10
"""A process without work ends after this time and frees its memory."""


def planned_runs(methods: Sequence[str], epsilons: Iterable[float], seeds: int) -> list[Run]:
    """All trainings, seed by seed, so that an interruption leaves complete tables with fewer seeds.

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
    """The number of processes: one for each core that may be used, or a single one if there are very many rows."""
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
        with warnings.catch_warnings(action="ignore"):  # about tasks that nobody waits for any more
            results.close()


def forecast(setup: TrainingSetup, trainings: int, processes: int) -> str:
    """Say how long trainings will take, estimated from a short training that uses all cores."""
    idle = 1.0 if processes == 1 else max(1.0, joblib.cpu_count() / processes)  # one process has a thread for each core
    seconds = trainings * setup.seconds_per_run() * idle
    passes = f" × {setup.epochs} epochs" if setup.model == "network" else ""
    return (
        f"{trainings} trainings of {len(setup.dataset) * 4 // 5:,} rows{passes} in "
        f"{processes} process{'es' if processes > 1 else ''}: about {duration(seconds)} at the speed measured just now. "
        "They can be interrupted and resumed."
    )


def duration(seconds: float) -> str:
    """A time in words, rounded as an estimate is."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 86_400:.1f} days"


_setup: TrainingSetup | None = None


def _start_worker(setup: TrainingSetup, parent: int) -> None:
    """Keep the data in this worker, and end the worker when its parent ends for whatever reason."""
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
