"""One round between two parties: a plan without labels, columns to send, an answer within ε, and a model of it."""

from __future__ import annotations

import json
from fractions import Fraction

import column_answers
import numpy as np
import pyarrow as pa
import pytest
from column_answers import answer_columns

from labeldp import Domain, InvalidInput, Ledger, PrivateSums
from labeldp.budget import format_amount
from labeldp.errors import InsufficientBudget
from labeldp.learn.sums.cells_plan import CellsPlan, model_from_answer
from labeldp.release.cells_file import CellColumns

ROWS = 4000
RANDOM = np.random.default_rng(0)
SIZE = RANDOM.normal(size=ROWS)
TABLE = pa.table(
    {
        "size": SIZE,
        "shop": RANDOM.choice(["a", "b", "ü", None], ROWS),
        "age": pa.array([None if i % 9 == 0 else i % 40 for i in range(ROWS)]),
        "same": np.ones(ROWS),
        "nothing": pa.nulls(ROWS, pa.float64()),
    }
)
LABELS = np.clip(100 + 40 * SIZE + 30 * (TABLE["shop"].to_numpy(zero_copy_only=False) == "a"), 0, 400)
PLAN = CellsPlan.make(TABLE, 2)


def r2(model, features=TABLE, labels=LABELS):
    return 1 - np.mean((model.predict(features) - labels) ** 2) / labels.var()


def answered(plan=PLAN, features=TABLE, labels=LABELS, epsilon=2):
    return answer_columns(labels, plan.columns(features), epsilon, (0, 400))


def test_the_answer_makes_a_good_model():
    assert r2(model_from_answer(PLAN, TABLE, answered())) > 0.8


def test_the_order_of_the_features_does_not_matter():
    sums = answered()
    model = model_from_answer(PLAN, TABLE, sums)
    turned = model_from_answer(PLAN, TABLE.take(pa.array(np.arange(ROWS)[::-1])), sums)
    np.testing.assert_allclose(turned.predict(TABLE), model.predict(TABLE), rtol=1e-6)


def test_the_columns_are_signs_and_cell_numbers_of_the_features():
    sent = PLAN.columns(TABLE)
    signs = len(PLAN.signs)
    assert sent
    assert all(one.dtype == np.int8 and set(one.tolist()) <= {-1, 1} for one in sent[:signs])
    for column, one in zip(PLAN.whole, sent[signs:], strict=True):
        np.testing.assert_array_equal(one, PLAN.partitions.cells(TABLE)[:, column])
    assert set(PLAN.disclosed_features) <= {"size", "shop", "age"}  # constants have nothing to tell


def test_the_labels_party_recognises_the_kinds_that_the_plan_sent():
    given = CellColumns.of(PLAN.columns(TABLE))
    assert given.signs == tuple(range(len(PLAN.signs)))
    assert given.whole == tuple(range(len(PLAN.signs), len(PLAN.signs) + len(PLAN.whole)))
    assert given.sizes == tuple(PLAN.partitions.sizes[column] for column in PLAN.whole)


@pytest.mark.parametrize("epsilon", ["1/3", 0.1, 40])
def test_the_answer_costs_at_most_epsilon_and_all_groups_alike(epsilon):
    sums = answered(epsilon=epsilon)
    costs = [answer.epsilon_exact for answer in sums.answers]
    assert sums.proof().total <= sums.epsilon_exact
    assert sum(costs) > sums.epsilon_exact * Fraction(999_999, 1_000_000)
    assert [answer.kind for answer in sums.answers] == ["histogram", "signs"] + ["cells"] * len(PLAN.whole)
    assert float(max(costs[1:])) == pytest.approx(float(min(costs[1:])))


def test_a_plan_comes_back_from_json():
    text = PLAN.to_json()
    again = CellsPlan.from_json(text)
    assert again.to_json() == text
    for one, other in zip(again.columns(TABLE), PLAN.columns(TABLE), strict=True):
        np.testing.assert_array_equal(one, other)
    sums = answered()
    np.testing.assert_array_equal(
        model_from_answer(again, TABLE, sums).predict(TABLE), model_from_answer(PLAN, TABLE, sums).predict(TABLE)
    )


def test_a_plan_needs_no_label_and_is_always_the_same():
    assert CellsPlan.make(TABLE, 2).to_json() == PLAN.to_json()


