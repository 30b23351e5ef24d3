"""Spark jobs: running them, tracking their progress, and turning their failures into errors that show no labels."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from py4j.protocol import Py4JError
from pyspark import SparkContext, StatusTracker
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from labeldp.engines.spark.worker import (
    CHANGED,
    FAILED,
    REPEATED,
    RESULT_DDL,
    Batches,
    CountingTask,
    without_error_texts,
)
from labeldp.errors import InvalidInput, LabelDPError, PrivacyRefused
from labeldp.tables.files import Progress

EVERY_SECONDS = 0.5
MOST_RESULT_BYTES = 1 << 28
"""The approximate limit on the total size of results at the driver, unless that allows fewer than two results per core."""
_CODEC = "spark.sql.execution.arrow.compression.codec"
_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@contextmanager
def watched(context: SparkContext, group: str, rows: int, progress: Progress | None) -> Iterator[None]:
    """Report a total of `rows` rows to `progress` during the block, as the tasks of the job group end."""
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
        with suppress(Py4JError, OSError):  # Spark is gone, which the job's own error reports
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
    """Return the share of the tasks of a job group that are done. Stages that have not begun count as one task."""
    tasks = done = 0
    for number in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(number)
        for stage in () if info is None else info.stageIds:
            known = tracker.getStageInfo(stage)
            tasks += 1 if known is None else known.numTasks
            done += 0 if known is None else known.numCompletedTasks
    return done / tasks if tasks else 0.0


class InputChanged(Exception):  # noqa: N818 - reads as what it is
    """A worker read records that differ from the checked ones."""


class IdRepeated(Exception):  # noqa: N818
    """A worker found two records with the same id."""


class SparkFailed(OSError):  # noqa: N818
    """Spark could not finish a job. `release/` reports what was charged."""


def mapped(frame: DataFrame, task: Callable[[Batches], Batches], schema: StructType | str) -> DataFrame:
    """Return the frame after `task`, which runs on the workers. Raise `PrivacyRefused` if it is too large to be sent inside the plan.

    PySpark turns a larger one into a broadcast. Its file is stored in temporary folders, in plain text unless Spark
    encrypts them.
    """
    run = without_error_texts(task)
    size = len(CloudPickleSerializer().dumps(run))
    if 2 * size > _broadcast_threshold(frame.sparkSession):  # twice, because PySpark adds the schema and other data
        raise PrivacyRefused(
            f"the work for Spark's workers takes {size:,} bytes, so that Spark would write it to disk with the release's "
            "subkeys in it. Raise spark.broadcast.UDFCompressionThreshold, whose default is 1m"
        )
    with warnings.catch_warnings():  # PySpark imports pandas 3 and warns about it, but Arrow batches do not use it
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return frame.mapInArrow(run, schema)


@contextmanager
def job(spark: SparkSession, rows: int, progress: Progress | None) -> Iterator[None]:
    """Run one job over `rows` rows during the block. Its failures become our errors, and stopping the run stops the job."""
    context = spark.sparkContext
    group = f"labeldp-{uuid.uuid4()}"
    before: dict[str, str | None] = {}
    try:
        before = {name: context.getLocalProperty(name) for name in _GROUP_PROPERTIES}
        context.setJobGroup(group, "labeldp", interruptOnCancel=True)
        with _quiet(), _uncompressed(spark), watched(context, group, rows, progress):
            yield
    except (PySparkException, Py4JError) as error:
        raise _ours(error) from None  # Spark's messages may show a value; they are in its log
    except BaseException:
        tidy(partial(context.cancelJobGroup, group))
        raise
    finally:
        for name, value in before.items():
            tidy(partial(context.setLocalProperty, name, value))  # type: ignore[arg-type] # None removes it


class Collected(NamedTuple):
    """What all partitions returned: counts, added up, and the bytes of each array."""

    totals: dict[str, int]
    arrays: dict[str, list[bytes]]

    def summed(self, name: str, shape: int | tuple[int, ...], kind: type[np.generic] = np.int64) -> NDArray[Any]:
        """Return the sum of an array over all partitions."""
        parts = (np.frombuffer(part, kind) for part in self.arrays[name])
        return sum(parts, np.zeros(int(np.prod(shape)), kind)).reshape(shape)

    def joined(self, name: str, kind: type[np.generic]) -> NDArray[Any]:
        """Return the arrays of all partitions, one after the other."""
        return np.frombuffer(b"".join(self.arrays[name]), kind)


def collected(
    frame: DataFrame, task: CountingTask, result_bytes: int, rows: int = 0, progress: Progress | None = None
) -> Collected:
    """Run a task that returns one encrypted row per partition, and return what these rows say.

    The number of partitions is limited so that their results, of about `result_bytes` each, fit into the driver.
    """
    spark = frame.sparkSession
    most = max(2 * spark.sparkContext.defaultParallelism, MOST_RESULT_BYTES // (result_bytes + 128))
    with job(spark, rows, progress):
        returned = mapped(frame.coalesce(most), task, RESULT_DDL).collect()
    results = [task.opened(row["result"]) for row in returned]
    totals = {name: sum(result[name] for result in results) for name in task.COUNTS}
    return Collected(totals, {name: [result[name] for result in results] for name in task.ARRAYS})


@contextmanager
def nothing_charged() -> Iterator[None]:
    """Add to errors of passes before the charge that nothing was charged."""
    try:
        yield
    except SparkFailed as error:
        raise LabelDPError(f"cannot read the frame: {error}. Nothing was released or charged") from None


def tidy(step: Callable[[], object]) -> None:
    """Run a clean-up step. If Spark is gone, there is nothing to clean up, and the first error is the one to show."""
    with suppress(PySparkException, Py4JError, OSError):
        step()


@contextmanager
def without_spark_texts() -> Iterator[None]:
    """Remove Spark's own errors from the causes of ours, because their messages may show a value."""
    try:
        yield
    except LabelDPError as error:
        link: BaseException | None = error
        while link is not None:
            for name in ("__cause__", "__context__"):
                if isinstance(getattr(link, name), (PySparkException, Py4JError)):
                    setattr(link, name, None)
            link = link.__cause__ or link.__context__
        raise


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PySpark from printing error messages in expressions, which may show a value."""
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@contextmanager
def _uncompressed(spark: SparkSession) -> Iterator[None]:
    """Keep Spark from compressing the input of workers: the event log shows the number of bytes, which would depend on the labels."""
    chosen = spark.conf.get(_CODEC, "none") or "none"
    if chosen == "none":
        yield
        return
    spark.conf.set(_CODEC, "none")
    try:
        yield
    finally:
        tidy(partial(spark.conf.set, _CODEC, chosen))


def _broadcast_threshold(spark: SparkSession) -> int:
    java: Any = spark.sparkContext
    return int(java._jvm.PythonUtils.getBroadcastThreshold(java._jsc))  # noqa: SLF001 - PySpark reads it there


def _ours(error: PySparkException | Py4JError) -> Exception:
    text = str(error)
    if REPEATED in text:
        return IdRepeated()
    if CHANGED in text:
        return InputChanged()
    if "No module named 'labeldp" in text:
        return InvalidInput(
            "Spark's workers run a Python that does not have labeldp. Install the same version of labeldp there, or set "
            "PYSPARK_PYTHON to a Python that has it"
        )
    if FAILED in text:
        name = text.split(FAILED, 1)[1].split(maxsplit=1)[0]
        return SparkFailed(f"a task on a worker failed with {name}. See Spark's log for the location")
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return SparkFailed(
        f"Spark could not finish a job ({condition or type(error).__name__}). See Spark's log for the reason"
    )
