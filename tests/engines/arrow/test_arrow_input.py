"""Files of labels as a release reads them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from labeldp.artifact.reader import Message
from labeldp.domain import Domain
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.passes import DrawJob
from labeldp.errors import InvalidInput
from labeldp.release.labels import privatize
from labeldp.release.ledger import Ledger
from labeldp.release.randomizer import LabelRandomizer
from labeldp.tables import csv_text

DOMAIN = Domain.integers(0, 52)
KEY = b"k" * 32


@pytest.fixture
def labels(tmp_path):
    pq.write_table(pa.table({"id": [3, 1, 2], "y": [5.0, 6.0, 7.0]}), tmp_path / "a.parquet")
    return ArrowInput(LabelSource(tmp_path / "a.parquet", "y", "id"))


def test_rows_are_known_beforehand_where_no_record_must_be_parsed(tmp_path, labels):
    assert labels.row_count() == 3
    (tmp_path / "a.csv").write_text("id,y\n1,2\n")
    assert ArrowInput(LabelSource(tmp_path / "a.csv", "y", "id")).row_count() == 1
    feather.write_feather(pa.table({"id": [1], "y": [2.0]}), tmp_path / "a.feather")
    assert ArrowInput(LabelSource(tmp_path / "a.feather", "y", "id")).row_count() is None


@pytest.mark.parametrize(("line_break", "times"), [(b"\n", 2), (b"\r\n", 2), (b"\r", 3)])
def test_a_text_file_is_parsed_twice(tmp_path, monkeypatch, line_break, times):
    """Lines that end as on old machines are not counted without parsing, so one more pass counts labels."""
    lines = [b"id,y", b'"-1",3', b"", *(b"%d,%d" % (row, row % 52) for row in range(2_000)), b""]
    (tmp_path / "a.csv").write_bytes(line_break.join(lines))
    parsed, read = [], csv_text.read_csv
    monkeypatch.setattr(csv_text, "read_csv", lambda *rest, **named: parsed.append(rest) or read(*rest, **named))
    privatize(LabelSource(tmp_path / "a.csv", "y", "id"), LabelRandomizer(1, (0, 52)), tmp_path / "message")
    assert len(parsed) == times


def test_the_scan_refuses_repeated_ids(tmp_path):
    pq.write_table(pa.table({"id": [3, 1, 3], "y": [5.0, 6.0, 7.0]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match=r"row 3 \(as row 1\)"):
        ArrowInput(LabelSource(tmp_path / "a.parquet", "y", "id")).scan(DOMAIN, key=KEY, out_of_range="clip")


@pytest.fixture
def changed(tmp_path, labels):
    """The input and its scan, from before a label was changed."""
    scanned = labels.scan(DOMAIN, key=KEY, out_of_range="clip")
    pq.write_table(pa.table({"id": [3, 1, 2], "y": [5.0, 6.0, 8.0]}), tmp_path / "a.parquet")
    return labels, scanned


def test_counting_refuses_an_input_that_was_not_scanned(changed):
    labels, scanned = changed
    with pytest.raises(InvalidInput, match=r"changed while it was read\. Nothing was released\. Do this"):
        labels.count_cells(DOMAIN, scanned, key=KEY, advice="Do this")


def test_randomizing_refuses_an_input_that_was_not_scanned(tmp_path, changed, mechanism):
    labels, scanned = changed
    places = {"labels": tmp_path / "labels.parquet", "work": tmp_path, "release": b"r" * 16}
    with pytest.raises(InvalidInput, match=r"changed while it was read\. Nothing was released\. Do this"):
        labels.randomize(DrawJob(mechanism=mechanism, domain=DOMAIN, key=KEY, advice="Do this", **places), scanned)


def test_ids_that_a_message_holds_are_not_written_again(tmp_path, labels):
    privatize(labels.source, LabelRandomizer(1, DOMAIN, mechanism="randomized-response"), tmp_path / "message")
    held = Message.open(tmp_path / "message")
    pq.write_table(pa.table({"id": [4, 1, 2], "y": [5.0, 6.0, 7.0]}), tmp_path / "a.parquet")
    later = ArrowInput(labels.source).with_ids_as(held.id_type)
    scanned = later.scan(DOMAIN, key=KEY, out_of_range="clip")
    target = tmp_path / "labels.parquet"
    places = {"labels": target, "work": tmp_path, "release": b"r" * 16}
    job = DrawJob(mechanism=held.mechanism, domain=DOMAIN, key=KEY, held=held, **places)
    assert later.randomize(job, scanned) == 1
    assert pq.read_table(target)["id"].to_pylist() == [4]


def test_a_key_file_that_would_be_read_as_labels_is_refused_before_anything_is_charged(tmp_path, labels):
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "a.parquet").rename(folder / "a.parquet")
    source, randomizer = (
        replace(labels.source, path=folder),
        LabelRandomizer(1, DOMAIN, mechanism="randomized-response"),
    )
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("data", 1)
    charge = {"ledger": ledger, "dataset": "data"}
    with pytest.raises(InvalidInput, match="read as labels"):
        privatize(source, randomizer, tmp_path / "message", key_file=folder / "key", **charge)
    assert ledger.remaining("data") == 1
    assert privatize(source, randomizer, tmp_path / "message", key_file=folder / ".key", **charge).records == 3
