"""Nothing that leaves the labels party depends on a label but through its code: not a byte, a name or a number of parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import records, release

from labeldp.engines.spark import shuffle
from pinned_release import observed, pinned

pytestmark = pytest.mark.filterwarnings("ignore::labeldp.ClippingWarning")


def seen(frame, folder):
    """All that others get from a release under a pinned key."""
    folder.mkdir()
    with pinned(codes=False):
        release(frame, folder)
    return {name: value for name, value in observed(folder, set()).items() if not name.endswith(": date")}


@pytest.mark.parametrize("ids", ["int", "str"])
def test_labels_of_equal_codes_give_the_same_bytes(spark, tmp_path, monkeypatch, ids):
    monkeypatch.setattr(shuffle, "ROWS_PER_PART", 20)
    table = records(ids=ids)
    whole = table.set_column(1, "y", pa.array(np.rint(table["y"])))
    near = np.rint(np.asarray(table["y"]))
    twin = table.set_column(1, "y", pa.array(np.where(near == 10, 1e9, near)))  # the same after clipping
    assert whole != twin
    frames = [spark.createDataFrame(one) for one in (whole, twin)]
    first, second = (seen(frame, tmp_path / str(place)) for place, frame in enumerate(frames))
    assert first == second
    assert len([name for name in first if name.startswith("message/labels.parquet/") and name.endswith("bytes")]) == 4


def test_records_in_another_order_and_other_partitions_give_the_same_bytes(spark, tmp_path):
    table = records()
    first = seen(spark.createDataFrame(table), tmp_path / "0")
    assert first == seen(spark.createDataFrame(table).orderBy("y").repartition(5), tmp_path / "1")


def test_another_code_would_be_noticed(spark, tmp_path):
    table = records()
    other = table.set_column(1, "y", pa.array(10 - np.asarray(table["y"])))
    first, second = (
        seen(spark.createDataFrame(one), tmp_path / str(place)) for place, one in enumerate((table, other))
    )
    assert first != second
