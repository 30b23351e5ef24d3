"""Later batches on Spark: for messages that either engine wrote, with the rows that one machine would add."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_scenes import DOMAIN, assert_same, records, release, saved

import labeldp.spark
from labeldp import InvalidInput, LabelDPError, LabelRandomizer, LabelSource, Message, apply, privatize
from labeldp.artifact.signing import write_signing_keys
from labeldp.engines.spark import shuffle, writing
from labeldp.engines.spark.frames import held_ids
from labeldp.engines.spark.jobs import SparkFailed, job, mapped
from labeldp.engines.spark.shuffle import DrawTask
from labeldp.engines.spark.writing import Scratch


class Party:
    """A labels party with a first batch and a second one, which repeats ten ids of it with other labels."""

    def __init__(self, spark, folder, ids="int"):
        self.spark, self.folder, self.message, self.key = spark, folder, folder / "message", folder / "key"
        self.files = {
            name: saved(records(rows, first, seed, ids), folder, name)
            for name, rows, first, seed in (("first", 60, 0, 0), ("second", 40, 50, 1), ("third", 5, 500, 2))
        }

    def frame(self, name):
        return self.spark.read.parquet(str(self.files[name]))

    def release(self, engine, **options):
        if engine == "spark":
            release(self.frame("first"), self.folder, key_file=self.key, **options)
        else:
            randomizer = LabelRandomizer(1, DOMAIN, mechanism="randomized-response")
            privatize(
                LabelSource(self.files["first"], "y", "id"), randomizer, self.message, key_file=self.key, **options
            )
        return Message.open(self.message)

    def apply(self, name="second", **options):
        return labeldp.spark.apply(self.frame(name), self.message, key_file=self.key, **options)

    def clone(self, folder):
        """The same message and key elsewhere."""
        shutil.copytree(self.folder, folder)
        return folder


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "party").mkdir()
    return tmp_path / "party"


@pytest.mark.parametrize("ids", ["int", "str"])
@pytest.mark.parametrize("first", ["spark", "arrow"])
def test_a_batch_is_the_same_on_spark_and_on_one_machine(spark, folder, tmp_path, first, ids):
    party = Party(spark, folder, ids)
    before = party.release(first).to_arrow()
    twin = party.clone(tmp_path / "twin")
    message = party.apply()
    assert apply(twin / "message", LabelSource(party.files["second"], "y", "id"), key_file=twin / "key").records == 30
    assert_same(message.to_arrow(), Message.open(twin / "message").to_arrow())
    assert_same(message.to_arrow()[:60], before)
    assert [batch.rows for batch in message.manifest.batches] == [60, 30]


def test_records_that_are_held_add_nothing(spark, folder):
    party = Party(spark, folder)
    party.release("spark")
    added = party.apply()
    again = party.apply()
    assert again.manifest == added.manifest
    assert not (folder / "message" / "labels" / "part-00002.parquet").exists()


def test_ids_beyond_those_that_spark_has(spark, folder):
    party = Party(spark, folder)
    large = pa.array(np.arange(60, dtype=np.uint64) + np.uint64(2**63))
    saved(records().set_column(0, "id", large), folder, "first")
    party.release("arrow")
    with pytest.raises(InvalidInput, match="unsigned 64-bit integers, which Spark does not have"):
        party.apply()


@pytest.mark.parametrize(
    ("held", "new", "advice"),
    [
        ("int", pa.array(["7000", "8000"]), "Give --id-type int"),
        ("int", pa.array(["7000", "x77123"]), "Not all of them could be whole numbers"),
        ("str", pa.array([7000, 8000]), "Give --id-type str"),
    ],
)
def test_ids_of_another_kind(spark, folder, held, new, advice):
    party = Party(spark, folder, held)
    party.release("arrow")
    party.files["second"] = saved(pa.table({"id": new, "y": [1.0, 2.0]}), folder, "second")
    with pytest.raises(InvalidInput, match=advice) as refusal:
        party.apply()
    assert "77123" not in str(refusal.value)
    if advice.startswith("Give"):
        assert party.apply(id_type=held).records == 62


class Killed(BaseException):
    """The end of a run."""


def kill(*_):
    raise Killed


def test_a_run_killed_between_adding_a_batch_and_listing_it_is_finished(spark, folder, monkeypatch):
    party = Party(spark, folder)
    party.release("spark")
    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.apply.replace_file", kill)
        with pytest.raises(Killed):
            party.apply()
    with pytest.raises(InvalidInput, match="interrupted"):
        Message.open(party.message)
    with pytest.raises(InvalidInput, match="an earlier batch was begun and not finished"):
        party.apply("third")
    assert party.apply().records == 90


def test_a_run_killed_while_it_drew_is_repeated(spark, folder, tmp_path, monkeypatch):
    party = Party(spark, folder)
    party.release("spark")
    twin = party.clone(tmp_path / "twin")
    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.apply.publish", kill)
        with pytest.raises(Killed):
            party.apply()
    assert Message.open(party.message).records == 60
    apply(twin / "message", LabelSource(party.files["second"], "y", "id"), key_file=twin / "key")
    assert_same(party.apply().to_arrow(), Message.open(twin / "message").to_arrow())
    assert sorted(path.name for path in folder.iterdir()) == [
        "first.parquet",
        "key",
        "message",
        "second.parquet",
        "third.parquet",
    ]


def test_a_signed_message_in_a_ledger(spark, place):
    private, public, _ = write_signing_keys(place.folder / "sender")
    party = Party(spark, place.folder)
    place.release(party.frame("first"), key_file=party.key, sign_key=private)
    with pytest.raises(InvalidInput, match="needs a new signature by the same key"):
        party.apply(ledger=place.ledger)
    with pytest.raises(InvalidInput, match="charged to a ledger"):
        party.apply(sign_key=private)
    assert party.apply(ledger=place.ledger, sign_key=private).signature is not None
    assert Message.open(party.message, verify_key=public).records == 90
    assert place.ledger.remaining("sales") == 2
    (charged,) = place.ledger.history()
    assert [batch.records for batch in place.ledger.batches(charged.id)] == [40]


def test_what_is_no_message(spark, folder):
    frame = spark.createDataFrame(records())
    for given, said in ((folder, "is not a message"), (frame, "message must be a path")):
        with pytest.raises(InvalidInput, match=said):
            labeldp.spark.apply(frame, given, key_file=folder / "key")


def test_a_message_that_is_open_already(spark, folder):
    party = Party(spark, folder)
    opened = party.release("arrow")
    assert labeldp.spark.apply(party.frame("third"), opened, key_file=party.key).records == 65
    assert pq.read_schema(folder / "message" / "labels" / "part-00001.parquet" / "part-00000.parquet").names[0] == "id"


def test_a_file_of_the_message_that_is_gone_is_not_taken_for_an_empty_one(spark, folder):
    """Its records would be drawn once more, perhaps with other labels. Spark can be told to overlook such files."""
    party = Party(spark, folder)
    message = party.release("arrow")
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        ids = held_ids(spark, message)
        (folder / "message" / "labels.parquet").unlink()
        with pytest.raises(SparkFailed), job(spark, 0, None):
            ids.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_a_batch_whose_parts_the_driver_cannot_all_see_is_refused(spark, folder, monkeypatch):
    """As on a cluster whose workers write to disks of their own."""
    party = Party(spark, folder)
    before = party.release("arrow").to_arrow()
    monkeypatch.setattr(shuffle, "ROWS_PER_PART", 10)
    seen = Scratch.files
    monkeypatch.setattr(Scratch, "files", lambda self: {number: file for number, file in seen(self).items() if number})
    with pytest.raises(LabelDPError, match=r"wrote [0-9]+ of 30 rows, or the driver cannot see all of them"):
        party.apply()
    assert Message.open(party.message).to_arrow().equals(before)


@pytest.mark.parametrize("ids", ["int", "str"])
def test_no_second_private_label_of_a_held_record_is_shuffled(spark, folder, tmp_path, ids, monkeypatch):
    """Held records are drawn before they are found, and their labels may have changed. What is sent to the join hides the draws."""
    party = Party(spark, folder, ids)
    party.release("spark")
    first, sent = Party(spark, party.clone(tmp_path / "first"), ids), []

    def spied(frame, task, schema):
        made = mapped(frame, task, schema)
        if isinstance(task, DrawTask):
            sent.append({row["id"]: row["code"] for row in made.collect() if row["code"] >= 0})
        return made

    monkeypatch.setattr(writing, "mapped", spied)
    added = [one.apply().to_arrow() for one in (first, party)]
    assert_same(*added)
    assert sent[0].keys() == sent[1].keys()
    assert len(sent[0]) == 40
    same = sum(sent[0][record] == sent[1][record] for record in sent[0])
    assert same < 20, "with a pad of its own for every run, one code in eleven is the same by chance"
