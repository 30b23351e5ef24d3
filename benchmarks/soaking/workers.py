"""Processes that play scenes and send what they found, and what is said of one that dies before its end."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from soaking.play import Tally


@dataclass(frozen=True)
class Worker:
    """A process and the end of the pipe on which it sends."""

    process: BaseProcess
    results: Connection


def start_worker(work: Callable[..., None], *arguments: object) -> Worker:
    """Runs `work` in a process of its own, with a pipe to send results on before its arguments."""
    fork = multiprocessing.get_context("fork")
    reading, writing = fork.Pipe(duplex=False)
    process = fork.Process(target=work, args=(writing, *arguments))
    process.start()
    writing.close()  # this copy of it, so that the pipe ends when the worker does, however it ends
    return Worker(process, reading)


def results_of(workers: Sequence[Worker]) -> Iterator[dict[str, Any]]:
    """What the workers send, until all have ended. A worker that was killed or failed is a violation: its scene is not judged."""
    running = {worker.results: worker.process for worker in workers}
    while running:
        for results in wait(list(running)):
            try:
                yield results.recv()
            except EOFError:
                process = running.pop(results)
                process.join()
                if process.exitcode != 0:
                    violation = (
                        f"a process that plays scenes died with exit code {process.exitcode}: its scene is not judged"
                    )
                    yield {"scene": None, "tally": Tally(), "violation": violation}
