"""A message from Spark is a message: it is trained on and audited like any other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import release

from labeldp.cli import main
from labeldp.engines.spark import shuffle
from labeldp.spark import matching_features

ROWS = 600


def command(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["labeldp", *map(str, arguments)])
    try:
        return main() or 0
    except SystemExit as stop:
        return stop.code or 0


def test_audit_and_train(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shuffle, "ROWS_PER_PART", 200)
    x = np.random.default_rng(0).uniform(0, 10, ROWS)
    frame = spark.createDataFrame(pa.table({"id": [f"r{row}" for row in range(ROWS)], "x": x, "y": x}))
    message = release(frame, tmp_path, epsilon=3)
    assert len(message.files) == 4
    assert command(monkeypatch, "audit", message.path) == 0
    sample = tmp_path / "sample.parquet"
    matching_features(frame.drop("y"), message, rows=500).write.parquet(str(sample))
    model = tmp_path / "model"
    options = ("--features", sample, "--id", "id", "--out", model)
    assert command(monkeypatch, "train", message.path, *options) == 0, capsys.readouterr().err
    assert model.exists()


@pytest.mark.parametrize("text", [True, False])
def test_columns_have_the_types_that_readers_expect(spark, tmp_path, text):
    frame = spark.createDataFrame(pa.table({"id": ["a", "b"] if text else [1, 2], "y": [1.0, 2.0]}))
    table = release(frame, tmp_path).to_arrow()
    assert table.schema.types == [pa.string() if text else pa.int64(), pa.uint32(), pa.float64()]