DAMAGE = {
    "format": lambda plan: plan.update(format="another"),
    "version": lambda plan: plan.update(format_version=True),
    "unknown field": lambda plan: plan.update(more=1),
    "missing field": lambda plan: plan.pop("cells"),
    "epsilon": lambda plan: plan.update(epsilon="-1"),
    "no questions": lambda plan: plan.update(signs=[], cells=[]),
    "questions of another type": lambda plan: plan.update(signs={}),
    "a question of another type": lambda plan: plan["signs"].append(3),
    "another column": lambda plan: plan["signs"][1].update(column=99),
    "a column that is no number": lambda plan: plan["signs"][1].update(column=True),
    "other signs": lambda plan: plan["signs"][1].update(signs=plan["signs"][1]["signs"] + "+"),
    "zeros for signs": lambda plan: plan["signs"][0].update(signs="0"),
    "cells of another column": lambda plan: plan.update(cells=[99]),
    "cells twice": lambda plan: plan.update(cells=[0, 0]),
    "partitions": lambda plan: plan.update(partitions=[]),
    "cuts that fall": lambda plan: plan["partitions"]["numeric"][0]["cuts"].reverse(),
    "cuts that are no numbers": lambda plan: plan["partitions"]["numeric"][0].update(cuts=["0.5"]),
    "centres": lambda plan: plan["partitions"]["numeric"][0]["centres"].pop(),
    "centres that fall": lambda plan: plan["partitions"]["numeric"][0]["centres"].reverse(),
    "missing": lambda plan: plan["partitions"]["numeric"][0].update(missing=1),
    "a category twice": lambda plan: plan["partitions"]["categorical"][0].update(
        categories=["a", "a"], counts=[1, 1, 1]
    ),
    "counts": lambda plan: plan["partitions"]["categorical"][0]["counts"].pop(),
    "a category that is no text": lambda plan: plan["partitions"]["categorical"][0].update(
        categories=[1], counts=[1, 1]
    ),
    "a column twice": lambda plan: plan["partitions"]["columns"].append("size"),
    "a column that is not there": lambda plan: plan["partitions"]["columns"].remove("size"),
    "an empty column that is not there": lambda plan: plan["partitions"].update(empty=["more"]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_plan_is_refused(damage):
    plan = json.loads(PLAN.to_json())
    DAMAGE[damage](plan)
    with pytest.raises(InvalidInput):
        CellsPlan.from_json(json.dumps(plan))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": "labeldp plan of cells"}', "[" * 1000])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(InvalidInput):
        CellsPlan.from_json(text)


def test_features_that_cannot_be_planned_for_are_refused():
    for epsilon in (0, -1, "text", float("nan"), 1e9):
        with pytest.raises(InvalidInput, match="epsilon"):
            CellsPlan.make(TABLE, epsilon)
    for rows in (0, 1):
        with pytest.raises(InvalidInput, match="at least two records"):
            CellsPlan.make(TABLE.slice(0, rows), 1)
    with pytest.raises(InvalidInput, match="infinity"):
        CellsPlan.make(np.array([[1.0], [np.inf], [2.0]]), 1)
    with pytest.raises(InvalidInput, match="at most"):
        CellsPlan.make(np.zeros((5, 400)), 1)


@pytest.mark.parametrize(
    "features",
    [
        pa.table({"same": np.ones(50)}),
        pa.table({"shop": ["a"] * 50}),
        pa.table({"nothing": pa.nulls(50, pa.float64())}),
        pa.table({"two": [0.0, 1.0] * 25}),
        TABLE.slice(0, 2),
    ],
    ids=["constant", "one category", "empty", "two values", "two records"],
)
def test_poor_features_get_a_model_all_the_same(features):
    plan = CellsPlan.from_json(CellsPlan.make(features, 1).to_json())
    labels = np.linspace(0, 10, features.num_rows)
    sums = answer_columns(labels, plan.columns(features), 1, (0, 10))
    predictions = model_from_answer(plan, features, sums).predict(features)
    assert np.isfinite(predictions).all()
    assert ((predictions >= 0) & (predictions <= 10)).all()


def test_a_subset_of_the_records_can_be_summed():
    rows = np.flatnonzero(SIZE > 0)
    sums = answer_columns(LABELS[rows], PLAN.columns(TABLE), 2, (0, 400), rows=rows)
    few = TABLE.take(pa.array(rows))
    assert r2(model_from_answer(PLAN, few, sums), few, LABELS[rows]) > 0.5
    with pytest.raises(InvalidInput, match="labels were summed"):
        model_from_answer(PLAN, TABLE, sums)


def test_an_answer_to_something_else_is_refused():
    sums = answered()
    with pytest.raises(InvalidInput, match="other numbers of records"):
        model_from_answer(PLAN, TABLE.set_column(0, "size", pa.array(SIZE**2)), sums)
    other = CellsPlan.make(TABLE.select(["shop"]), 2)
    with pytest.raises(InvalidInput, match="do not answer this plan"):
        model_from_answer(other, TABLE, sums)
    with pytest.raises(InvalidInput, match="do not answer this plan"):
        model_from_answer(PLAN, TABLE, PrivateSums.over_cells(LABELS, np.zeros(ROWS, int), 1, (0, 400)))
    holes = TABLE.set_column(0, "size", pa.array([None, *SIZE[1:]]))
    with pytest.raises(InvalidInput, match="lacks numbers"):
        model_from_answer(PLAN, holes, sums)


BAD_COLUMNS = {
    "none": [],
    "floats": [np.ones(ROWS)],
    "text": [np.array(["a"] * ROWS)],
    "booleans": [np.ones(ROWS, bool)],
    "negative": [np.full(ROWS, -2)],
    "signs with zero": [np.arange(ROWS) % 3 - 1],
    "huge cell numbers": [np.arange(ROWS) + 10**12],
    "two dimensions": [np.ones((ROWS, 2), int)],
    "of two lengths": [np.ones(ROWS, int), np.ones(3, int)],
    "too many partitions": [np.arange(ROWS) % 2] * 1001,
    "too many cells": [np.where(np.arange(ROWS), 0, 499_999)] * 3,
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_bad_columns_are_refused_before_the_charge(tmp_path, case):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    with pytest.raises(InvalidInput):
        answer_columns(LABELS, BAD_COLUMNS[case], 1, (0, 400), ledger=ledger, dataset="sales")
    assert ledger.remaining("sales") == 3


def test_the_cells_of_all_columns_together_are_limited():
    fits = [np.where(np.arange(9), 0, 499_999), np.arange(9) % 2, np.where(np.arange(9), 0, 499_997)]
    assert sum(CellColumns.of(fits).sizes) == 1_000_000
    with pytest.raises(InvalidInput, match=r"1,000,002 cells in all, 500,000 of them in column 'b'.* without gaps"):
        CellColumns.of([np.arange(9) % 2, fits[0], fits[0]], ["a", "a2", "b"])


def test_cells_of_a_single_record_are_counted():
    given = CellColumns.of([np.array([0, 0, 1, 3]), np.array([5, 5, 5, 5]), np.array([1, -1, 1, 1])])
    assert given.single == 2
    card = answer_columns([1.0, 2.0, 3.0, 4.0], given, 1, (0, 5)).card()
    assert "\n2 of 10 cells hold a single record: the sum there is a noisy label of that record.\n" in card
    crowded = answer_columns([1.0, 2.0, 3.0, 4.0], [np.array([0, 0, 1, 1])], 1, (0, 5)).card()
    assert "single record" not in crowded
    assert "\n\n\n" not in card + crowded


@pytest.mark.parametrize("labels", [[1.0, np.nan] * 5, [None, 1.0], ["a", "b"], [], [1.0]])
def test_bad_labels_are_refused_before_the_charge(tmp_path, labels):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    with pytest.raises(InvalidInput):
        answer_columns(labels, [np.ones(len(labels), int)], 1, (0, 400), ledger=ledger, dataset="sales")
    assert ledger.remaining("sales") == 3


def test_numbers_that_may_not_fit_are_refused_before_the_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    fine = Domain(0, 400, 2**32)
    with pytest.raises(InvalidInput, match="64-bit"):
        answer_columns(LABELS, PLAN.columns(TABLE), "1e-6", fine, ledger=ledger, dataset="sales")
    assert ledger.remaining("sales") == 3


def test_the_whole_epsilon_is_charged_once(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    answer_columns(LABELS, PLAN.columns(TABLE), 2, (0, 400), ledger=ledger, dataset="sales")
    assert ledger.remaining("sales") == 1
    with pytest.raises(InsufficientBudget):
        answer_columns(LABELS, PLAN.columns(TABLE), 2, (0, 400), ledger=ledger, dataset="sales")
    assert ledger.remaining("sales") == 1


def test_only_questions_that_are_allowed_reach_the_labels(monkeypatch):
    """All that an answer holds comes from `SumQueries`, which is given nothing but the columns and shares of ε."""
    asked = []

    class Spy(column_answers.SumQueries):
        def histogram(self, parts, epsilon):
            asked.append("histogram")
            return super().histogram(parts, epsilon)

        def against_signs(self, signs, epsilon):
            asked.append("signs")
            return super().against_signs(signs, epsilon)

        def over_cells(self, codes, cells, epsilon):
            asked.append("cells")
            return super().over_cells(codes, cells, epsilon)

    monkeypatch.setattr(column_answers, "SumQueries", Spy)
    sums = answered()
    assert asked == [answer.kind for answer in sums.answers]


@pytest.mark.parametrize("unit", [1e-12, 1e12, 1e80])
def test_the_unit_of_a_number_does_not_matter(unit):
    numbers = np.clip(RANDOM.normal(size=(500, 2)), -4, 4)
    plain, scaled = (CellsPlan.make(numbers * factor, 1) for factor in (1.0, unit))
    assert [one.column for one in plain.signs] == [one.column for one in scaled.signs]
    for one, other in zip(plain.columns(numbers), scaled.columns(numbers * unit), strict=True):
        np.testing.assert_array_equal(one, other)


def test_numbers_without_a_finite_square_can_be_planned_for():
    numbers = np.clip(RANDOM.normal(size=(500, 2)), -4, 4) * 1e307
    assert len(CellsPlan.make(numbers, 1).columns(numbers)[0]) == 500


SMALL = np.column_stack([np.linspace(-2, 2, 300), np.arange(300) % 3])
SMALL_PLAN = CellsPlan.make(SMALL, 30)


def crafted(generator, width):
    """The text of sums whose domain, clip, scales and numbers are extreme, and whose costs follow from them."""
    sums = answer_columns(np.arange(300) % 100, SMALL_PLAN.columns(SMALL), 30, (0, 400))
    record, total = json.loads(sums.to_json()), Fraction(0)
    ends = [(0.0, 400.0), (0.0, 1e60), (-1e60, 1e60), (0.0, 1e155), (0.0, 1e-60), (1e15, 1e15 + 1e6), (0.0, 1e-300)]
    bounds = dict(zip(("lower", "upper"), ends[generator.integers(len(ends))], strict=True))
    record["domain"] |= bounds
    lower = int(generator.choice([0, 1, 5000, sums.domain.count - 1 - width]))
    for place, answer in enumerate(record["answers"]):
        answer["domain"] |= bounds
        answer["clip"] = [lower, lower + width] if place else [0, sums.domain.count - 1]
        change = 2 if place == 0 else width * answer["grain"]
        answer["scale"] = float(2.0 ** generator.uniform(np.log2(change / 8), 52)) if change else 0.0
        cost = change / Fraction(answer["scale"]) if change else Fraction(0)
        answer.update(sensitivity=change, epsilon=str(cost))
        most = int(generator.choice([1, 100, 2**61])) if change else 1
        answer["values"] = [str(int(v)) for v in generator.integers(1 - most, most, len(answer["values"]))]
        total += cost
    return json.dumps(record | {"epsilon": format_amount(total)})


@pytest.mark.parametrize("width", [1, 2, 1000, 10**6])
def test_crafted_sums_are_refused_or_give_finite_predictions(width):
    generator = np.random.default_rng(width)
    read = 0
    for _ in range(8):
        try:
            sums = PrivateSums.from_json(crafted(generator, width))
            assert sums.card()
            assert [str(sums.proof()), *map(repr, sums.answers)]
            model = model_from_answer(SMALL_PLAN, SMALL, sums)
        except InvalidInput:
            continue
        read += 1
        assert np.isfinite(model.predict(SMALL)).all()
    assert read  # not all were refused


def test_sums_of_labels_clipped_to_one_value_train_nothing():
    sums = PrivateSums.from_json(crafted(np.random.default_rng(0), 0))
    with pytest.raises(InvalidInput, match="a single value"):
        model_from_answer(SMALL_PLAN, SMALL, sums)
