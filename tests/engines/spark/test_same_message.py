"""Spark and one machine give the same message: the same private label for every id, in the same order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp.spark
from labeldp import LabelSource, Message
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.release.key_file import KeyFile


def table(rows, ids="int", seed=0):
    random = np.random.default_rng(seed)
    numbers = random.permutation(np.arange(rows) * 3 - rows)
    return pa.table(
        {
            "order": pa.array(numbers) if ids == "int" else pa.array([f"ö{number}" for number in numbers]),
            "amount": np.minimum(random.exponential(90, rows), 500),
        }
    )


def frame_of(spark, rows: pa.Table, folder: Path, partitions=2):
    file = folder / f"input-{len(list(folder.iterdir()))}.parquet"
    pq.write_table(rows, file)
    return spark.read.parquet(str(file)).repartition(partitions), file


def on_one_machine(message: Message, file: Path, key_file: Path, folder: Path) -> pa.Table:
    """What the Arrow engine makes of the same records under the same key, release and mechanism."""
    with KeyFile.use(key_file) as keys:
        key = keys.key
    domain = message.mechanism.domain
    labels = ArrowInput(LabelSource(file, message.header.label_column, message.header.id_column)).in_unit(domain)
    scanned = labels.scan(domain, key=key, out_of_range="clip-all")
    work = folder / "work"
    work.mkdir(exist_ok=True)
    target = folder / "arrow.parquet"
    labels.randomize(
        message.mechanism,
        domain,
        scanned,
        key=key,
        release=bytes.fromhex(message.header.release),
        advice="",
        labels=target,
        work=work,
    )
    return pq.read_table(target)


def assert_same(message: Message, expected: pa.Table):
    found = message.to_arrow()
    assert found.column_names == expected.column_names
    for name in expected.column_names:
        assert found[name].to_pylist() == expected[name].to_pylist(), name
    assert message.records == expected.num_rows


@pytest.mark.filterwarnings("ignore::labeldp.ClippingWarning")
@pytest.mark.parametrize("partitions", [1, 7])
@pytest.mark.parametrize("ids", ["int", "str"])
def test_same_labels_in_the_same_order(spark, tmp_path, ids, partitions):
    frame, file = frame_of(spark, table(3000, ids), tmp_path, partitions)
    key = tmp_path / "key"
    message = labeldp.spark.privatize(
        frame, label="amount", id="order", epsilon=1, domain=(0, 400), out=tmp_path / "message", key_file=key
    )
    assert_same(message, on_one_machine(message, file, key, tmp_path))
