"""Tells a progress bar how far Spark's tasks are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from py4j.protocol import Py4JError
from pyspark import SparkContext, StatusTracker

from labeldp.tables.files import Progress

EVERY_SECONDS = 0.5


@contextmanager
def watched(context: SparkContext, group: str, rows: int, progress: Progress | None) -> Iterator[None]:
    """While the block runs, `progress` hears of `rows` rows in all, as the tasks of the job group end."""
    if progress is None:
        yield
        return
    told, ended, tracker = 0, Event(), context.statusTracker()

    def tell(share: float) -> None:
        nonlocal told
        if (done := int(share * rows)) > told:
            progress(done - told)
            told = done

    def watch() -> None:
        with suppress(Py4JError, OSError):  # Spark is gone, which the job's own error says
            while not ended.wait(EVERY_SECONDS):
                tell(_share_done(tracker, group))

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
        ended.set()
        thread.join()
        tell(1.0)
    finally:
        ended.set()


def _share_done(tracker: StatusTracker, group: str) -> float:
    """The share of the tasks of a job group that are done. Stages that have not begun count as one task."""
    tasks = done = 0
    for number in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(number)
        for stage in () if info is None else info.stageIds:
            known = tracker.getStageInfo(stage)
            tasks += 1 if known is None else known.numTasks
            done += 0 if known is None else known.numCompletedTasks
    return done / tasks if tasks else 0.0
