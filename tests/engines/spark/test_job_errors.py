"""Jobs that fail: what was charged is said, the run can be repeated, and no value of a record is shown."""

from __future__ import annotations

import io
import logging

import pytest
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.serializers import CloudPickleSerializer
from spark_scenes import frame_of, records, saved

from labeldp import InvalidInput, LabelDPError
from labeldp.engines.spark import jobs, writing
from labeldp.engines.spark.worker import CHANGED, FAILED, REPEATED, without_error_texts
from labeldp.engines.spark.writing import write_parts

SECRET = "77123"


def test_a_damaged_file_is_refused_before_the_charge(spark, place, tmp_path):
    frame = frame_of(spark, records(), tmp_path)
    file = saved(records(), tmp_path)
    content = bytearray(file.read_bytes())
    content[4:200] = b"\xff" * 196
    file.write_bytes(content)
    with place.refused("cannot read the frame: .*Nothing was released or charged") as refusal:
        place.release(frame, key_file=place.folder / "key")
    assert refusal.value.exit_code == 1


@pytest.fixture
def printed():
    """What PySpark prints by itself of errors in expressions."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    for logger in loggers:
        logger.addHandler(handler)
    yield text
    for logger in loggers:
        logger.removeHandler(handler)


def test_a_value_in_the_text_of_spark_is_not_shown(spark, place, printed):
    frame = spark.createDataFrame([(1, f"x{SECRET}y")], "id long, y string").selectExpr("id", "cast(y as double) y")
    with place.refused("CAST_INVALID_INPUT", SECRET) as refusal:
        place.release(frame)
    error = refusal.value
    while error is not None:  # hidden in a traceback, but there for whoever looks
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__
    assert printed.getvalue() == ""
    with pytest.raises(PySparkException, match=SECRET):
        frame.collect()
    assert SECRET in printed.getvalue(), "it would have been noticed"


@pytest.fixture
def broken_writer(monkeypatch):
    """Spark's writer cannot write, until it is called."""
    monkeypatch.setattr(writing, "write_parts", lambda rows, _: write_parts(rows, "file:///proc/labeldp"))
    return lambda: monkeypatch.setattr(writing, "write_parts", write_parts)


def test_a_failure_after_the_charge_can_be_repaired_at_no_cost(spark, place, broken_writer):
    frame, key = spark.createDataFrame(records()), place.folder / "key"
    with place.refused("cannot write .*continues where it stopped, at no further cost", charged=1) as refusal:
        place.release(frame, key_file=key)
    assert refusal.value.exit_code == 1
    broken_writer()
    assert place.release(frame, key_file=key).records == 60
    assert place.ledger.remaining("sales") == 2


@pytest.mark.usefixtures("broken_writer")
def test_without_a_key_the_charge_is_lost(spark, place):
    with place.refused("The release stays charged.*running again is a new charge", charged=1):
        place.release(spark.createDataFrame(records()))


def test_a_frame_that_fails_only_in_the_second_pass(spark, place):
    file = saved(records(), place.folder)
    frame = spark.read.parquet(str(file))

    def phase(name, rows):
        if name == "randomizing":
            file.unlink()

    with pytest.raises(LabelDPError, match="Spark could not finish a job"):
        place.release(frame, phase=phase)
    assert sorted(path.name for path in place.folder.iterdir()) == ["ledger.db"]


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (f"x {REPEATED} y", jobs.IdRepeated, "^$"),
        (f"x {CHANGED} y", jobs.InputChanged, "^$"),
        ("ModuleNotFoundError: No module named 'labeldp'", InvalidInput, "Install the same version of labeldp there"),
        ("ModuleNotFoundError: No module named 'labeldp.engines'", InvalidInput, "PYSPARK_PYTHON"),
        (
            f"x {FAILED} ArrowInvalid\n at {SECRET}",
            jobs.SparkFailed,
            "failed with ArrowInvalid. See Spark's log for the location",
        ),
        (f"of {SECRET}", jobs.SparkFailed, r"could not finish a job \(PySparkException\)"),
    ],
)
def test_what_texts_of_spark_mean(spark, text, kind, said):
    with pytest.raises(kind, match=said) as failure, jobs.job(spark, 0, None):
        raise PySparkException(text)
    assert SECRET not in str(failure.value)
    assert failure.value.__suppress_context__


def test_the_users_job_group_stays(spark):
    context = spark.sparkContext
    context.setJobGroup("mine", "my work")
    try:
        with jobs.job(spark, 0, None):
            assert context.getLocalProperty("spark.jobGroup.id").startswith("labeldp-")
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)
    with jobs.job(spark, 0, None):
        pass
    assert context.getLocalProperty("spark.jobGroup.id") is None


def test_a_task_that_would_become_a_broadcast_is_refused(spark):
    ballast = bytes(600_000)  # more than half of what Spark sends inside a plan

    def task(batches):
        yield from batches
        assert ballast

    with pytest.raises(InvalidInput, match="would write it to disk with the release's subkeys"):
        jobs.mapped(spark.range(3), task, "id long")


def test_what_pyspark_adds_to_a_task_makes_it_no_broadcast(spark, monkeypatch):
    """PySpark compares the function together with its types, which is longer than the function."""

    def task(batches):
        yield from batches

    size = len(CloudPickleSerializer().dumps(without_error_texts(task)))
    monkeypatch.setattr(jobs, "_broadcast_threshold", lambda spark: size)
    with pytest.raises(InvalidInput, match="would write it to disk with the release's subkeys"):
        jobs.mapped(spark.range(3), task, "id long")
