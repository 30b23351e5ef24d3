"""A progress bar hears of every record: once while they are checked, twice while they are randomized."""

from __future__ import annotations

import pytest
from spark_scenes import records, release

from labeldp import LabelDPError
from labeldp.engines.spark import jobs
from labeldp.spark import apply


class Heard:
    """Phases in their order, with what was announced and what was told."""

    def __init__(self):
        self.phases = []

    def __call__(self, name, rows):
        told = []
        self.phases.append((name, rows, told))
        return told.append

    @property
    def sums(self):
        return [(name, rows, sum(told)) for name, rows, told in self.phases]


def test_sums(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "EVERY_SECONDS", 0.01)
    heard = Heard()
    frame = spark.createDataFrame(records()).repartition(5)
    release(frame, tmp_path, key_file=tmp_path / "key", phase=heard)
    apply(spark.createDataFrame(records(20, 50)), tmp_path / "message", key_file=tmp_path / "key", phase=heard)
    assert heard.sums == [
        ("checking", 60, 60),
        ("randomizing", 120, 120),
        ("checking", 20, 20),
        ("randomizing", 40, 40),
    ]
    assert all(step > 0 for *_, told in heard.phases for step in told)


def test_a_pass_that_fails_is_not_told_to_be_done(spark, tmp_path):
    heard = Heard()
    frame = spark.createDataFrame([(1, "1"), (2, "x")], "id long, y string").selectExpr("id", "cast(y as double) y")
    with pytest.raises(LabelDPError, match="cannot read the frame"):
        release(frame, tmp_path, phase=heard)
    ((name, rows, told),) = heard.sums
    assert (name, rows) == ("checking", 2)
    assert told < rows
