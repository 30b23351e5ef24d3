"""Messages in folders with any name: Hadoop reads paths in its own way."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import labeldp.spark


def test_a_message_in_a_folder_with_special_characters(spark, tmp_path):
    folder = tmp_path / "a b%20 ü [1] {x,y} *?\\#"
    folder.mkdir()
    frames = []
    for start in (0, 50):
        file = tmp_path / f"{start}.parquet"
        pq.write_table(pa.table({"id": np.arange(start, start + 100), "y": np.arange(100.0)}), file)
        frames.append(spark.read.parquet(str(file)))
    labeldp.spark.privatize(
        frames[0], label="y", id="id", epsilon=1, domain=(0, 100), out=folder / "m", key_file=folder / "key",
        mechanism="randomized-response",
    )  # fmt: skip
    message = labeldp.spark.apply(frames[1], folder / "m", key_file=folder / "key")
    assert message.records == 150
