"""One ε per person from files: which rows are in the message, later batches, the ledger's unit, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from labeldp import LabelRandomizer, LabelSource, Ledger, Message, apply, privatize
from labeldp.engines.arrow import spill as spills
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.person_spill import PersonSpill
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.priors import BudgetWarning
from labeldp.release import labels as labels_module
from labeldp.release.ledger_rows import OtherUnit
from labeldp.sampling import EntryChoice, KeyedRandomness, choose_entries, person_sizes

RANDOMIZER = LabelRandomizer(1, (0, 100))


def orders(first=0, rows=4000, persons=1000, shift=0, seed=0):
    generator = np.random.default_rng(seed)
    return pa.table(
        {
            "order": np.arange(first, first + rows),
            "customer": [f"c{number}" for number in generator.integers(0, persons, rows) + shift],
            "amount": generator.integers(0, 101, rows).astype(float),
        }
    )


@pytest.fixture
def source(tmp_path):
    pq.write_table(orders(), tmp_path / "orders.parquet")
    return LabelSource(tmp_path / "orders.parquet", "amount", "order", person_column="customer")


def owners(*tables):
    return {
        order: person
        for table in tables
        for order, person in zip(table["order"].to_pylist(), table["customer"].to_pylist(), strict=True)
    }


def ids_of(message):
    return Message.open(message).to_arrow()["order"].to_pylist()


def test_one_row_of_each_person_is_in_the_message_and_the_card_says_so(source, tmp_path):
    outcome = privatize(source, RANDOMIZER, tmp_path / "m")
    table, message = orders(), Message.open(tmp_path / "m")
    counted = Counter(owners(table)[order] for order in ids_of(tmp_path / "m"))
    assert set(counted) == set(table["customer"].to_pylist())
    assert set(counted.values()) == {1}
    assert (outcome.records, outcome.left_out) == (len(counted), 4000 - len(counted))
    assert message.epsilon_exact == 1
    assert message.header.persons.column == "customer"
    card = (tmp_path / "m/PRIVACY.md").read_text()
    assert "ε = 1 for each person" in card
    assert "Rows that were not chosen are not in this message" in card
    assert "cost ε each" not in card
    assert json.loads((tmp_path / "m/mechanism.json").read_text())["adjacency"] == "replace all labels of one person"


@pytest.mark.parametrize("entries", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_several_rows_of_a_person_share_epsilon_and_an_edited_number_is_found(source, tmp_path, entries):
    outcome = privatize(source, LabelRandomizer(12 if entries == 2 else 30, (0, 100)), tmp_path / "m")
    message = Message.open(tmp_path / "m")
    found = message.header.persons.entries
    assert found == outcome.entries >= 2
    assert max(Counter(owners(orders())[order] for order in ids_of(tmp_path / "m")).values()) == found
    mechanism = message.mechanism
    assert found * (mechanism.epsilon_exact + mechanism.prior.epsilon_exact) == message.epsilon_exact
    assert message.epsilon_exact == (12 if entries == 2 else 30)
    file = tmp_path / "m/mechanism.json"
    record = json.loads(file.read_text())
    record["message"]["persons"]["entries"] = 1
    file.write_text(json.dumps(record))
    with pytest.raises(InvalidInput):
        Message.open(tmp_path / "m")


def test_files_and_arrays_choose_the_same_rows_in_any_order_and_with_few_rows_in_memory(source, tmp_path, monkeypatch):
    table, key = orders(), b"k" * 32
    private = RANDOMIZER.randomize(
        table["amount"].to_numpy(),
        table["order"],
        KeyedRandomness(key, bytes(16)),
        persons=table["customer"],
    )
    wanted = set(table["order"].to_numpy()[private.rows].tolist())
    monkeypatch.setattr(spills, "ROWS_PER_PARTITION", 256)
    order = np.random.default_rng(1).permutation(4000)
    pq.write_table(table.take(order), tmp_path / "other.parquet", row_group_size=300)
    for path in ("orders.parquet", "other.parquet"):
        given = LabelSource(tmp_path / path, "amount", "order", person_column="customer")
        monkeypatch.setattr("labeldp.release.account.os.urandom", lambda size: key[:size])
        privatize(given, RANDOMIZER, tmp_path / f"message of {path}")
        assert set(ids_of(tmp_path / f"message of {path}")) == wanted


@pytest.mark.parametrize("bits", [0, 3])
def test_a_spill_is_what_arrays_in_memory_give(bits):
    generator = np.random.default_rng(bits)
    persons, choice = generator.integers(0, 300, 5000), EntryChoice(b"k" * 32)
    spill = PersonSpill(choice, bits * spills.ROWS_PER_PARTITION)
    for start in range(0, 5000, 700):
        spill.add(pa.array(persons[start : start + 700]), pa.array(np.arange(start, min(start + 700, 5000))))
    words = choice.persons(persons)
    chosen = choose_entries(words, choice.ranks(words, np.arange(5000)), 2)
    selection = spill.choose(2)
    assert (selection.mask(0, 5000) == chosen).all()
    assert (selection.mask(13, 100) == chosen[13:113]).all()
    assert selection.records == chosen.sum()
    assert (spill.sizes() == person_sizes(words)).all()
    everybody = np.concatenate(list(spill.words()))
    assert everybody.tolist() == np.unique(words).tolist()
    served = [everybody[::3], everybody[1::3]]
    assert np.concatenate(list(spill.words(served))).tolist() == everybody[2::3].tolist()
    again = spill.choose(2, served)
    assert (again.mask(0, 5000) == chosen & np.isin(words, everybody[2::3])).all()


def test_a_later_batch_leaves_out_persons_who_were_served(source, tmp_path):
    privatize(source, RANDOMIZER, tmp_path / "m", key_file=tmp_path / "key")
    first = set(ids_of(tmp_path / "m"))
    tables = [orders(), orders(4000, 500, 200, 900, seed=1), orders(4500, 500, 300, 1000, seed=2)]
    for number in (1, 2):
        pq.write_table(tables[number], tmp_path / "later.parquet")
        later = LabelSource(tmp_path / "later.parquet", "amount", "order", person_column="customer")
        outcome = apply(tmp_path / "m", later, key_file=tmp_path / "key")
        assert outcome.records + outcome.left_out == 500
        new = set(tables[number]["customer"].to_pylist()) - set(owners(*tables[:number]).values())
        assert outcome.records == len(new)
    counted = Counter(owners(*tables)[order] for order in ids_of(tmp_path / "m"))
    assert set(counted.values()) == {1}
    assert set(counted) == set(owners(*tables).values())
    assert first < set(ids_of(tmp_path / "m"))
    again = apply(tmp_path / "m", later, key_file=tmp_path / "key")
    assert (again.records, again.left_out) == (0, 500)


def test_a_batch_that_was_killed_serves_its_persons_once(source, tmp_path, monkeypatch):
    from labeldp.release import apply as apply_module

    privatize(source, RANDOMIZER, tmp_path / "m", key_file=tmp_path / "key")
    pq.write_table(orders(4000, 500, 200, 900, seed=1), tmp_path / "later.parquet")
    later = LabelSource(tmp_path / "later.parquet", "amount", "order", person_column="customer")
    with monkeypatch.context() as killed:
        killed.setattr(apply_module._Batch, "_record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            apply(tmp_path / "m", later, key_file=tmp_path / "key")
    outcome = apply(tmp_path / "m", later, key_file=tmp_path / "key")
    assert outcome.resumed
    assert apply(tmp_path / "m", later, key_file=tmp_path / "key").records == 0
    counted = Counter(owners(orders(), orders(4000, 500, 200, 900, seed=1))[order] for order in ids_of(tmp_path / "m"))
    assert set(counted.values()) == {1}


@pytest.mark.parametrize("harm", ["remove", "change"])
def test_without_the_file_of_persons_nothing_is_added(source, tmp_path, harm):
    privatize(source, RANDOMIZER, tmp_path / "m", key_file=tmp_path / "key")
    (listed,) = tmp_path.glob("key.*.persons-0")
    assert listed.stat().st_mode & 0o777 == 0o600
    listed.unlink() if harm == "remove" else listed.write_bytes(listed.read_bytes()[8:])
    with pytest.raises(InvalidInput, match="lists the persons in the message, is missing or was changed"):
        apply(tmp_path / "m", source, key_file=tmp_path / "key")


def test_a_batch_must_have_the_persons_of_the_message(source, tmp_path):
    privatize(source, RANDOMIZER, tmp_path / "m", key_file=tmp_path / "key")
    table = orders(4000, 10)
    pq.write_table(table.set_column(1, "customer", pa.array(range(10))), tmp_path / "later.parquet")
    without = LabelSource(tmp_path / "later.parquet", "amount", "order")
    with pytest.raises(InvalidInput, match="give --person customer"):
        apply(tmp_path / "m", without, key_file=tmp_path / "key")
    numbers = LabelSource(tmp_path / "later.parquet", "amount", "order", person_column="customer")
    with pytest.raises(InvalidInput, match="persons of this message are text, these are whole numbers"):
        apply(tmp_path / "m", numbers, key_file=tmp_path / "key")


def test_a_run_that_failed_is_resumed_only_with_the_same_persons(source, tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3, unit="person")
    options = {"ledger": ledger, "dataset": "sales", "key_file": tmp_path / "key"}
    with monkeypatch.context() as broken:
        broken.setattr(labels_module, "describe", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(LabelDPError):
            privatize(source, RANDOMIZER, tmp_path / "m", **options)
    table = orders()
    shuffled = pa.array(table["customer"].to_pylist()[::-1])
    pq.write_table(table.set_column(1, "customer", shuffled), tmp_path / "orders.parquet")
    assert not privatize(source, RANDOMIZER, tmp_path / "other", **options).resumed
    assert ledger.remaining("sales") == 1
    pq.write_table(table, tmp_path / "orders.parquet")
    assert privatize(source, RANDOMIZER, tmp_path / "m", **options).resumed
    assert ledger.remaining("sales") == 1
    assert ledger.verify().mechanisms == 2


@pytest.mark.parametrize("unit", ["record", "person"])
def test_the_ledger_refuses_another_unit_before_anything_is_read(source, tmp_path, unit):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3, unit=unit)
    given = source if unit == "record" else LabelSource(source.path, "amount", "order")
    with pytest.raises(OtherUnit, match=f"is for each {unit}"):
        privatize(given, RANDOMIZER, tmp_path / "m", ledger=ledger, dataset="sales")
    assert ledger.remaining("sales") == 3
    assert not (tmp_path / "m").exists()


def test_rows_in_another_order_between_two_passes_are_noticed(source, tmp_path, monkeypatch):
    """The fingerprint does not depend on the order, and chosen rows are known by their numbers."""
    whole = ArrowInput.scan

    def scan(self, *arguments, **options):
        found = whole(self, *arguments, **options)
        pq.write_table(orders().take(np.arange(4000)[::-1]), source.path)
        return found

    monkeypatch.setattr(ArrowInput, "scan", scan)
    with pytest.raises(InvalidInput, match="changed while it was read"):
        privatize(source, RANDOMIZER, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def replaced(column):
    return orders().set_column(1, "customer", column)


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        (pa.array([None] + ["a", "b"] * 1999 + ["c"]), "the person column 'customer' has no person in row 1"),
        (pa.array(np.arange(4000.0)), "persons must be integers or text"),
        (pa.array(["one"] * 4000), "all rows belong to one person"),
    ],
)
def test_persons_that_cannot_be_used_are_refused_before_the_charge(source, tmp_path, column, wrong):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3, unit="person")
    pq.write_table(replaced(column), source.path)
    with pytest.raises(InvalidInput, match=wrong):
        privatize(source, RANDOMIZER, tmp_path / "m", ledger=ledger, dataset="sales")
    assert ledger.remaining("sales") == 3


def test_persons_of_two_types_in_two_files_are_refused(tmp_path):
    folder = tmp_path / "orders"
    folder.mkdir()
    pq.write_table(orders(0, 100), folder / "a.parquet")
    pq.write_table(orders(100, 100).set_column(1, "customer", pa.array(range(100))), folder / "b.parquet")
    with pytest.raises(InvalidInput, match="persons change their type between whole numbers and text at row 101"):
        privatize(LabelSource(folder, "amount", "order", person_column="customer"), RANDOMIZER, tmp_path / "m")


def test_the_label_cannot_be_the_person_and_the_id_as_person_gives_a_warning(source, tmp_path):
    with pytest.raises(InvalidInput, match="cannot be the column of persons"):
        LabelSource(source.path, "amount", "order", person_column="amount")
    same = LabelSource(source.path, "amount", "order", person_column="order")
    with pytest.warns(BudgetWarning, match="no person has more than one row"):
        outcome = privatize(same, RANDOMIZER, tmp_path / "m")
    assert (outcome.records, outcome.left_out) == (4000, 0)


def test_text_files_with_numbers_and_with_text_as_persons(tmp_path):
    for name, persons in (("a", pa.array(np.arange(4000) // 4)), ("b", orders()["customer"])):
        pa_csv.write_csv(replaced(persons), tmp_path / f"{name}.csv")
        given = LabelSource(tmp_path / f"{name}.csv", "amount", "order", person_column="customer")
        outcome = privatize(given, RANDOMIZER, tmp_path / name)
        assert outcome.records == len(set(persons.to_pylist()))
        assert Message.open(tmp_path / name).header.persons.kind == ("int" if name == "a" else "str")


def test_labels_decide_nothing_about_which_rows_are_released(source, tmp_path, monkeypatch):
    monkeypatch.setattr("labeldp.release.account.os.urandom", lambda size: bytes(range(32))[:size])
    privatize(source, RANDOMIZER, tmp_path / "one")
    pq.write_table(orders().set_column(2, "amount", pa.array(np.full(4000, 7.0))), source.path)
    privatize(source, RANDOMIZER, tmp_path / "two")
    assert ids_of(tmp_path / "one") == ids_of(tmp_path / "two")


def test_the_exact_epsilon_is_charged_whatever_the_number_of_entries(source, tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 60, unit="person")
    privatize(source, LabelRandomizer("30.1", (0, 100)), tmp_path / "m", ledger=ledger, dataset="sales")
    (release,) = ledger.history("sales")
    assert release.entries > 2
    assert release.epsilon == Fraction("30.1")
    assert ledger.verify().mechanisms == 1
