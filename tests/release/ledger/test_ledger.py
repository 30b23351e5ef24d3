"""The ledger's accounts: exact sums, names, the life of a release, and what may be resumed."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.errors import InsufficientBudget, InvalidInput, LabelDPError, PrivacyRefused
from labeldp.mechanisms import Laplace, RROnBins
from labeldp.priors import Prior
from labeldp.release.ledger import Ledger, key_fingerprint
from labeldp.release.ledger_journal import LedgerBroken
from labeldp.release.ledger_rows import OtherUnit
from labeldp.release_kind import ReleaseKind

KEY = bytes(range(32))
SAME = {"key_check": key_fingerprint(KEY), "input_hmac": "ab" * 32}
CHEAP = RROnBins([10, 100], epsilon="0.25")


def test_ten_tenths_spend_exactly_one_and_not_a_hair_more(ledger):
    ledger.add_dataset("tenths", budget=1)
    for _ in range(10):
        ledger.reserve("tenths", 0.1)
    assert ledger.remaining("tenths") == 0
    with pytest.raises(InsufficientBudget):
        ledger.reserve("tenths", "1e-9")


def test_a_refusal_carries_the_exact_numbers_and_charges_nothing(ledger):
    ledger.reserve("sales", "2.9")
    with pytest.raises(InsufficientBudget, match=r"0\.1") as refusal:
        ledger.reserve("sales", Fraction(1, 10) + Fraction(1, 10**30))
    assert refusal.value.remaining == Fraction(1, 10)
    assert refusal.value.requested == Fraction(1, 10) + Fraction(1, 10**30)
    assert refusal.value.exit_code == 3
    assert ledger.remaining("sales") == Fraction(1, 10)


amounts = st.one_of(
    st.fractions(min_value=Fraction(1, 1000), max_value=3, max_denominator=10**6),
    st.floats(min_value=1e-6, max_value=3).map(lambda x: Fraction(repr(x))),
    st.decimals(min_value="0.001", max_value=3, places=3).map(Fraction),
)


@given(budget=amounts, requests=st.lists(amounts, max_size=12))
def test_a_reservation_succeeds_if_and_only_if_the_exact_sum_stays_within_the_budget(budget, requests):
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "ledger.db")
        ledger.add_dataset("data", budget)
        spent = Fraction(0)
        for amount in requests:
            if spent + amount <= budget:
                assert ledger.reserve("data", amount).epsilon == amount
                spent += amount
            else:
                with pytest.raises(InsufficientBudget) as refusal:
                    ledger.reserve("data", amount)
                assert refusal.value.remaining == budget - spent
        (dataset,) = ledger.datasets()
        assert (dataset.budget, dataset.spent, dataset.remaining) == (budget, spent, budget - spent)
        assert sum(release.epsilon for release in ledger.history("data")) == spent


@pytest.mark.parametrize(
    ("given_as", "meant"), [("0.1", "1/10"), (0.1, "1/10"), (Decimal("0.1"), "1/10"), ("1/3", "1/3"), (100, "100")]
)
def test_budgets_mean_the_number_as_written(ledger, given_as, meant):
    assert ledger.add_dataset("data", budget=given_as).budget == Fraction(meant)


@pytest.mark.parametrize("budget", [0, "three", float("inf"), True, None, "1/0", "1e999999999", 10**7])
def test_a_budget_that_is_no_amount_is_refused(ledger, budget):
    with pytest.raises(InvalidInput, match="budget"):
        ledger.add_dataset("data", budget=budget)
    assert len(ledger.datasets()) == 1


@pytest.mark.parametrize("epsilon", [0, "x", float("nan"), 41])
def test_an_epsilon_that_is_no_amount_is_refused_and_charges_nothing(ledger, epsilon):
    with pytest.raises(InvalidInput, match="epsilon"):
        ledger.reserve("sales", epsilon)
    assert ledger.history() == []


def test_each_dataset_has_a_budget_of_its_own(ledger):
    ledger.add_dataset("visits", budget=1)
    ledger.reserve("sales", 3)
    ledger.reserve("visits", 0.25)
    assert [(d.name, d.remaining, d.releases, d.uncommitted) for d in ledger.datasets()] == [
        ("sales", 0, 1, 1),
        ("visits", Fraction(3, 4), 1, 1),
    ]
    assert [release.dataset for release in ledger.history()] == ["sales", "visits"]
    assert [release.dataset for release in ledger.history("visits")] == ["visits"]


def test_an_early_check_refuses_what_reserve_would_refuse_unless_a_release_of_this_key_waits(ledger):
    ledger.require("sales", 3)
    assert ledger.history() == []
    ledger.reserve("sales", 2, **SAME)
    with pytest.raises(InsufficientBudget):
        ledger.require("sales", 2)
    with pytest.raises(InsufficientBudget):
        ledger.require("sales", 2, key_check=key_fingerprint(b"another key of 16 bytes"))
    with pytest.raises(InsufficientBudget):
        ledger.require("sales", "1.5", key_check=SAME["key_check"])
    ledger.require("sales", 2, key_check=SAME["key_check"])


@pytest.mark.parametrize("name", ["", " sales", "a\nb", "a\x1b[31m", "x" * 101, "Umsa\u0308tze"])
def test_a_name_that_could_mislead_is_refused(ledger, name):
    with pytest.raises(InvalidInput, match="cannot name a dataset"):
        ledger.add_dataset(name, budget=1)


@pytest.mark.parametrize("name", ["sales", "Sales"])
def test_a_dataset_is_entered_once_and_keeps_its_budget(ledger, name):
    with pytest.raises(InvalidInput, match="already has a dataset 'sales'"):
        ledger.add_dataset(name, budget=100)
    assert ledger.remaining("sales") == 3


@pytest.mark.parametrize("ask", ["remaining", "history"])
def test_an_unknown_dataset_is_an_error_with_a_suggestion(ledger, ask):
    with pytest.raises(InvalidInput, match="Did you mean 'sales'"):
        getattr(ledger, ask)("slaes")
    with pytest.raises(InvalidInput, match="It has 'sales'"):
        getattr(ledger, ask)("something else")


def test_an_empty_ledger_says_how_to_add_a_dataset(tmp_path):
    with pytest.raises(InvalidInput, match="ledger create"):
        Ledger.create(tmp_path / "empty.db").reserve("sales", 1)


def test_a_release_is_reserved_then_fixed_then_committed(ledger):
    reserved = ledger.reserve("sales", 0.5)
    assert (reserved.state, reserved.fixed, reserved.committed_at) == ("reserved", False, None)
    assert len(bytes.fromhex(reserved.id)) == 16
    assert reserved.reserved_at.utcoffset().total_seconds() == 0
    fixed = ledger.fix(reserved.id, CHEAP)
    assert (fixed.state, fixed.fixed, fixed.mechanism_digest) == ("reserved", True, CHEAP.digest)
    committed = ledger.commit(reserved.id)
    assert committed.state == "committed"
    assert ledger.commit(reserved.id) == committed
    assert committed.committed_at >= committed.reserved_at
    assert ledger.history("sales") == [committed]
    assert ledger.remaining("sales") == Fraction(5, 2)


def test_a_fixed_mechanism_cannot_change(ledger):
    release = ledger.reserve("sales", 1)
    fixed = ledger.fix(release.id, CHEAP)
    other = RROnBins([10, 90], epsilon="0.25")
    with pytest.raises(LabelDPError, match="fixed already"):
        ledger.fix(release.id, other)
    assert ledger.fix(release.id, CHEAP) == fixed
    assert ledger.history() == [fixed]


@pytest.mark.parametrize("given", [CHEAP.to_json(), None, Laplace((0, 100), 0.25)], ids=["text", "nothing", "floats"])
def test_what_is_not_a_proven_mechanism_is_not_fixed(ledger, given):
    release = ledger.reserve("sales", 1)
    with pytest.raises(InvalidInput, match="mechanism must be a FiniteMechanism"):
        ledger.fix(release.id, given)
    assert not ledger.release(release.id).fixed


@pytest.mark.parametrize(
    "costly",
    [
        RROnBins([10, 100], epsilon="0.500000001"),
        RROnBins.optimal(Prior([10, 100], [1, 1], Fraction(1, 4) + Fraction(1, 10**30)), "0.25"),
    ],
    ids=["labels", "prior and labels together"],
)
def test_a_mechanism_that_costs_more_than_the_charge_is_not_fixed(ledger, costly):
    release = ledger.reserve("sales", "0.5")
    with pytest.raises(PrivacyRefused, match=r"only ε = 0\.5 was charged"):
        ledger.fix(release.id, costly)
    assert not ledger.release(release.id).fixed


def test_nothing_is_committed_before_its_mechanism_is_fixed(ledger):
    release = ledger.reserve("sales", 1)
    with pytest.raises(LabelDPError, match="fix it"):
        ledger.commit(release.id)
    assert ledger.history()[0].state == "reserved"


@pytest.mark.parametrize("act", [lambda ledger: ledger.commit("00" * 16), lambda ledger: ledger.fix("00" * 16, CHEAP)])
def test_an_unknown_release_is_an_error(ledger, act):
    with pytest.raises(InvalidInput, match="does not contain the release"):
        act(ledger)


def test_the_same_key_input_and_request_find_the_release_again_with_its_mechanism(ledger):
    release = ledger.reserve("sales", 1, **SAME, request="squared")
    found = ledger.find_resumable("sales", "1.0", **SAME, request="squared")
    assert found == release
    assert not found.fixed
    fixed = ledger.fix(release.id, CHEAP)
    assert ledger.find_resumable("sales", 1, **SAME, request="squared") == fixed
    assert ledger.remaining("sales") == 2


@pytest.mark.parametrize(
    "different",
    [
        {"key_check": key_fingerprint(b"another key of 16 bytes")},
        {"input_hmac": "00" * 32},
        {"request": "absolute"},
        {"request": None},
        {"epsilon": 2},
        {"dataset": "visits"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_anything_different_is_a_new_release(ledger, different):
    ledger.add_dataset("visits", budget=3)
    same = {"dataset": "sales", "epsilon": 1, "request": "squared", **SAME}
    ledger.reserve(**same)
    assert ledger.find_resumable(**same) is not None
    assert ledger.find_resumable(**{**same, **different}) is None


def test_a_committed_release_is_not_resumed(ledger):
    release = ledger.reserve("sales", 1, **SAME)
    ledger.fix(release.id, CHEAP)
    ledger.commit(release.id)
    assert ledger.find_resumable("sales", 1, **SAME) is None


def test_a_release_without_a_key_is_never_resumed(ledger):
    ledger.reserve("sales", 1)
    assert ledger.find_resumable("sales", 1, **SAME) is None


def test_of_several_the_one_whose_mechanism_is_fixed_is_resumed(ledger):
    ledger.reserve("sales", 1, **SAME)
    second = ledger.reserve("sales", 1, **SAME)
    fixed = ledger.fix(second.id, CHEAP)
    assert ledger.find_resumable("sales", 1, **SAME) == fixed


@pytest.mark.parametrize("half", list(SAME))
def test_key_and_input_are_given_together(ledger, half):
    with pytest.raises(InvalidInput, match="go together"):
        ledger.reserve("sales", 1, **{half: SAME[half]})
    assert ledger.history() == []


def test_the_fingerprint_tells_keys_apart_and_the_file_does_not_hold_the_key(ledger):
    ledger.reserve("sales", 1, **SAME)
    stored = ledger.path.read_bytes()
    assert SAME["key_check"].encode() in stored
    assert KEY not in stored
    assert KEY.hex().encode() not in stored
    assert key_fingerprint(KEY) != key_fingerprint(KEY[::-1])
    with pytest.raises(InvalidInput, match="16"):
        key_fingerprint(b"short")


def test_the_history_is_a_table(ledger):
    assert ledger.to_arrow().num_rows == 0
    first, second = ledger.reserve("sales", "1/3"), ledger.reserve("sales", 1)
    ledger.fix(second.id, CHEAP)
    second = ledger.commit(second.id)
    table = ledger.to_pandas()
    assert table["id"].tolist() == [first.id, second.id]
    assert table["dataset"].tolist() == ["sales", "sales"]
    assert Fraction(table["epsilon"][0]) >= Fraction(1, 3)
    assert table["epsilon"].tolist() == pytest.approx([1 / 3, 1])
    assert table["epsilon_exact"].tolist() == ["1/3", "1"]
    assert table["state"].tolist() == ["reserved", "committed"]
    assert table["reserved_at"].tolist() == [first.reserved_at, second.reserved_at]
    assert table["committed_at"].isna().tolist() == [True, False]
    assert table["mechanism_digest"][1] == CHEAP.digest


def test_batches_are_recorded_once_each_and_charge_nothing(ledger):
    release = ledger.fix(ledger.reserve("sales", 1).id, CHEAP)
    batch = {"mechanism_digest": CHEAP.digest}
    first = ledger.record_batch(release.id, records=100, input_hmac="aa", **batch)
    assert ledger.record_batch(release.id, records=100, input_hmac="aa", **batch) == first
    second = ledger.record_batch(release.id, records=50, input_hmac="bb", **batch)
    assert ledger.batches(release.id) == [first, second]
    assert [(batch.number, batch.records) for batch in (first, second)] == [(1, 100), (2, 50)]
    assert (ledger.release(release.id).batches, ledger.release(release.id).batch_records) == (2, 150)
    assert [(dataset.batches, dataset.batch_records) for dataset in ledger.datasets()] == [(2, 150)]
    assert ledger.to_arrow().select(["batches", "batch_records"]).to_pylist() == [{"batches": 2, "batch_records": 150}]
    assert ledger.remaining("sales") == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"release_id": "00" * 16}, "does not contain the release"),
        ({"mechanism_digest": "cd" * 32}, "another mechanism"),
        ({"records": 0}, "from 1 to"),
    ],
    ids=["release", "mechanism", "records"],
)
def test_a_batch_of_another_release_or_mechanism_is_refused(ledger, change, says):
    release = ledger.fix(ledger.reserve("sales", 1).id, CHEAP)
    batch = {"release_id": release.id, "records": 9, "input_hmac": "aa", "mechanism_digest": CHEAP.digest}
    with pytest.raises(InvalidInput, match=says):
        ledger.record_batch(**batch | change)
    assert ledger.batches(release.id) == []


def test_a_batch_needs_a_release_whose_mechanism_is_fixed(ledger):
    release = ledger.reserve("sales", 1)
    with pytest.raises(InvalidInput, match="is not in the ledger yet"):
        ledger.record_batch(release.id, records=9, input_hmac="aa", mechanism_digest=CHEAP.digest)


@pytest.mark.parametrize("kind", ReleaseKind)
def test_a_charge_keeps_its_kind_and_only_kinds_that_can_be_resumed_are_unfinished(ledger, kind):
    release = ledger.reserve("sales", 1, kind=kind)
    assert release.kind is kind
    assert ledger.datasets()[0].uncommitted == kind.resumable
    assert ledger.to_arrow()["kind"].to_pylist() == [kind.value]
    if kind.resumable:
        assert ledger.commit(ledger.fix(release.id, CHEAP).id).state == "committed"
    else:
        with pytest.raises(InvalidInput, match="which do not have a mechanism"):
            ledger.fix(release.id, CHEAP)
    assert ledger.verify().releases == 1


def test_a_kind_that_this_labeldp_does_not_know_stops_everything(ledger, raw):
    values = f"'{'0' * 32}', 'sales', 'medians', '1', 1, 'reserved', '2026-01-01T00:00:00+00:00'"
    raw(f"INSERT INTO release (id, dataset, kind, epsilon, entries, state, reserved_at) VALUES ({values})")
    for act in (ledger.datasets, ledger.history, lambda: ledger.reserve("sales", 1)):
        with pytest.raises(LedgerBroken, match="of the kind 'medians', which this labeldp does not know"):
            act()


def test_a_dataset_has_one_unit_and_refuses_releases_of_another(ledger):
    ledger.add_dataset("people", 3, unit="person")
    assert {one.name: one.unit for one in ledger.datasets()}["people"] == "person"
    for dataset, unit, way in (("people", "record", "--person"), ("sales", "person", "--unit person")):
        for act in (ledger.require, ledger.reserve):
            with pytest.raises(OtherUnit, match=way) as caught:
                act(dataset, 1, unit=unit)
            assert caught.value.exit_code == 3
        assert ledger.remaining(dataset) == 3
    with pytest.raises(InvalidInput, match='must be "record" or "person"'):
        ledger.add_dataset("visits", 1, unit="household")


def test_a_mechanism_for_several_labels_of_a_person_costs_as_many_times(ledger):
    ledger.add_dataset("people", 3, unit="person")
    cost = CHEAP.epsilon_exact
    ledger.fix(ledger.reserve("people", 2 * cost, unit="person", entries=2).id, CHEAP)
    release = ledger.reserve("people", 2 * cost, unit="person", entries=3)
    with pytest.raises(PrivacyRefused, match="costs"):
        ledger.fix(release.id, CHEAP)
    assert ledger.verify().mechanisms == 1
    for entries, unit in ((0, "person"), (2, "record")):
        with pytest.raises(InvalidInput, match="entries"):
            ledger.reserve("sales", 1, unit=unit, entries=entries)
