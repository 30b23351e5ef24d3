"""Damaged files that the fuzzer (`benchmarks/fuzz.py`) found readers to stumble over. Each is refused, and shows no label."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from forgery import rewrite_manifest
from labeldp import Domain, LabelRandomizer, LabelSource, Ledger, Message, Prior, SavedModel, privatize
from labeldp.errors import InvalidInput
from labeldp.learn.feature_columns import ColumnEncoder
from labeldp.paper.data import load_census
from labeldp.release.ledger_journal import LedgerBroken
from labeldp.tables.feature_file import FeatureFile

LABEL = "817263549"


def refused(does, words=None, kind=InvalidInput):
    """The error of a function that must refuse, after a look for the label in it and in all that comes with it."""
    with pytest.raises(kind, match=words) as caught:
        does()
    assert LABEL not in "".join(traceback.format_exception(caught.value))


def read(file):
    for _ in LabelSource(file, "y", "id").batches():
        pass


@pytest.mark.parametrize("bad", [b"\xff", b"\x05\xff", b"\xc3"])
def test_a_label_with_bytes_that_are_no_text_is_not_quoted(tmp_path, bad):
    file = tmp_path / "labels.csv"
    file.write_bytes(b"id,y\n1,5.5\n2," + LABEL.encode() + bad + b"\n")
    refused(lambda: read(file), "must have numbers only")


@pytest.mark.parametrize("head", [b"x" * 200_000 + b",y\n", b'id,y\r1,2\r"', b"\x00\n"])
def test_a_strange_header_line(tmp_path, head):
    file = tmp_path / "labels.csv"
    file.write_bytes(head + b"1," + LABEL.encode() + b"\n")
    refused(lambda: read(file))


def test_a_damaged_gzip_file_of_labels_or_features(tmp_path):
    file = tmp_path / "features.csv.gz"
    packed = gzip.compress(b"id,y\n" + b"1,2\n" * 100)
    for damaged in (packed[:30], packed[:12] + b"\xff" * 9 + packed[21:], b"id,y\n1,2\n", b""):
        file.write_bytes(damaged)
        refused(lambda: read(file))
        refused(lambda: FeatureFile.open(file).prepare(["id"]))


def test_an_arrow_file_whose_offsets_point_beyond_its_text(tmp_path):
    offsets = pa.py_buffer(np.array([0, 3, 1 << 30, 6], np.int32).tobytes())
    ids = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abcdef")])
    file = tmp_path / "labels.arrow"
    schema = pa.schema([("id", pa.string()), ("y", pa.float64())])
    with ipc.new_file(str(file), schema) as writer:
        writer.write_batch(pa.record_batch([ids, pa.array([1.0, 2.0, 3.0])], schema=schema))
    refused(lambda: read(file), "contradicts itself")
    refused(lambda: list(FeatureFile.open(file).batches(["id", "y"])), "contradicts itself")


def test_no_flipped_bit_in_the_metadata_of_a_parquet_file_ends_the_process(tmp_path):
    file = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "y": [1.0, 2.0, 3.0], "note": ["a", "b", "c"]}), file)
    script = f"""
import contextlib, pathlib
from labeldp import LabelSource
from labeldp.errors import LabelDPError
file = pathlib.Path({str(file)!r})
good = file.read_bytes()
start = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
for place in range(start, len(good)):
    for bit in (1, 16):
        file.write_bytes(good[:place] + bytes([good[place] ^ bit]) + good[place + 1 :])
        with contextlib.suppress(LabelDPError):
            list(LabelSource(file, "y", "id").batches())
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.fixture
def message(tmp_path):
    pq.write_table(pa.table({"id": range(40), "y": [2.0, 8.0] * 20}), tmp_path / "labels.parquet")
    source = LabelSource(tmp_path / "labels.parquet", "y", "id")
    return privatize(
        source, LabelRandomizer(1, Domain(0, 10, 3), mechanism="randomized-response"), tmp_path / "m"
    ).message


def test_a_message_without_rows(message):
    file = message / "labels.parquet"
    pq.write_table(pq.read_table(file)[:0], file)
    rewrite_manifest(message)
    refused(lambda: Message.open(message), "no records")


