"""Many trainings on all cores: a process each with one thread, or one process with many where the data is large."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace

from labeldp.errors import LabelDPError
from labeldp.paper.experiments.journal import Outcome, Run
from labeldp.paper.experiments.methods import NOT_PRIVATE
from labeldp.paper.experiments.tasks import INFINITY
from labeldp.paper.experiments.training import Bench

SHARED_ROWS = 5_000_000
"""Above this a copy of the data in each process is too much memory."""


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
    return 1 if rows > SHARED_ROWS else available_cores()


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def execute_all(bench: Bench, runs: Sequence[Run], workers: int) -> Iterator[Outcome]:
    """Outcomes as they come. Whatever ends the iteration early, also ends the workers."""
    if workers == 1 or len(runs) == 1:
        yield from map(bench.execute, runs)
        return
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(workers, len(runs)),
        multiprocessing.get_context("spawn"),  # a fork would inherit the locks of threads that it does not have
        initializer=_start,
        initargs=(replace(bench, threads=1),),
    )
    try:
        with _one_thread_each():  # submitting starts the processes
            futures = [pool.submit(_execute, run) for run in runs]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise LabelDPError(
            "a training process died, most likely for want of memory. What was finished is kept: "
            "run the same command again, with --workers 1 or fewer --rows"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started here get one OpenMP thread: as many as cores in each of them would wait for one another."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


_bench: Bench | None = None


def _start(bench: Bench) -> None:
    """In each worker: keep the data, leave Ctrl-C to the parent, and end with the parent however it ends."""
    global _bench  # noqa: PLW0603 - a pool's only way to keep something in its processes
    _bench = bench
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _execute(run: Run) -> Outcome:
    assert _bench is not None
    return _bench.execute(run)
