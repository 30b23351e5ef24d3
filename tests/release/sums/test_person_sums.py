"""Noisy sums where a person is the unit of privacy: rows are weighted, the proof holds for all labels of a person, and models learn from them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from column_answers import answer_columns
from hypothesis import given
from hypothesis import strategies as st

from forgery import rewrite_manifest
from labeldp import Domain, InvalidInput, LabelDPRegressor, LabelSource, Ledger, PrivateSums, train
from labeldp.learn.sums.cells_plan import CellsPlan, model_from_answer
from labeldp.learn.sums.cells_to_send import cells_of_file
from labeldp.release import grid_labels
from labeldp.release.cells_file import CellsFile, write_cells
from labeldp.release.ledger_rows import OtherUnit
from labeldp.release.noisy_sums import MOST_WEIGHT, Weighting
from labeldp.release.sum_queries import SumQueries
from labeldp.release.sums import SumsAnswer, sums_for_cells

TOP, COLUMNS = 3, 2
RANGE = Domain.integers(0, TOP)


def exact_numbers(answer, units, codes, signs, weights):
    """What an answer would have been without noise."""
    clipped = np.clip(units, *answer.clip)
    if answer.kind == "histogram":
        return np.bincount(clipped * 2 // (TOP + 1), weights, minlength=2).astype(int)
    if answer.kind == "cells":
        return np.bincount(codes, weights * (clipped - answer.clip[0]), minlength=2).astype(int)
    return answer.grain * (weights * (clipped - sum(answer.clip) // 2)) @ signs


def worth(answer, neighbours, codes, signs, weights):
    """The logarithm of the ratio of an answer's probabilities under two data sets, as a fraction."""
    norm = max if answer.kind == "signs" else sum
    near, far = (
        int(norm(np.abs(answer.values - exact_numbers(answer, units, codes, signs, weights)))) for units in neighbours
    )
    return (far - near) / Fraction(answer.scale)


def asked(queries, codes, signs):
    queries.histogram(2, queries.remaining / 3)
    queries.over_cells(codes, 2, queries.remaining / 2)
    queries.against_signs(signs, queries.remaining)
    return queries.answers


@pytest.mark.filterwarnings("ignore:no person has more than one row")
@given(st.data())
def test_no_questions_are_worth_more_than_epsilon_for_all_labels_of_a_person(data):
    """Whatever comes out, the bound is exact, for any labels of the first person's rows."""
    persons = np.array(data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=9)))
    persons[:2] = 0, 1
    draw = lambda most: np.array([data.draw(st.integers(0, most)) for _ in persons])  # noqa: E731
    labels, codes = draw(TOP), draw(1)
    other = np.where(persons == 0, draw(TOP), labels)
    signs = np.stack([2 * draw(1) - 1 for _ in range(COLUMNS)], axis=1)
    queries = SumQueries(labels, "1", RANGE, persons=persons + 7)
    answers = asked(queries, codes, signs)
    weights = np.ones(persons.size, int) if queries.weights is None else queries.weights
    assert (np.bincount(persons, weights) <= queries.weight).all()
    worths = [worth(answer, (labels, other), codes, signs, weights) for answer in answers]
    assert all(abs(one) <= answer.epsilon_exact for one, answer in zip(worths, answers, strict=True))
    assert abs(sum(worths)) <= queries.released.spent <= 1


@pytest.mark.parametrize("weighted", [True, False])
def test_the_bound_is_reached_and_rows_without_weights_are_found(weighted):
    """All labels of a person move at once. Weighted, some releases are worth nearly all of ε; otherwise they are worth four times as much."""
    persons = np.array([0, 0, 0, 0, 1, 2])
    neighbours = np.array([0, 0, 0, 0, 1, 2]), np.array([TOP, TOP, TOP, TOP, 1, 2])
    codes, signs = np.zeros(6, int), np.ones((6, COLUMNS), int)
    largest = Fraction(0)
    for _ in range(100):
        queries = SumQueries(neighbours[0], 1, RANGE, persons=persons if weighted else None)
        answers = asked(queries, codes, signs)
        weights = np.ones(6, int) if queries.weights is None else queries.weights
        largest = max(largest, sum(worth(answer, neighbours, codes, signs, weights) for answer in answers))
    assert (largest <= 1) == weighted
    assert largest > Fraction(9, 10)


def test_without_noise_sums_and_means_are_those_of_persons(monkeypatch):
    monkeypatch.setattr(grid_labels, "add_laplace", lambda values, scale: values)
    monkeypatch.setattr(grid_labels, "cube_noise", lambda count, scale: np.zeros(count, np.int64))
    generator = np.random.default_rng(0)
    persons = np.append(np.arange(40), generator.integers(0, 40, 160))
    weights = 1 / np.bincount(persons)[persons]
    labels, cells = generator.uniform(0, 9, 200), generator.integers(0, 3, 200)
    sums = PrivateSums.over_cells(labels, cells, 1, (0, 9), persons=[f"p{one}" for one in persons])
    expected = [np.average(labels[cells == one], weights=weights[cells == one]) for one in range(3)]
    assert sums.means() == pytest.approx(expected, rel=1e-3)
    assert sums.answers[0].sums.sum() == pytest.approx(np.average(labels, weights=weights) * 40, rel=0.02)
    signed = PrivateSums.against_signs(labels, np.where(cells[:, None] > 0, 1, -1), 1, (0, 9), persons=persons)
    own = np.where(cells > 0, 1, -1) * weights * labels
    assert signed.answers[0].sums[0] == pytest.approx(own.sum(), abs=0.02 * abs(own).sum())
    again = PrivateSums.from_json(signed.to_json())
    assert again == signed
    assert again.size == 40
    assert "for each person" in signed.card()
    assert "m·ε" not in signed.card()
    with pytest.raises(InvalidInput):
        PrivateSums(sums.domain, sums.records, sums.answers, sums.epsilon_exact)  # as if a record were the unit


