"""A release: what it draws, what it charges, what may resume it, and what its message may depend on."""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from labeldp.artifact.reader import Message
from labeldp.artifact.staging import replace_file, staging
from labeldp.domain import Domain
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import ClippingWarning, InsufficientBudget, InvalidInput, LabelDPError, PrivacyRefused
from labeldp.mechanisms import FiniteMechanism
from labeldp.priors import BudgetWarning, Prior
from labeldp.release import flow
from labeldp.release import randomizer as randomizer_module
from labeldp.release.account import Account
from labeldp.release.apply import _Batch, apply
from labeldp.release.key_file import KeyFile
from labeldp.release.labels import privatize
from labeldp.release.ledger import Ledger
from labeldp.release.randomizer import LabelRandomizer
from labeldp.sampling import KeyedRandomness

ROWS = 3000
DOMAIN = Domain(0, 100, cells=21)


class Crash(BaseException):
    """Stands for the end of the process: no code of ours handles it."""


@contextmanager
def crashing(owner, step=None):
    """Run a block in which a step, given as for `monkeypatch.setattr`, ends the process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*(owner, step) if step else (owner,), mock.Mock(side_effect=Crash))
        with pytest.raises(Crash):
            yield


def write(path, labels, ids=None):
    ids = np.arange(len(labels)) if ids is None else ids
    pq.write_table(pa.table({"id": ids, "y": np.asarray(labels, float)}), path)


def labels(seed, rows=ROWS):
    return np.random.default_rng(seed).uniform(0, 100, rows)


@pytest.fixture
def party(tmp_path):
    return Party(tmp_path)


class Party:
    """The labels party's folder and the command that it repeats."""

    def __init__(self, folder):
        self.folder = folder
        self.source = LabelSource(folder / "labels.parquet", "y", "id")
        self.ledger = Ledger.create(folder / "ledger.db")
        self.ledger.add_dataset("data", 10)
        write(self.source.path, labels(0))

    def run(self, out="message", epsilon=1, prior=None, out_of_range="clip", **more):
        known = {"ledger": self.ledger, "dataset": "data", "key_file": self.folder / "key"}
        usual = LabelRandomizer(epsilon, DOMAIN, prior=prior, out_of_range=out_of_range, mechanism="rr-on-bins")
        randomizer = more.pop("randomizer", usual)
        return privatize(more.pop("source", self.source), randomizer, self.folder / out, **known | more)

    def apply(self, batch):
        return apply(self.folder / "message", batch, key_file=self.folder / "key", ledger=self.ledger)

    @property
    def spent(self):
        return self.ledger.datasets()[0].spent

    def kept(self):
        with KeyFile.use(self.folder / "key") as keys:
            return keys.key, {release.id: release for release in keys.releases}


def codes_by_id(path):
    message = Message.open(path)
    return {i: int(c) for ids, codes in message.batches() for i, c in zip(ids.to_pylist(), codes, strict=True)}


@pytest.mark.parametrize("ids", [None, [f"user {i}" for i in range(ROWS)]], ids=["int", "str"])
def test_the_labels_are_the_mechanisms_own_draws_under_the_stored_key_and_release(party, ids):
    write(party.source.path, labels(0), ids)
    outcome = party.run()
    key, kept = party.kept()
    (release,) = kept.values()
    given = pq.read_table(party.source.path)
    expected = FiniteMechanism.from_json(release.mechanism).codes(
        labels(0), given["id"], KeyedRandomness(key, bytes.fromhex(release.id))
    )
    assert codes_by_id(outcome.message) == dict(zip(given["id"].to_pylist(), expected.tolist(), strict=True))
    assert outcome.mechanism == Message.open(outcome.message).mechanism
    assert party.spent == Message.open(outcome.message).epsilon_exact == 1


def test_without_a_key_file_each_release_draws_a_key_of_its_own(party):
    begin = KeyedRandomness.__init__
    with mock.patch.object(KeyedRandomness, "__init__", autospec=True, side_effect=begin) as begun:
        for out in ("one", "two"):
            party.run(out, key_file=None)
    assert len({call.args[1] for call in begun.call_args_list}) == len(begun.call_args_list) == 2


