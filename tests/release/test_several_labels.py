"""Several labels of the same persons: disjoint entries, one charge, weights, and no second draw under it."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import LabelRandomizer, LabelSource, Ledger, Message, apply
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.release.several import apply_several, privatize_several

PERSONS, ROWS = 1500, 6000
BOUNDS = {"amount": (0, 100), "days": (0, 30)}


def write(path, seed=0, **columns):
    generator = np.random.default_rng(seed)
    table = {
        "order": np.arange(ROWS),
        "customer": np.random.default_rng(7).integers(0, PERSONS, ROWS),
        "amount": generator.integers(0, 101, ROWS).astype(float),
        "days": generator.integers(0, 31, ROWS),
    }
    pq.write_table(pa.table(table | columns), path)


class Party:
    def __init__(self, folder):
        self.folder = folder
        write(folder / "orders.parquet")
        self.ledger = Ledger.create(folder / "ledger.db")
        self.ledger.add_dataset("sales", 2, unit="person")
        self.source = LabelSource(folder / "orders.parquet", "amount", "order", person_column="customer")

    def run(self, epsilon=1, out="messages", bounds=BOUNDS, **options):
        randomizers = {name: LabelRandomizer(epsilon, domain) for name, domain in bounds.items()}
        options = {"ledger": self.ledger, "dataset": "sales", "key_file": self.folder / "key"} | options
        return privatize_several(self.source, randomizers, self.folder / out, **options)

    def entries(self, out="messages"):
        """The number of entries of each person in each message."""
        owner = np.random.default_rng(7).integers(0, PERSONS, ROWS)
        return {
            name: Counter(owner[Message.open(self.folder / out / name).to_arrow()["order"].to_numpy()].tolist())
            for name in BOUNDS
        }


@pytest.fixture
def party(tmp_path):
    return Party(tmp_path)


def test_each_person_is_in_one_message_and_epsilon_is_charged_once(party):
    party.run()
    counted = party.entries()
    assert set((counted["amount"] + counted["days"]).values()) == {1}
    assert party.ledger.remaining("sales") == 1
    assert party.ledger.verify().mechanisms == 2
    assert party.ledger.datasets()[0].releases == 1
    first, second = party.ledger.history("sales")
    assert (first.part_of, first.part, second.part_of, second.part) == (None, "amount", first.id, "days")
    for name in BOUNDS:
        message = Message.open(party.folder / "messages" / name)
        assert message.epsilon_exact == 1
        assert message.header.persons.shared == ("amount", "days")
        assert "one of 2 messages" in (message.path / "PRIVACY.md").read_text()


def test_weights_share_the_persons_in_proportion(party):
    party.run(weights={"amount": 6, "days": 2})
    counted = party.entries()
    share = len(counted["amount"]) / (len(counted["amount"]) + len(counted["days"]))
    assert share == pytest.approx(0.75, abs=0.05)  # more than four standard deviations


def test_several_entries_of_a_person_share_epsilon_over_all_messages(party):
    party.ledger.add_dataset("more", 30, unit="person")
    outcomes = party.run(30, dataset="more")
    (entries,) = {outcome.entries for outcome in outcomes.values()}
    counted = party.entries()
    assert max((counted["amount"] + counted["days"]).values()) == entries > 1
    assert party.ledger.remaining("more") == 0


def test_labels_change_nothing_about_which_entries_are_chosen(party):
    party.run()
    write(party.folder / "orders.parquet", seed=1)
    party.run(out="other")
    assert party.entries() == party.entries("other")
    assert party.ledger.remaining("sales") == 0


def test_a_finished_run_is_repeated_for_nothing_and_a_lost_message_is_not_drawn_again(party):
    party.run()
    assert all(outcome.resumed for outcome in party.run().values())
    assert party.ledger.remaining("sales") == 1
    shutil.rmtree(party.folder / "messages" / "days")
    with pytest.raises(InvalidInput, match="which covers it once"):
        party.run()
    (party.folder / "key").unlink()  # the ledger refuses it as well, whatever key file is there
    first = party.ledger.history("sales")[0]
    options = {"unit": "person", "part_of": first.id, "key_check": first.key_check, "input_hmac": "aa"}
    for part in ("days", "amount", None):
        with pytest.raises(InvalidInput, match="covers each label once"):
            party.ledger.reserve("sales", 1, part=part, **options)
    with pytest.raises(InvalidInput, match="does not cover this one"):
        party.ledger.reserve("sales", "0.5", part="count", **options)


def test_a_run_that_was_killed_between_two_labels_goes_on(party, monkeypatch):
    from labeldp.release import several

    whole = several.run_release

    def killed(job, out, **options):
        if out.name == "days":
            raise KeyboardInterrupt
        return whole(job, out, **options)

    with monkeypatch.context() as patched:
        patched.setattr(several, "run_release", killed)
        with pytest.raises(KeyboardInterrupt):
            party.run()
    write(party.folder / "orders.parquet", customer=np.random.default_rng(8).integers(0, PERSONS, ROWS))
    with pytest.raises(InvalidInput):
        party.run()
    write(party.folder / "orders.parquet")
    outcomes = party.run()
    assert [outcome.resumed for outcome in outcomes.values()] == [True, False]
    assert party.ledger.remaining("sales") == 1
    counted = party.entries()
    assert set((counted["amount"] + counted["days"]).values()) == {1}


def test_bad_labels_of_any_column_are_found_before_the_charge(party):
    write(party.folder / "orders.parquet", days=pa.array([None] + [1] * (ROWS - 1)))
    with pytest.raises(InvalidInput, match="missing label in 'days'"):
        party.run()
    assert party.ledger.remaining("sales") == 2
    assert not (party.folder / "messages").exists()
    assert not (party.folder / "key").exists()


def later(party, name, first, low, high):
    """A file of new rows, of persons from `low` to below `high`."""
    generator = np.random.default_rng(first)
    columns = {"order": np.arange(first, first + 300), "customer": generator.integers(low, high, 300)}
    columns |= {"amount": generator.integers(0, 101, 300).astype(float), "days": generator.integers(0, 31, 300)}
    pq.write_table(pa.table(columns), party.folder / name)
    return replace(party.source, path=party.folder / name), dict(
        zip(columns["order"].tolist(), columns["customer"].tolist(), strict=True)
    )


def add(party, source, label=None):
    options = {"key_file": party.folder / "key", "ledger": party.ledger}
    if label is None:
        return apply_several(party.folder / "messages", source, **options)
    return apply(party.folder / "messages" / label, replace(source, label_column=label), **options)


def all_entries(party, *owners):
    """The number of entries of each person in all messages."""
    known = dict(enumerate(np.random.default_rng(7).integers(0, PERSONS, ROWS).tolist()))
    for one in owners:
        known |= one
    found = [Message.open(party.folder / "messages" / name).to_arrow()["order"].to_pylist() for name in BOUNDS]
    return Counter(known[order] for orders in found for order in orders)


def test_a_batch_for_all_messages_gives_new_persons_one_entry_and_served_ones_none(party):
    party.run()
    first, owners = later(party, "first.parquet", ROWS, PERSONS - 20, PERSONS + 60)
    second, others = later(party, "second.parquet", ROWS + 300, PERSONS + 40, PERSONS + 120)
    outcomes = add(party, first)
    assert all(outcome.records > 0 for outcome in outcomes.values())
    add(party, second)
    counted = all_entries(party, owners, others)
    assert set(counted.values()) == {1}
    assert {*owners.values(), *others.values()} <= set(counted)
    assert party.ledger.remaining("sales") == 1
    assert party.ledger.datasets()[0].batches == 4


def test_messages_that_share_persons_take_the_same_batches_only(party):
    """A run is stopped after the first message. No other batch may come before the second message has that one too."""
    party.run()
    first, owners = later(party, "first.parquet", ROWS, PERSONS, PERSONS + 60)
    second, others = later(party, "second.parquet", ROWS + 300, PERSONS, PERSONS + 120)
    add(party, first, "amount")
    for source, label in ((second, "days"), (second, "amount"), (second, None)):
        with pytest.raises(InvalidInput, match="do not have the same batches"):
            add(party, source, label)
    assert set(add(party, first)) == {"days"}
    assert set(add(party, second)) == {"amount", "days"}
    assert set(all_entries(party, owners, others).values()) == {1}


def test_a_batch_that_was_begun_in_a_message_is_finished_before_the_next(party, monkeypatch):
    """A kill after the file of the second message is in place, and before its manifest."""
    party.run()
    first, owners = later(party, "first.parquet", ROWS, PERSONS, PERSONS + 60)
    second, others = later(party, "second.parquet", ROWS + 300, PERSONS, PERSONS + 120)
    add(party, first, "amount")
    with monkeypatch.context() as patch:
        patch.setattr("labeldp.release.apply.replace_file", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            add(party, first, "days")
    with pytest.raises(InvalidInput, match="do not have the same batches"):
        add(party, second, "amount")
    assert set(add(party, first)) == {"days"}
    add(party, second)
    assert set(all_entries(party, owners, others).values()) == {1}


def test_an_outdated_key_file_is_noticed_by_the_other_messages(party):
    party.run()
    old = (party.folder / "key").read_bytes()
    first, _ = later(party, "first.parquet", ROWS, PERSONS, PERSONS + 60)
    second, _ = later(party, "second.parquet", ROWS + 300, PERSONS, PERSONS + 60)
    add(party, first, "amount")
    (party.folder / "key").write_bytes(old)
    with pytest.raises(InvalidInput, match="key file is an outdated copy"):
        add(party, second, "days")
    (party.folder / "messages/amount").rename(party.folder / "amount")
    with pytest.raises(InvalidInput, match="Keep all messages of one release in one folder"):
        add(party, second, "days")


def test_a_batch_that_could_not_be_written_leaves_all_messages_free(party, monkeypatch):
    party.run()
    first, _ = later(party, "first.parquet", ROWS, PERSONS, PERSONS + 60)
    second, others = later(party, "second.parquet", ROWS + 300, PERSONS, PERSONS + 60)
    with monkeypatch.context() as patch:
        patch.setattr(ArrowInput, "randomize", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(LabelDPError, match="was not changed"):
            add(party, first)
    add(party, second)
    assert set(all_entries(party, others).values()) == {1}


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"weights": {"amount": 0}}, "whole number from 1"),
        ({"weights": {"count": 1}}, "not among the labels"),
        ({"weights": {"amount": 101}}, "at most 100 to 1"),
        ({"bounds": {"amount": (0, 100)}}, "at least two label columns"),
        ({"bounds": {"amount": (0, 100), "Amount": (0, 1)}}, "upper and lower case"),
        ({"bounds": {"amount": (0, 100), "../days": (0, 1)}}, "name of a folder"),
        ({"bounds": {"amount": (0, 100), "customer": (0, 1)}}, "cannot be the column of ids or of persons"),
    ],
)
def test_settings_that_cannot_work_are_refused(party, options, wrong):
    with pytest.raises(InvalidInput, match=wrong):
        party.run(**options)
    assert party.ledger.remaining("sales") == 2


def test_persons_and_ids_must_be_named(party):
    for source, wrong in (
        (LabelSource(party.source.path, "amount", "order"), "column of persons"),
        (LabelSource(party.source.path, "amount", person_column="customer"), "column of record ids"),
    ):
        party.source = source
        with pytest.raises(InvalidInput, match=wrong):
            party.run()