def test_a_weight_is_lost_only_where_a_person_has_very_many_rows():
    for most in (1, 2, 5, 64, 4000):
        weighting, weights = Weighting.of(np.array([0] * most + [1]))
        assert 0.98 * weighting.each <= weights[:-1].sum() <= weighting.each
    assert Weighting.weight_for(MOST_WEIGHT) == MOST_WEIGHT
    with pytest.raises(InvalidInput, match="262,145 rows"):
        Weighting.weight_for(MOST_WEIGHT + 1)


@pytest.fixture(scope="module")
def orders():
    """Persons with 1 to 8 rows. The label of those with many rows follows x the other way round."""
    generator = np.random.default_rng(1)
    persons = np.repeat(np.arange(4000), np.where(np.arange(4000) % 4 == 0, 8, 1))
    many = persons % 4 == 0
    x = generator.uniform(-1, 1, persons.size)
    y = 50 + np.where(many, -30, 30) * x + generator.normal(0, 3, 4000)[persons]
    return pa.table({"order": np.arange(x.size), "customer": persons, "x": x, "amount": np.clip(y, 0, 100)})


def slope(predictions, x):
    return float(np.polyfit(x, predictions, 1)[0])


def test_a_model_from_sums_weighs_persons(orders):
    """Over persons the slope is 30·(¾ − ¼) = 15; over rows it would be 30·(3 − 8)/11 = −14."""
    x, y, persons = (np.asarray(orders[name]) for name in ("x", "amount", "customer"))
    model = LabelDPRegressor(epsilon=2, domain=(0, 100), method="sums").fit(x[:, None], y, persons=persons)
    assert slope(model.predict(x[:, None]), x) == pytest.approx(15, abs=5)
    assert model.epsilon_spent_ == 2
    assert model.sums_.size == 4000
    assert model.sums_.records == x.size
    assert model.sums_.proof().holds


def test_two_parties_train_on_sums_for_persons(orders, tmp_path):
    pq.write_table(orders, tmp_path / "labels.parquet")
    pq.write_table(orders.select(["order", "x"]), tmp_path / "features.parquet")
    plan, table = cells_of_file(tmp_path / "features.parquet", "order", 2)
    write_cells(table, tmp_path / "cells.parquet")
    (tmp_path / "plan.json").write_text(plan.to_json())
    cells = CellsFile.read(tmp_path / "cells.parquet", None)
    source = LabelSource(tmp_path / "labels.parquet", "amount", "order", person_column="customer")
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("rows", 2)
    ledger.add_dataset("customers", 2, unit="person")
    given = tmp_path / "sums", 2, Domain(0, 100)
    with pytest.raises(OtherUnit):
        sums_for_cells(source, cells, *given, ledger=ledger, dataset="rows")
    sums_for_cells(source, cells, *given, ledger=ledger, dataset="customers")
    assert ledger.remaining("customers") == 0
    answer = SumsAnswer.open(tmp_path / "sums")
    assert answer.weights is not None
    assert "means over persons" in (tmp_path / "sums/PRIVACY.md").read_text()
    found = train(tmp_path / "sums", tmp_path / "features.parquet", id="order", plan=tmp_path / "plan.json")
    x = np.asarray(orders["x"])
    assert slope(found.model.predict(orders.select(["x"])), x) == pytest.approx(15, abs=5)

    table = pq.read_table(tmp_path / "sums/records.parquet")
    changed = np.asarray(table["weight"]).copy()
    changed[0] += 1
    pq.write_table(table.set_column(1, "weight", pa.array(changed)), tmp_path / "sums/records.parquet")
    rewrite_manifest(tmp_path / "sums")
    with pytest.raises(InvalidInput, match="weights"):
        SumsAnswer.open(tmp_path / "sums")


def test_a_plan_of_cells_needs_the_weights_of_an_answer_for_persons(orders):
    features, y, persons = orders.select(["x"]), np.asarray(orders["amount"]), np.asarray(orders["customer"])
    plan = CellsPlan.make(features, 1)
    sums = answer_columns(y, plan.columns(features), 1, (0, 100), persons=persons)
    with pytest.raises(InvalidInput, match="weights"):
        model_from_answer(plan, features, sums)
    with pytest.raises(InvalidInput, match="other numbers of records"):
        model_from_answer(plan, features, sums, Weighting.of(persons)[1][::-1].copy())