def test_an_outcome_does_not_show_how_many_labels_were_clipped(party):
    write(party.source.path, np.full(ROWS, 1e6))
    outcome = party.run(out_of_range="clip-all")
    assert outcome.clipped == ROWS
    assert (
        repr(outcome) == f"ReleaseOutcome(message={outcome.message!r}, records={ROWS}, resumed=False, already_held=0)"
    )


def test_without_a_key_file_the_charge_cannot_be_resumed_and_no_key_is_left(party):
    party.run(key_file=None)
    assert not (party.folder / "key").exists()
    assert Message.open(party.folder / "message").header.keyed is False
    party.run(out="second", key_file=None)
    assert party.spent == 2
    assert codes_by_id(party.folder / "message") != codes_by_id(party.folder / "second")


STEPS = [
    (Account, "charge"),
    (Ledger, "fix"),
    (Account, "fix"),
    (ArrowInput, "randomize"),
    (flow, "publish"),
    (Account, "commit"),
    (Ledger, "commit"),
]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[f"{owner.__name__}.{step}" for owner, step in STEPS])
def test_a_run_that_dies_at_a_step_is_resumed_at_no_further_cost(party, monkeypatch, owner, step, before):
    undisturbed = getattr(owner, step)

    def dying(*arguments, **named):
        if not before:
            undisturbed(*arguments, **named)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, dying)
        with pytest.raises(Crash):
            party.run()
    reserved = party.spent
    assert reserved == (0 if (step, before) == ("charge", True) else 1)
    published = (party.folder / "message").exists()
    assert published == (step == "commit" or (step, before) == ("publish", False))
    party.run()
    assert party.spent == 1
    assert [release.state for release in party.ledger.history()] == ["committed"]
    (kept,) = party.kept()[1].values()
    assert kept.done
    assert len(kept.parts) == 1


def test_a_resumed_release_with_a_public_prior_equals_an_undisturbed_one(party):
    prior = Prior.uniform(DOMAIN)
    with crashing(flow, "publish"):
        party.run(prior=prior)
    outcome = party.run(prior=prior)
    assert outcome.resumed
    key, kept = party.kept()
    (release,) = kept.values()
    undisturbed = LabelRandomizer(1, DOMAIN, prior=prior, mechanism="rr-on-bins").fit(labels(0))
    draws = undisturbed.codes(labels(0), np.arange(ROWS), KeyedRandomness(key, bytes.fromhex(release.id)))
    assert codes_by_id(outcome.message) == dict(enumerate(draws.tolist()))


def test_resuming_with_a_changed_label_is_a_new_charge_under_a_new_release(party):
    with crashing(flow, "publish"):
        party.run()
    changed = labels(0)
    changed[17] = 100 - changed[17]
    write(party.source.path, changed)
    outcome = party.run()
    assert not outcome.resumed
    assert party.spent == 2
    first, second = party.ledger.history()
    assert (first.state, second.state) == ("reserved", "committed")
    assert Message.open(outcome.message).header.release == second.id != first.id


@pytest.mark.parametrize("change", [{"epsilon": 2}, {"prior": Prior.uniform(DOMAIN)}])
def test_another_request_is_a_new_charge(party, change):
    with crashing(flow, "publish"):
        party.run()
    party.run(**change)
    assert party.spent == 1 + change.get("epsilon", 1)


def test_a_new_message_of_the_same_labels_is_a_new_release(party):
    party.run()
    party.run(out="second")
    assert party.spent == 2
    assert len(party.kept()[1]) == 2


def test_the_budget_is_refused_before_a_label_is_read(party, monkeypatch):
    monkeypatch.setattr(ArrowInput, "scan", lambda *_, **__: pytest.fail("labels were read"))
    with pytest.raises(InsufficientBudget):
        party.run(epsilon=11)
    assert not (party.folder / "key").exists()


