"""Folders of any name: Hadoop decodes nothing in a path, and Spark takes some signs for wildcards."""

from __future__ import annotations

from pathlib import Path

import pytest
from spark_scenes import frame_of, records, release

import labeldp.spark
from labeldp.engines.spark.session import file_pattern, file_uri


def test_paths_as_spark_reads_them():
    assert file_uri(Path("/a b/ö%20#?")) == "file:///a b/ö%20#?"
    assert file_pattern(Path("/x[1]{a,b}*?\\")) == "file:///x\\[1\\]\\{a,b\\}\\*\\?\\\\"


@pytest.mark.parametrize("name", ["a b ö", "50%20 [1] {a,b} *?#"])
def test_a_message_in_a_folder_of_any_name(spark, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    release(frame_of(spark, records(), tmp_path), folder, key_file=tmp_path / "key")
    later = frame_of(spark, records(30, 50), tmp_path, "later")
    message = labeldp.spark.apply(later, folder / "message", key_file=tmp_path / "key")
    assert [batch.rows for batch in message.manifest.batches] == [60, 20]
    assert labeldp.spark.matching_features(later, message).count() == 30
    assert [path.name for path in folder.iterdir()] == ["message"]
