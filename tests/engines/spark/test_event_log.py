"""The event log of a release depends on no label. Clusters keep event logs for years, and operators read them.

The same release runs on inputs that differ in every label. What is drawn is pinned, as in `test_non_interference.py`, because
private labels may differ. Then plans and metrics must be the same, but for times and what `EXCUSED` lists. The inputs have files
of one size: Spark logs how many bytes it reads.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_log import differences, logged, shown
from pyspark import cloudpickle

import labeldp.spark
from labeldp import Domain
from labeldp.engines.spark import worker, writing
from labeldp.engines.spark.worker import CheckTask, RecordReader
from labeldp.sampling.multiset import MultisetHash

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this file

ROWS = 2000
LABELS = {
    "uniform": np.random.default_rng(1).uniform(0, 400, ROWS),
    "same": np.full(ROWS, 7.0),
    "bounds": np.tile([0.0, 400.0], ROWS // 2),
}


@dataclass(frozen=True)
class Pinned:
    """Draws, and gives every record the same code."""

    task: object

    def __call__(self, batches):
        for batch in self.task(batches):
            place = batch.schema.get_field_index("code")
            codes = pa.array(np.minimum(batch.column(place), 0), batch.schema.types[place])
            yield batch.set_column(place, batch.schema.field(place), codes)


def events_of(spark, folder, labels):
    """What the event log says of a release of these labels."""
    folder.mkdir()
    file = folder / "input.parquet"
    pq.write_table(pa.table({"id": np.arange(ROWS), "y": labels}), file, compression="none", use_dictionary=False)
    draw = writing.DrawTask
    with mock.patch.object(writing, "DrawTask", lambda *given: Pinned(draw(*given))), logged(spark) as events:
        labeldp.spark.privatize(
            spark.read.parquet(str(file)), label="y", id="id", epsilon=1, domain=(0, 400), out=folder / "message",
            mechanism="rr-on-bins",
        )  # fmt: skip
    return events


def test_plans_and_metrics_do_not_depend_on_labels(spark, tmp_path):
    logs = [shown(events_of(spark, tmp_path / name, LABELS[name]), tmp_path / name) for name in ("uniform", "same")]
    assert {channel[0] for channel in logs[0]} == {"task", "driver", "plan"}
    assert len(logs[0]) > 50
    assert differences(*logs) == {}


def test_a_task_of_an_earlier_test_that_ends_late_does_not_count(spark, tmp_path):
    events = events_of(spark, tmp_path / "uniform", LABELS["uniform"])
    stages = [event["Stage ID"] for event in events if event["Event"] == "SparkListenerTaskEnd"]
    late = {
        "Event": "SparkListenerTaskEnd", "Stage ID": min(stages) - 1, "Task End Reason": {"Reason": "TaskKilled"},
        "Task Info": {"Index": 0, "Accumulables": [{"Name": "late", "Update": 1}]},
    }  # fmt: skip
    assert shown([late, *events], tmp_path / "uniform") == shown(events, tmp_path / "uniform")


def test_what_workers_read_is_not_compressed(spark, tmp_path):
    """The size of what Spark sends to workers is in the event log, and compressed labels take the less the more they are alike."""
    codec = "spark.sql.execution.arrow.compression.codec"
    spark.conf.set(codec, "zstd")
    try:
        logs = [shown(events_of(spark, tmp_path / name, LABELS[name]), tmp_path / name) for name in ("uniform", "same")]
        assert spark.conf.get(codec) == "zstd"
    finally:
        spark.conf.unset(codec)
    assert differences(*logs) == {}


def returned(labels):
    """What the task of pass one returns for a partition with these labels, and what it has encrypted."""
    task = CheckTask(
        RecordReader("int", None), Domain(0, 400), MultisetHash.subkeys(bytes(32)), Domain(0, 400, 400), None
    )
    plain = []
    with mock.patch.object(worker, "encrypt", lambda data, key: plain.append(data) or encrypt(data, key)):
        (batch,) = task(iter([pa.record_batch({"id": np.arange(ROWS), "label": labels})]))
    return batch.column(0)[0].as_py(), plain[0]


encrypt = worker.encrypt


@pytest.mark.parametrize("codec", ["lz4_raw", "snappy", "zstd"])
def test_what_pass_one_returns_does_not_compress(codec):
    """Spark compresses it and logs its size. Plain counts compress the better the fewer cells are filled."""
    pairs = [returned(labels) for labels in LABELS.values()]
    (size,) = {len(row) for row, _ in pairs}
    assert all(len(pa.compress(row, codec, asbytes=True)) > size - 8 for row, _ in pairs)
    plain = [len(pa.compress(row, codec, asbytes=True)) for _, row in pairs]
    assert max(plain) - min(plain) > 50, "which is why it is encrypted"