def test_an_input_that_changes_while_it_is_read_is_never_published(party, monkeypatch):
    """The labels that are randomized must be those that the release is resumed by."""
    undisturbed = ArrowInput.randomize

    def meddle(*arguments, **named):
        write(party.source.path, labels(1))
        return undisturbed(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(ArrowInput, "randomize", meddle)
        with pytest.raises(InvalidInput, match="changed while it was read"):
            party.run()
    assert not (party.folder / "message").exists()
    write(party.source.path, labels(0))
    assert party.run().resumed
    assert party.spent == 1


def with_the_other_sign(path):
    """Exports the same 64-bit ids as the other of int64 and uint64."""
    table = pq.read_table(path)
    ids = np.asarray(table["id"])
    kind = np.uint64 if ids.dtype == np.int64 else np.int64
    pq.write_table(table.set_column(0, "id", pa.array(ids.view(kind))), path)


def other_labels(path):
    table = pq.read_table(path)
    write(path, 100 - np.asarray(table["y"]), table["id"])


def swapped_ids(path):
    table = pq.read_table(path)
    ids = np.asarray(table["id"]).copy()
    ids[:2] = ids[1::-1]
    write(path, table["y"], ids)


@pytest.mark.parametrize("first", [np.int64, np.uint64])
def test_the_same_bits_with_the_other_sign_are_not_the_same_release(party, first):
    """Ids from 2^63 on would be drawn anew, as other ids, for one charge."""
    ids = (np.arange(ROWS, dtype=np.uint64) << np.uint64(52)).view(first)
    write(party.source.path, labels(0), ids)
    with crashing(Account, "commit"):
        party.run()
    drawn = codes_by_id(party.folder / "message")
    assert len(drawn) == ROWS
    with_the_other_sign(party.source.path)
    with pytest.raises(InvalidInput, match="another --out is a new release, charged again"):
        party.run()
    again = party.run(out="second")
    assert not again.resumed
    assert party.spent == 2
    with_the_other_sign(party.source.path)
    assert party.run().resumed
    assert party.spent == 2
    assert codes_by_id(party.folder / "message") == drawn


def test_the_request_names_the_types_of_the_ids(party):
    party.run()
    (kept,) = party.kept()[1].values()
    assert json.loads(kept.request)["id_arrow_types"] == ["int64"]


def test_a_batch_that_was_begun_is_not_continued_by_ids_of_another_type(party):
    party.run()
    later = party.folder / "later.parquet"
    write(later, [1.0, 2.0], np.array([ROWS, ROWS + 1]))
    batch = replace(party.source, path=later)
    with crashing("labeldp.release.apply.flush"):
        party.apply(batch)
    with_the_other_sign(later)
    with pytest.raises(InvalidInput, match="begun and not finished"):
        party.apply(batch)
    with_the_other_sign(later)
    assert party.apply(batch).resumed


def test_a_batch_that_may_have_been_sent_stays_the_only_one_though_resuming_it_fails(party, monkeypatch):
    """The message is put back alone, as it was before the batch. The key file remembers that the batch was begun."""
    party.run()
    message = party.folder / "message"
    shutil.copytree(message, party.folder / "backup")
    batches = [party.folder / "one.parquet", party.folder / "other.parquet"]
    for file, label in zip(batches, (1.0, 9.0), strict=True):
        write(file, [label] * 50, np.arange(ROWS, ROWS + 50))
    one, other = (replace(party.source, path=file) for file in batches)
    with crashing("labeldp.release.apply.replace_file"):
        party.apply(one)
    shutil.rmtree(message)
    shutil.copytree(party.folder / "backup", message)
    with monkeypatch.context() as patch:
        patch.setattr(
            "labeldp.engines.arrow.arrow_input.ArrowInput.randomize",
            lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            party.apply(one)
    with pytest.raises(InvalidInput, match="begun and not finished"):
        party.apply(other)
    assert party.apply(one).resumed
    assert party.apply(other).records == 0


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_a_later_batch_of_the_other_sign_holds_the_same_ids_or_is_refused(party, kind):
    write(party.source.path, labels(0), np.arange(ROWS, dtype=kind))
    party.run()
    later = party.folder / "later.parquet"
    write(later, [1.0, 2.0], np.arange(ROWS - 1, ROWS + 1, dtype=kind))
    with_the_other_sign(later)
    batch = replace(party.source, path=later)
    added = party.apply(batch)
    assert (added.records, added.already_held) == (1, 1)
    write(later, [1.0], np.array([-1]).astype(kind))
    with_the_other_sign(later)
    with pytest.raises(InvalidInput, match="do not fit into"):
        party.apply(batch)


MEDDLING = [other_labels, swapped_ids, with_the_other_sign]


@pytest.mark.parametrize("keyed", [True, False], ids=["key file", "no key file"])
@pytest.mark.parametrize("meddle", MEDDLING)
def test_a_file_that_changes_between_passes_is_refused_with_and_without_a_key_file(party, meddle, keyed):
    more = {"keep_order": meddle is swapped_ids} | ({} if keyed else {"key_file": None})

    def phase(name, rows):
        if name == "randomizing":
            meddle(party.source.path)

    with pytest.raises(InvalidInput, match="changed while it was read") as refusal:
        party.run(phase=phase, **more)
    assert ("it is resumed only if" in str(refusal.value)) == keyed
    assert ("stays charged" in str(refusal.value)) != keyed
    assert not (party.folder / "message").exists()
    assert party.spent == 1
    party.run(**more)  # as it is now


def test_a_file_that_changes_before_it_is_counted_is_refused_without_a_key_file(party):
    """The number of rows of an Arrow file is not known at first, so its labels are counted in their own pass."""
    path = party.folder / "labels.feather"

    def save(values):
        feather.write_feather(pa.table({"id": range(len(values)), "y": values}), path)

    def phase(name, rows):
        phases.append(name)
        if name == "counting":
            save(100 - labels(0))

    save(labels(0))
    phases = []
    source = replace(party.source, path=path)
    with pytest.raises(InvalidInput, match="changed while it was read"):
        party.run(source=source, key_file=None, phase=phase)
    assert phases == ["checking", "counting"]
    assert [release.fixed for release in party.ledger.history()] == [False]


def test_a_message_of_another_release_is_never_replaced(party):
    party.run()
    before = codes_by_id(party.folder / "message")
    for change in ({"epsilon": 2}, {"key_file": party.folder / "other key"}, {"key_file": None}):
        with pytest.raises(InvalidInput, match="exists and is not overwritten"):
            party.run(**change)
    write(party.source.path, labels(1))
    with pytest.raises(InvalidInput, match="another --out is a new release, charged again"):
        party.run()
    assert codes_by_id(party.folder / "message") == before
    assert party.spent == 1


def test_a_message_that_this_ledger_was_not_charged_for_is_not_taken_for_done(party):
    party.run(ledger=None, dataset=None)
    with pytest.raises(InvalidInput, match="choose another --out"):
        party.run()
    assert party.spent == 0
    assert party.run(ledger=None, dataset=None).resumed


def test_a_key_file_restored_from_before_the_release_is_completed_from_the_ledger(party):
    party.run(out="earlier")
    backup = (party.folder / "key").read_bytes()
    with crashing(Account, "commit"):
        party.run()
    (party.folder / "key").write_bytes(backup)
    party.run()
    assert party.spent == 2
    assert set(party.kept()[1]) == {release.id for release in party.ledger.history()}


def test_a_key_file_that_disagrees_with_the_ledger_is_refused(party):
    with crashing(flow, "publish"):
        party.run()
    with KeyFile.use(party.folder / "key") as keys:
        (kept,) = keys.releases
        keys.put(replace(kept, mechanism=LabelRandomizer(1, DOMAIN, prior=Prior.uniform(DOMAIN)).fit([1]).to_json()))
    with pytest.raises(LabelDPError, match="disagree"):
        party.run()
    assert not (party.folder / "message").exists()


def stored_by_the_owner(ledger, mechanism):
    """Puts another mechanism in the place of the fixed one, past the file's guards."""
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as owner:
        (guard,) = owner.execute("SELECT sql FROM sqlite_master WHERE name = 'mechanism_kept'").fetchone()
        owner.execute("DROP TRIGGER mechanism_kept")
        owner.execute(
            "UPDATE release SET mechanism_json = ?, mechanism_digest = ?", (mechanism.to_json(), mechanism.digest)
        )
        owner.execute(guard)


def test_a_stored_mechanism_that_costs_more_than_the_charge_is_not_resumed(party):
    with crashing(KeyFile, "put"):
        party.run()
    stored_by_the_owner(party.ledger, LabelRandomizer(2, DOMAIN, prior=Prior.uniform(DOMAIN)).fit([1]))
    with pytest.raises(PrivacyRefused, match="only ε = 1 was charged"):
        party.run()
    assert not (party.folder / "message").exists()


def test_a_finished_message_is_not_recorded_as_done_under_another_mechanism(party):
    with crashing(Account, "commit"):
        party.run()
    stored_by_the_owner(party.ledger, LabelRandomizer(1, DOMAIN, prior=Prior.uniform(DOMAIN)).fit([1]))
    with pytest.raises(InvalidInput, match="another mechanism"):
        party.run()
    assert [release.state for release in party.ledger.history()] == ["reserved"]


def stop_clock(monkeypatch, date):
    monkeypatch.setattr("labeldp.release.ledger._now", lambda: f"{date}T03:04:05+00:00")


def card_facts(message):
    lines = (message / "PRIVACY.md").read_text(encoding="utf-8").splitlines()
    return {line[4:].partition(":** ")[0]: line.partition(":** ")[2] for line in lines if line.startswith("- **")}


@pytest.mark.parametrize("replaced", [0, 1, 2])
def test_a_later_batch_rewrites_the_card_whenever_it_was_killed(party, monkeypatch, replaced):
    """A killed run had put the card, or the card and the manifest, in place; it is finished on another day."""
    stop_clock(monkeypatch, "2026-01-02")
    message = party.run().message
    first = card_facts(message)
    assert (first["Dataset"], first["Date"], first["Records"]) == ("`data`", "2026-01-02", f"{ROWS:,}")
    write(party.folder / "later.parquet", [1.0, 2.0], [ROWS, ROWS + 1])
    later = replace(party.source, path=party.folder / "later.parquet")
    stop_clock(monkeypatch, "2026-02-03")
    real, put = replace_file, []

    def killed(staged, target):
        if len(put) == replaced:
            raise KeyboardInterrupt
        put.append(target.name)
        real(staged, target)

    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.apply.replace_file", killed)
        patch.setattr(_Batch, "_record", lambda *_: killed(None, None))
        with pytest.raises(KeyboardInterrupt):
            party.apply(later)
    assert put == ["PRIVACY.md", "manifest.json"][:replaced]
    stop_clock(monkeypatch, "2026-02-04")
    assert party.apply(later).resumed
    day = "03" if replaced == 2 else "04"
    known = {"Date": f"2026-01-02, last batch added on 2026-02-{day}", "Records": f"{ROWS + 2:,}"}
    assert card_facts(Message.open(message).path) == first | known
    write(later.path, [3.0], [ROWS + 2])
    assert party.apply(later).message_records == ROWS + 3


def test_resuming_elsewhere_does_not_forget_later_batches(party):
    """The key file's note of what was released outlives a second copy of the first batch."""
    party.run()
    write(party.folder / "later.parquet", [1.0, 2.0], [ROWS, ROWS + 1])
    party.apply(replace(party.source, path=party.folder / "later.parquet"))
    before = party.kept()
    assert party.run().resumed
    assert party.kept() == before


def test_only_one_run_at_a_time_uses_a_message_or_a_key(party):
    with staging(party.folder / "message"), pytest.raises(LabelDPError, match="another labeldp run is using"):
        party.run()
    with KeyFile.use(party.folder / "key", create=True), pytest.raises(LabelDPError, match="another labeldp run"):
        party.run()
    assert party.spent == 0
    party.run()


def test_what_a_killed_run_left_is_cleared_by_the_next_one(party):
    left = party.folder / ".message.labeldp-partial"
    (left / "work").mkdir(parents=True)
    (left / "work" / "rows").write_bytes(b"spilled")
    (party.folder / ".message.labeldp-lock").touch()
    (party.folder / ".key.labeldp-new").write_text("half a key file")
    (party.folder / ".key.labeldp-lock").touch()
    party.run()
    assert sorted(p.name for p in party.folder.iterdir()) == ["key", "labels.parquet", "ledger.db", "message"]


def test_a_commit_that_fails_says_that_the_message_is_paid_for(party, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", lambda *_: (_ for _ in ()).throw(LabelDPError("the ledger is locked")))
        with pytest.raises(LabelDPError, match=r"complete and paid for.*Run the same command again"):
            party.run()
    assert party.run().resumed
    assert party.spent == 1


def shape(path):
    """Everything in a message that is neither a code nor a private label, nor statistics and sizes of those columns."""
    file = pq.ParquetFile(path / "labels.parquet")
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    return {
        "files": sorted(p.name for p in path.rglob("*")),
        "mechanism": (path / "mechanism.json").read_bytes(),
        "card": (path / "PRIVACY.md").read_bytes(),
        "schema": (str(file.schema).split("\n", 1)[1], file.schema_arrow.metadata),
        "metadata": (file.metadata.metadata, file.metadata.created_by, file.metadata.format_version),
        "groups": [(group.num_rows, group.num_columns, group.sorting_columns) for group in groups],
        "encodings": [[(c.encodings, c.compression) for c in map(group.column, range(3))] for group in groups],
        "ids": file.read(columns=["id"]).to_pylist(),
    }


@pytest.mark.parametrize("ids", ["int", "str"])
def test_only_codes_and_private_labels_depend_on_the_labels(party, monkeypatch, ids):
    """Same key, same release, same mechanism; other labels, in another order, in other files with other metadata."""
    (party.folder / "parts").mkdir()
    source = replace(party.source, path=party.folder / "parts")
    names = np.arange(ROWS) if ids == "int" else np.array([f"user {i}" for i in range(ROWS)])
    prior = Prior.uniform(DOMAIN)
    fixed = secrets.token_hex(16)
    monkeypatch.setattr("labeldp.release.account.secrets.token_hex", lambda _: fixed)
    monkeypatch.setattr("labeldp.release.key_file.os.urandom", bytes)
    stop_clock(monkeypatch, "2026-01-02")
    shapes = []
    for name, values, order in (
        ("zeros", np.zeros(ROWS), np.arange(ROWS)),
        ("sorted", np.sort(labels(3)), np.random.default_rng(4).permutation(ROWS)),
        ("outside", np.full(ROWS, 1e6), np.arange(ROWS)[::-1]),
    ):
        for old in source.path.iterdir():
            old.unlink()
        columns = {"id": names[order], "y": values, name: values}
        described = pa.table(columns).replace_schema_metadata({"made from": f"{name} {values[0]}"})
        for part in range(3):
            rows = described.slice(part * ROWS // 3, ROWS // 3)
            pq.write_table(rows, source.path / f"{name}-{part}.parquet", row_group_size=100 + part)
        more = {"ledger": None, "dataset": None, "key_file": party.folder / f"{name}.key"}
        shapes.append(shape(party.run(out=name, source=source, prior=prior, out_of_range="clip-all", **more).message))
    for other in shapes[1:]:
        for what, value in shapes[0].items():
            assert other[what] == value, what
    assert codes_by_id(party.folder / "zeros") != codes_by_id(party.folder / "sorted")


@pytest.mark.parametrize("share", [0.25, 1])
def test_labels_that_mostly_lie_outside_are_refused_before_anything_is_charged(party, share):
    write(party.source.path, np.where(np.arange(ROWS) < share * ROWS, 1e6, labels(0)))
    before = sorted(party.folder.iterdir())
    with pytest.raises(InvalidInput, match=r"more than 20% of the labels lie outside.*clip-all"):
        party.run()
    assert (party.spent, sorted(party.folder.iterdir())) == (0, before)


def test_many_labels_outside_are_a_warning_that_stays_with_the_owner(party):
    write(party.source.path, np.where(np.arange(ROWS) < 0.06 * ROWS, 1e6, labels(0)))
    with pytest.warns(ClippingWarning, match=r"6\.\d% of the labels.*keep it to yourself"):
        outcome = party.run()
    kept = [*outcome.message.iterdir(), party.folder / "key", party.folder / "ledger.db"]
    for file in kept:
        content = file.read_bytes()
        assert b"clipped" not in content
        assert str(outcome.clipped).encode() + b" " not in content
    with pytest.warns(ClippingWarning):
        assert party.run().resumed
    write(party.source.path, np.where(np.arange(ROWS) < 0.04 * ROWS, 1e6, labels(0)))
    assert party.run(out="few").clipped > 0  # without a warning


def test_a_later_batch_is_judged_like_the_first_one(party):
    party.run()
    kept = {"key_file": party.folder / "key", "ledger": party.ledger}
    late = replace(party.source, path=party.folder / "late.parquet")
    write(late.path, [1e6, 1e6], [ROWS, ROWS + 1])
    held = codes_by_id(party.folder / "message")
    with pytest.raises(InvalidInput, match="more than 20% of the labels lie outside"):
        apply(party.folder / "message", late, **kept)
    with pytest.raises(InvalidInput, match="row 1, row 2 "):
        apply(party.folder / "message", late, **kept, out_of_range="error")
    assert codes_by_id(party.folder / "message") == held
    assert apply(party.folder / "message", late, **kept, out_of_range="clip-all").records == 2
    write(late.path, [1e6, 50.0], [ROWS + 2, ROWS + 3])
    with pytest.warns(ClippingWarning, match=r"50\.0%"):
        apply(party.folder / "message", late, **kept)


def test_a_message_names_no_place_and_no_count_of_clipped_labels(party):
    write(party.source.path, np.full(ROWS, 1e6))
    outcome = party.run(out_of_range="clip-all")
    assert outcome.clipped == ROWS
    texts = [(outcome.message / name).read_text() for name in ("mechanism.json", "PRIVACY.md")]
    record = json.loads(texts[0])
    for text in texts:
        for secret in (str(party.folder), "labels.parquet/", "ledger", "hmac"):
            assert secret not in text
    assert texts[1].count(f"{ROWS:,}") == 1  # the number of records, which is public
    names = {"id_column", "label_column"}  # given by the labels party, and the same whatever the labels are
    known = {"release", "id_type", "keep_order", "keyed", "row_numbers", "persons", "dataset", "date"}
    assert set(record["message"]) == known | names
    assert (
        Fraction(record["epsilon_prior"]) + Fraction(record["epsilon_labels"]) == Fraction(record["epsilon_total"]) == 1
    )


def test_keep_order_keeps_it_and_says_so(party):
    order = np.random.default_rng(5).permutation(ROWS)
    write(party.source.path, labels(0), order)
    party.run(keep_order=True)
    assert pq.read_table(party.folder / "message" / "labels.parquet")["id"].to_pylist() == order.tolist()
    assert "in the order of the input" in (party.folder / "message" / "PRIVACY.md").read_text()
    party.run(out="other")
    assert pq.read_table(party.folder / "other" / "labels.parquet")["id"].to_pylist() != order.tolist()


@pytest.mark.parametrize("mechanism", ["auto", "rr-on-bins"])
def test_a_budget_too_small_for_the_prior_is_said_once(party, mechanism):
    epsilon = 0.001 if mechanism == "auto" else 0.1
    with pytest.warns(BudgetWarning) as raised:
        privatize(party.source, LabelRandomizer(epsilon, DOMAIN, mechanism=mechanism), party.folder / "message")
    assert len(raised) == 1
    assert "prior" in str(raised[0].message)


def test_another_function_is_another_loss(party):
    """Both are lambdas, so their names are the same."""

    def run(loss):
        randomizer = LabelRandomizer(1, DOMAIN, loss=loss, mechanism="rr-on-bins")
        known = {"ledger": party.ledger, "dataset": "data", "key_file": party.folder / "key"}
        return privatize(party.source, randomizer, party.folder / "message", **known)

    with crashing("labeldp.release.flow.publish"):
        run(lambda output, label: abs(output - label))
    assert not run(lambda output, label: (output - label) ** 4).resumed
    assert party.spent == 2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"mechanism": "bias-variance", "domain": Domain(0, 100, cells=3000)}, "at most 2,001 labels"),
        ({"mechanism": "unbiased", "loss": "poisson"}, "needs outputs outside the range"),
        ({"mechanism": "rr-on-bins", "loss": lambda output, label: -abs(output - label) + 100}, "falls as output"),
        ({"mechanism": "auto", "loss": lambda output, label: 0 * output + label * np.nan}, "finite number"),
        ({"mechanism": "rp-with-prior", "loss": lambda output, label: 1e308 * abs(output - label)}, "no window fits"),
    ],
)
def test_settings_that_no_design_can_meet_are_refused_before_the_charge_and_without_a_solver(
    party, monkeypatch, settings, says
):
    monkeypatch.setattr("labeldp.release.randomizer.design", lambda *_: pytest.fail("a mechanism was designed"))
    with pytest.raises(InvalidInput, match=says):
        party.run(randomizer=LabelRandomizer(1, **({"domain": DOMAIN} | settings)))
    assert party.spent == 0
    assert not (party.folder / "message").exists()


def test_one_release_designs_one_mechanism(party, monkeypatch):
    designed = []
    real = randomizer_module.design
    monkeypatch.setattr(randomizer_module, "design", lambda *given: designed.append(given) or real(*given))
    party.run()
    party.run(out="second", randomizer=LabelRandomizer(1, DOMAIN, mechanism="randomized-response"))
    assert len(designed) == 2
