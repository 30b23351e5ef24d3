"""A scratch folder on another file system: the parts are fetched from it, and nothing stays there."""

from __future__ import annotations

import stat

import pyarrow as pa
import pytest
from spark_scenes import assert_same, on_one_machine, records, release, saved

from labeldp.engines.spark import shuffle, spark_input
from labeldp.engines.spark.jobs import InputChanged, SparkFailed
from labeldp.engines.spark.writing import Scratch, _check_notes, place_parts
from labeldp.errors import InvalidInput


@pytest.fixture
def scratch(tmp_path):
    (tmp_path / "shared tmp").mkdir()
    return tmp_path / "shared tmp"


def test_parts_are_fetched_and_the_scratch_folder_is_empty_again(spark, tmp_path, scratch, monkeypatch):
    monkeypatch.setattr(shuffle, "ROWS_PER_PART", 20)
    file, key = saved(records(), tmp_path), tmp_path / "key"
    message = release(spark.read.parquet(str(file)), tmp_path, key_file=key, scratch=f"file://{scratch}/")
    assert_same(message.to_arrow(), on_one_machine(message, file, key, tmp_path))
    assert len(message.files) == 4
    assert list(scratch.iterdir()) == []


def test_a_release_that_fails_leaves_nothing_in_the_scratch_folder(spark, place, scratch, monkeypatch):
    monkeypatch.setattr(spark_input, "EARLY_ROWS", 0)
    frame = spark.createDataFrame(pa.concat_tables([records(), records()]))
    with place.refused("ids must be unique", charged=1):
        place.release(frame, scratch=f"file://{scratch}")
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("uri", ["nothing://host/tmp", "file:///proc/labeldp"])
def test_a_scratch_folder_that_cannot_be_written_costs_nothing(spark, place, uri):
    with place.refused("cannot write to the scratch folder", error=InvalidInput):
        place.release(spark.createDataFrame(records()), scratch=uri)


def test_what_another_run_left_is_removed_and_a_partition_written_twice_refused(spark, tmp_path):
    scratch = Scratch(spark, tmp_path, f"file://{tmp_path}/shared", "labeldp-x")
    own = tmp_path / "shared" / "labeldp-x"
    scratch.make()
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    folder = own / "parts"
    folder.mkdir()
    for name in ("part-00003-a.snappy.parquet", "_SUCCESS", ".part-00003-a.crc"):
        (folder / name).touch()
    assert list(scratch.files()) == [3]
    (folder / "part-00003-b.snappy.parquet").touch()
    with pytest.raises(SparkFailed, match="a partition more than once"):
        scratch.files()
    scratch.remove()
    assert not own.exists()


def test_parts_are_numbered_without_a_gap(tmp_path):
    files = {number: saved(records(size), tmp_path, f"p{number}") for number, size in ((9, 3), (2, 0), (10, 4), (0, 5))}
    labels = tmp_path / "labels.parquet"
    assert place_parts(files, labels) == 12
    assert sorted(path.name for path in labels.iterdir()) == [f"part-{part:05d}.parquet" for part in range(3)]


def test_parts_that_the_driver_does_not_see(spark, tmp_path):
    """A file without rows is all that Spark leaves of a frame that has become empty. Anything else is a folder that is not shared."""
    scratch = Scratch(spark, tmp_path, None, "")
    for files in ({}, {0: saved(records(3), tmp_path, "rows")}):
        with pytest.raises(SparkFailed, match="the driver cannot see it"):
            _check_notes(files, 1, None, None, scratch)
    with pytest.raises(InputChanged):
        _check_notes({0: saved(records(0), tmp_path, "none")}, 1, None, None, scratch)
