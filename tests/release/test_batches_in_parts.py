"""Later batches for a message in parts, and later batches in parts: what one machine and a cluster may write in turn."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forgery import batch_digest, split
from labeldp.artifact import staging
from labeldp.artifact.labels_file import LabelsWriter
from labeldp.artifact.reader import Message
from labeldp.artifact.signing import write_signing_keys
from labeldp.domain import Domain
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput
from labeldp.release.apply import apply
from labeldp.release.labels import privatize
from labeldp.release.randomizer import LabelRandomizer

ROWS = 400
LATER = "labels/part-00001.parquet"


class PartsWriter(LabelsWriter):
    """Writes a batch as a cluster does: in parts, one of them empty, with signed codes."""

    def __init__(self, path, *rest):
        super().__init__(path, *rest)
        self._path = path

    def __exit__(self, *error):
        super().__exit__(*error)
        if error[0] is None:
            rows = pq.read_metadata(self._path).num_rows
            split(self._path, [rows // 3, rows // 2, rows // 2], self._write_signed)

    @staticmethod
    def _write_signed(table, path):
        pq.write_table(table.set_column(1, "code", table["code"].cast(pa.int16())), path)


class Party:
    """A labels party with three batches of labels; the second one repeats a hundred ids of the first."""

    def __init__(self, folder):
        self.folder, self.message, self.key = folder, folder / "message", folder / "key"
        self.private, self.public, _ = write_signing_keys(folder / "sender")
        rng = np.random.default_rng(0)
        for name, first in (("first", 0), ("second", ROWS - 100), ("third", 3 * ROWS)):
            table = {"id": np.arange(first, first + ROWS), "y": rng.uniform(0, 10, ROWS)}
            pq.write_table(pa.table(table), folder / f"{name}.parquet")

    def source(self, name):
        return LabelSource(self.folder / f"{name}.parquet", "y", "id")

    def privatize(self):
        randomizer = LabelRandomizer(1, Domain(0, 10, cells=11), mechanism="rr-on-bins")
        return privatize(self.source("first"), randomizer, self.message, key_file=self.key, sign_key=self.private)

    def apply(self, name):
        return apply(self.message, self.source(name), key_file=self.key, sign_key=self.private)

    @property
    def kept(self):
        (release,) = json.loads(self.key.read_text())["releases"]
        return release

    def opened(self):
        return Message.open(self.message, verify_key=self.public)


@pytest.fixture
def party(tmp_path):
    return Party(tmp_path)


@pytest.fixture
def writer(monkeypatch):
    """Chooses whether what is released next is written in parts."""
    return lambda *, parts: monkeypatch.setattr(
        "labeldp.engines.arrow.arrow_input.LabelsWriter", PartsWriter if parts else LabelsWriter
    )


@pytest.mark.parametrize("later", [True, False], ids=["then parts", "then a file"])
@pytest.mark.parametrize("first", [True, False], ids=["parts", "a file"])
def test_batches_in_parts_and_in_files_follow_each_other(party, writer, first, later):
    writer(parts=first)
    party.privatize()
    before = party.opened().to_arrow()
    writer(parts=later)
    assert (party.apply("second").records, party.apply("second").records) == (ROWS - 100, 0)
    writer(parts=first)
    assert party.apply("third").records == ROWS
    message = party.opened()
    forms = [len(batch.files) for batch in message.manifest.batches]
    assert forms == [4 if parts else 1 for parts in (first, later, first)]
    assert [batch.rows for batch in message.manifest.batches] == [ROWS, ROWS - 100, ROWS]
    assert message.to_arrow().slice(0, ROWS) == before
    assert set(message.to_arrow()["id"].to_pylist()) == {*range(2 * ROWS - 100), *range(3 * ROWS, 4 * ROWS)}


def test_the_form_of_a_batch_changes_no_private_label(party, writer, tmp_path):
    writer(parts=False)
    party.privatize()
    shutil.copytree(party.message, tmp_path / "kept")
    shutil.copy(party.key, tmp_path / "kept-key")
    party.apply("second")
    in_a_file = party.opened().to_arrow()
    shutil.rmtree(party.message)
    shutil.copytree(tmp_path / "kept", party.message)
    shutil.copy(tmp_path / "kept-key", party.key)
    writer(parts=True)
    party.apply("second")
    assert (party.message / LATER).is_dir()
    assert party.opened().to_arrow() == in_a_file


def test_a_message_whose_last_batch_in_parts_is_gone_is_an_outdated_copy(party, writer, tmp_path):
    writer(parts=True)
    party.privatize()
    shutil.copytree(party.message, tmp_path / "kept")
    party.apply("second")
    shutil.rmtree(party.message)
    (tmp_path / "kept").rename(party.message)
    with pytest.raises(InvalidInput, match="it has 1 of the 2 batches"):
        party.apply("third")


class Killed(BaseException):
    """The end of a run."""


def killed_before_listing(party, monkeypatch):
    """A run of apply that ends when the batch is in the message and the manifest does not list it."""

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.apply.replace_file", kill)
        with pytest.raises(Killed):
            party.apply("second")
    assert (party.message / LATER).is_dir()


def test_a_run_killed_between_adding_parts_and_listing_them_is_finished(party, writer, monkeypatch):
    writer(parts=True)
    party.privatize()
    killed_before_listing(party, monkeypatch)
    added = {path: path.read_bytes() for path in (party.message / LATER).iterdir()}
    assert party.kept["pending_part"] == batch_digest(party.message, LATER)
    with pytest.raises(InvalidInput, match="a run of apply is under way or was interrupted"):
        party.opened()
    with pytest.raises(InvalidInput, match="an earlier batch was begun and not finished"):
        party.apply("third")
    outcome = party.apply("second")
    assert (outcome.records, outcome.already_held, outcome.resumed) == (ROWS - 100, 100, True)
    assert {path: path.read_bytes() for path in (party.message / LATER).iterdir()} == added
    assert len(party.opened()) == 2 * ROWS - 100
    assert f"- **Records:** {2 * ROWS - 100:,}\n" in (party.message / "PRIVACY.md").read_text()
    assert party.kept["pending_part"] is None


def test_parts_that_were_changed_before_they_were_listed_are_refused(party, writer, monkeypatch):
    writer(parts=True)
    party.privatize()
    killed_before_listing(party, monkeypatch)
    first = party.message / LATER / "part-00000.parquet"
    table = pq.read_table(first)
    pq.write_table(table.take(np.arange(len(table))[::-1]), first)
    with pytest.raises(InvalidInput, match="they were changed"):
        party.apply("second")


def test_parts_are_on_disk_before_they_are_in_the_message(party, writer, monkeypatch):
    writer(parts=True)
    party.privatize()
    flushed, before = [], []
    flush, rename = staging.flush, staging.Path.rename

    def record(path):
        flushed.append(path.name)
        flush(path)

    def renamed(path, target):
        if target.name == "part-00001.parquet":
            before.extend(flushed)
        return rename(path, target)

    monkeypatch.setattr(staging, "flush", record)
    monkeypatch.setattr(staging.Path, "rename", renamed)
    party.apply("second")
    folder = [f"part-{part:05d}.parquet" for part in range(4)]
    assert before[-5:] == [*folder, "part-00001.parquet"]
