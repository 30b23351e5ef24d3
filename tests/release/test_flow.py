"""The flow of a release asks an engine for nothing but what `LabelInput` names: a second engine, in memory, makes the same release."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.artifact.labels_file import LabelsWriter
from labeldp.artifact.reader import Message
from labeldp.domain import Domain
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.batches import (
    FileTypes,
    InputFingerprint,
    LabelBatch,
    checked_ids,
    checked_labels,
    count_outside,
    draw_batch,
)
from labeldp.engines.passes import Scan
from labeldp.errors import InvalidInput
from labeldp.priors import histogram, private_histogram
from labeldp.release.apply import apply
from labeldp.release.key_file import KeyFile
from labeldp.release.labels import privatize
from labeldp.release.ledger import Ledger
from labeldp.release.randomizer import LabelRandomizer
from labeldp.sampling import KeyedRandomness

ROWS = 500
RANDOMIZER = LabelRandomizer(1, Domain(0, 100, cells=11), mechanism="rr-on-bins")


@dataclass(frozen=True)
class TableInput:
    """The smallest engine: a table in memory, whose rows are written by their ids."""

    table: pa.Table
    id_type: pa.DataType | None = None
    label_column = "y"
    id_column = id_name = "id"
    keeps_order = False
    person_column = None
    least_row_bytes = 1

    def check_places(self, message, key_file):
        pass

    def in_unit(self, domain):
        return self

    def with_ids_as(self, id_type):
        return replace(self, id_type=id_type)

    def readable_as(self, id_kind):
        return id_kind == "str"

    def row_count(self):
        return None

    def scan(self, domain, *, key, out_of_range, grid=None, progress=None):
        batch = self._batch()
        clipped = count_outside(batch, domain, out_of_range)
        return Scan(len(batch.ids), clipped, batch.ids.type, (batch.types.ids,), self._fingerprint(key))

    def count_cells(self, grid, scanned, *, key, advice, progress=None):
        assert self._fingerprint(key) == scanned.input_hmac
        return histogram(self._batch().labels, grid)

    def randomize(self, job, scanned, progress=None):
        assert self._fingerprint(job.key) == scanned.input_hmac
        batch = self._batch()
        _, codes = draw_batch(batch, job.mechanism, job.domain, KeyedRandomness(job.key, job.release))
        known = set() if job.held is None else {i for ids, _ in job.held.batches() for i in ids.to_pylist()}
        ids = np.asarray(batch.ids.to_pylist())
        chosen = [row for row in np.argsort(ids) if ids[row].item() not in known]
        with LabelsWriter(job.labels, self.id_name, scanned.id_type, job.mechanism) as writer:
            writer.write(batch.ids.take(pa.array(chosen, pa.int64())), codes[chosen])
        return len(chosen)

    def _batch(self):
        column = self.table["id"].combine_chunks()
        ids = checked_ids(column, "id", 0, "memory", None)
        if self.id_type is not None and pa.types.is_integer(ids.type):
            ids = ids.cast(self.id_type)
        labels = self.table["y"].combine_chunks()
        types = FileTypes(str(column.type), str(labels.type))
        return LabelBatch(ids, checked_labels(labels, "y", 0, "memory"), 0, types)

    def _fingerprint(self, key):
        fingerprint = InputFingerprint(key)
        fingerprint.add(self._batch())
        return fingerprint.hexdigest()


def table(first=0, rows=ROWS, text=False):
    ids = range(first, first + rows)
    labels = np.random.default_rng(first).uniform(0, 100, rows)
    return pa.table({"id": [f"user {i}" for i in ids] if text else ids, "y": labels})


@pytest.fixture
def saved(tmp_path):
    def save(content, name="labels.parquet"):
        pq.write_table(content, tmp_path / name)
        return LabelSource(tmp_path / name, "y", "id")

    return save


def codes_by_id(path):
    batches = Message.open(path).batches()
    return {i: int(c) for ids, codes in batches for i, c in zip(ids.to_pylist(), codes, strict=True)}


def own_draws(message, key_file, content):
    with KeyFile.use(key_file) as keys:
        randomness = KeyedRandomness(keys.key, bytes.fromhex(message.header.release))
    codes = message.mechanism.codes(content["y"].to_numpy(), content["id"], randomness)
    return dict(zip(content["id"].to_pylist(), codes.tolist(), strict=True))


@pytest.mark.parametrize("text", [False, True], ids=["int", "str"])
@pytest.mark.parametrize("first", ["arrow", "table"])
def test_a_batch_may_come_from_another_engine_than_the_release(tmp_path, saved, first, text):
    monday, tuesday = table(text=text), table(ROWS - 20, 50, text=text)
    key, out = tmp_path / "key", tmp_path / "message"
    if first == "arrow":
        privatize(saved(monday), RANDOMIZER, out, key_file=key)
        outcome = apply(out, TableInput(tuesday), key_file=key)
    else:
        privatize(TableInput(monday), RANDOMIZER, out, key_file=key)
        outcome = apply(out, saved(tuesday, "tuesday.parquet"), key_file=key)
    assert (outcome.records, outcome.already_held) == (30, 20)
    everything = pa.concat_tables([monday, tuesday.slice(20)])
    assert codes_by_id(out) == own_draws(Message.open(out), key, everything)


def test_an_engine_with_the_same_fingerprint_resumes_what_another_began(tmp_path, saved, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("data", 10)
    settings = {"ledger": ledger, "dataset": "data", "key_file": tmp_path / "key"}
    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.flow.publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            privatize(saved(table()), RANDOMIZER, tmp_path / "message", **settings)
    assert privatize(TableInput(table()), RANDOMIZER, tmp_path / "message", **settings).resumed
    assert ledger.datasets()[0].spent == 1


def test_an_order_that_the_engine_cannot_keep_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(InvalidInput, match="order of the input"):
        privatize(TableInput(table()), RANDOMIZER, tmp_path / "message", key_file=tmp_path / "key", keep_order=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "key", "says"),
    [("none/message", "key", "does not exist"), ("message", "message/key", "is inside the folder")],
)
def test_places_are_checked_for_every_engine(tmp_path, out, key, says):
    with pytest.raises(InvalidInput, match=says):
        privatize(TableInput(table()), RANDOMIZER, tmp_path / out, key_file=tmp_path / key)
    assert list(tmp_path.iterdir()) == []


def test_the_engine_says_how_much_room_a_row_needs(tmp_path, saved, monkeypatch):
    monkeypatch.setattr(ArrowInput, "least_row_bytes", 1 << 60)
    with pytest.raises(InvalidInput, match=r"are free\. Nothing was charged"):
        privatize(saved(table()), RANDOMIZER, tmp_path / "message")


@pytest.mark.parametrize("engine", ["arrow", "table"])
def test_no_noise_is_drawn_before_the_charge(tmp_path, monkeypatch, engine):
    """Not even that of the prior's histogram: what is drawn and not charged could be drawn again."""
    events = []
    reserve, noisy = Ledger.reserve, private_histogram.add_laplace
    monkeypatch.setattr(Ledger, "reserve", lambda *a, **k: events.append("charge") or reserve(*a, **k))
    monkeypatch.setattr(private_histogram, "add_laplace", lambda *a: events.append("noise") or noisy(*a))
    table = pa.table({"id": [f"{row}" for row in range(ROWS)], "y": np.arange(ROWS) % 100.0})
    pq.write_table(table, tmp_path / "labels.parquet")
    source = LabelSource(tmp_path / "labels.parquet", "y", "id") if engine == "arrow" else TableInput(table)
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 1)
    privatize(source, RANDOMIZER, tmp_path / "message", ledger=ledger, dataset="sales", key_file=tmp_path / "key")
    assert events == ["charge", "noise"]