CHANGES = [
    "ALTER TABLE dataset RENAME COLUMN budget TO other",
    "UPDATE dataset SET budget = '1e999'",
    "UPDATE dataset SET created_at = x'ff'",
    "UPDATE dataset SET name = x'ff00'",
    "UPDATE release SET reserved_at = ''",
    "UPDATE release SET state = x'00'",
    "UPDATE release SET epsilon = '-1'",
    "UPDATE release SET state = CAST(x'ff' AS TEXT)",
    "ALTER TABLE batch RENAME COLUMN records TO other",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_ledger_with_something_else_in_it(tmp_path, change):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    ledger.reserve("sales", 1)
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{trigger}"')
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(change)
    connection.close()
    refused(
        lambda: (Ledger(tmp_path / "ledger.db").datasets(), Ledger(tmp_path / "ledger.db").history()),
        "damaged",
        LedgerBroken,
    )


def test_a_ledger_whose_schema_is_no_text(tmp_path):
    file = tmp_path / "ledger.db"
    Ledger.create(file)
    content = file.read_bytes()
    file.write_bytes(content.replace(b"CREATE TABLE dataset", b"CREATE TABLE\xff\xda\xff\xff\xff\xff\xff\xff"))
    assert file.read_bytes() != content
    refused(lambda: Ledger(file).datasets(), "ledger", LedgerBroken)


def test_a_prior_that_is_a_file_of_labels(tmp_path):
    file = tmp_path / "prior.csv"
    for text in (
        f"1,{LABEL}.5\n",
        f"value,mass\n1,{LABEL}x\n",
        f"value,mass\n{LABEL}x,1\n",
        f"value,mass,epsilon\n1,1,{LABEL}x\n",
    ):
        file.write_text(text)
        refused(lambda: Prior.from_csv(file), "prior.csv")
    file.write_bytes(b"value,mass\n" + LABEL.encode() + b"\xff,1\n")
    refused(lambda: Prior.from_csv(file), "UTF-8")


def test_categories_that_are_no_text():
    encoder = ColumnEncoder.fit(pa.table({"colour": ["red", "green"] * 9}))
    refused(lambda: encoder.ordinal(pa.table({"colour": pa.array([b"red", b"gr\xffn"])})), "colour.*not text")


@pytest.mark.parametrize(
    "facts",
    [
        {"bounds": ["a", "b"]},
        {"bounds": 7},
        {"columns": ["x", "x"]},
        {"columns": [["x"]]},
        {"epsilon": "1"},
        {"model": 3},
    ],
)
def test_a_model_whose_facts_are_others(tmp_path, facts):
    from sklearn.linear_model import LinearRegression

    SavedModel(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]), {"bounds": [0, 1]}).save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))
    refused(lambda: SavedModel.load(tmp_path / "model"), rf"model\.json: {next(iter(facts))} cannot be")


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, '{"a": 1e999}'])
def test_a_model_whose_facts_are_no_object(tmp_path, text):
    from sklearn.linear_model import LinearRegression

    SavedModel(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]), {}).save(tmp_path / "model")
    (tmp_path / "model" / "model.json").write_text(text)
    refused(lambda: SavedModel.load(tmp_path / "model"))


HEADER = b"WKSWORK1,AGE,SEX,MARST,CHBORN,SCHOOL,EMPSTAT,OCC,IND\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEADER.replace(b"SEX", b"\xff\xfe") + b"1,2,3,4,5,6,7,8,9\n", "UTF-8"),
        (b"\n" + HEADER + b"1,2,1,4,5,1,2,8,9\n", "not a CSV extract"),
        (HEADER, "no person"),
        (f"1,{LABEL}\n2,{LABEL}\n".encode(), "looks like data"),
    ],
    ids=["not text", "empty first line", "no rows", "no header"],
)
def test_a_damaged_census_file(tmp_path, content, words):
    (tmp_path / "extract.csv").write_bytes(content)
    refused(lambda: load_census(tmp_path / "extract.csv"), words)
