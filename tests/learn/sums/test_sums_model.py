"""A prediction is the sum of the effects of the record's cells, worked out here for one record at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from labeldp import InvalidInput
from labeldp.learn.sums.sums_learner import SumsLearner
from labeldp.learn.sums.sums_model import Pair
from labeldp.release.sum_queries import SumQueries

GENERATOR = np.random.default_rng(11)


def table_of(rows):
    size = GENERATOR.normal(50, 20, rows).round(1)
    return pa.table(
        {
            "size": pa.array(size, mask=GENERATOR.random(rows) < 0.1),
            "level": GENERATOR.integers(0, 4, rows),
            "shop": pa.array(GENERATOR.choice(["a", "b", "c", None], rows, p=[0.5, 0.3, 0.1, 0.1]).tolist()),
        }
    )


@pytest.fixture(scope="module")
def model():
    table = table_of(4000)
    level, shop = table["level"].to_numpy(), np.array(table["shop"].to_pylist()) == "a"
    labels = 10 + 6 * level + np.where(shop, 5 * level, 0) + 0.2 * table["size"].fill_null(0).to_numpy()
    made = SumsLearner(table).learn(SumQueries(labels, 10, (0, 80)))
    assert made.pairs
    return made


def shares_of(model, row):
    """How much of each effect one record has, one after the other as in `spread`: 1 for the mean, then columns, then pairs."""
    partitions = model.partitions
    parts, codes = [np.ones(1)], []
    for column, (name, size) in enumerate(zip(partitions.names, partitions.sizes, strict=True)):
        found = np.zeros(size)
        value = row[name]
        if not partitions.ordered(column):
            known = partitions.encoder.categorical[column - len(partitions.cuts)].items.to_pylist()
            code = known.index(value) + 1 if value in known else 0
            found[code] = 1
        elif value is None:
            code = len(partitions.cuts[column]) + 1
            found[code:] = 1  # nothing, if there is no such cell
        else:
            code = sum(value > cut for cut in partitions.cuts[column])
            middles = partitions.centres[column]
            left = int(np.clip(sum(value > middle for middle in middles), 1, len(middles) - 1)) - 1
            share = np.clip((value - middles[left]) / (middles[left + 1] - middles[left]), -0.5, 1.5)
            found[left], found[left + 1] = 1 - share, share
        parts.append(found)
        codes.append(code)
    for pair in model.pairs:
        found = np.zeros(pair.sizes)
        one, other = (codes[column] for column in pair.columns)
        if one < len(pair.maps[0]) and other < len(pair.maps[1]):
            found[pair.maps[0][one], pair.maps[1][other]] = 1
        parts.append(found.ravel())
    return np.concatenate(parts)


def asked():
    odd = {"size": [None, -1e6, 1e6], "level": [0.0, 2.5, None], "shop": ["never seen", None, "a"]}
    plain = table_of(25)
    return pa.concat_tables([plain.set_column(1, "level", plain["level"].cast(pa.float64())), pa.table(odd)])


def test_predictions_are_sums_of_effects(model):
    effects = np.concatenate([[model.mean], *model.effects])
    table = asked()
    by_hand = np.array([shares_of(model, row) @ effects for row in table.to_pylist()])
    expected = np.clip(model.range.unclipped(by_hand), *model.bounds)
    np.testing.assert_allclose(model.predict(table), expected, rtol=1e-9, atol=1e-9)


def test_uncertainty_is_the_deviation_of_that_sum_and_what_it_cannot_express(model):
    table = asked()
    roots = [shares_of(model, row) @ model.spread for row in table.to_pylist()]
    expected = model.range.factor * np.sqrt(np.square(roots).sum(axis=1) + model.misfit)
    assert model.misfit > 0
    np.testing.assert_allclose(model.uncertainty(table), expected, rtol=1e-9)


def test_records_are_predicted_alike_one_by_one_and_together(model):
    table = asked()
    for method in (model.predict, model.uncertainty, model.predict_interval):
        single = np.concatenate([method(table.slice(row, 1)) for row in range(table.num_rows)])
        np.testing.assert_allclose(method(table), single, rtol=1e-12)


def test_intervals_lie_around_predictions_and_grow_with_the_level(model):
    table = asked()
    narrow, wide = (model.predict_interval(table, level) for level in (0.5, 0.99))
    assert ((wide[:, 0] <= narrow[:, 0]) & (narrow[:, 1] <= wide[:, 1])).all()
    middle = model.predict(table)
    assert ((narrow[:, 0] <= middle) & (middle <= narrow[:, 1])).all()
    assert model.bounds[0] <= wide.min()
    assert wide.max() <= model.bounds[1]


@pytest.mark.parametrize("level", [0, 1, -0.5, "0.9", None])
def test_a_level_is_a_probability(model, level):
    with pytest.raises(InvalidInput, match="level must lie between 0 and 1"):
        model.predict_interval(asked(), level)


def test_effects_are_shown_largest_first_with_words_for_all_cells(model):
    shown = model.shown_effects()
    assert {effect.name for effect in shown} >= set(model.partitions.names)
    assert len(shown) == len(model.effects)
    moved = [effect.weights @ effect.values**2 for effect in shown]
    assert moved == sorted(moved, reverse=True)
    for effect in shown:
        assert len(effect.cells) == len(effect.values) == len(effect.errors) == len(effect.weights)
        assert effect.weights.sum() == pytest.approx(1)
        assert (effect.errors >= 0).all()


def test_effects_have_mean_zero_over_the_training_records(model):
    for values, weights in zip(model.effects, model.weights, strict=True):
        if len(values) in model.partitions.sizes:
            assert weights @ values == pytest.approx(0, abs=1e-6)


def test_a_pair_numbers_the_products_of_coarse_cells():
    pair = Pair((0, 2), (np.array([0, 0, 1], np.uint16), np.array([2, 1, 0], np.uint16)))
    codes = np.array([[0, 9, 0], [1, 9, 2], [2, 9, 1], [3, 9, 0], [0, 9, 3]], np.uint16)
    assert pair.sizes == (2, 3)
    assert pair.cells(codes).tolist() == [2, 0, 4, 6, 6]  # after the last cell where one of the two is unknown


def test_contributions_add_up_to_the_prediction(model):
    table = table_of(300)
    parts = model.contributions(table)
    assert next(iter(parts)) == "mean"
    assert len(parts) == 1 + len(model.effects)
    np.testing.assert_allclose(sum(parts.values()), model.unbounded(table), rtol=1e-12)
    np.testing.assert_array_equal(np.clip(model.unbounded(table), *model.bounds), model.predict(table))
    alone = model.contributions(table.slice(7, 1))
    for name, values in parts.items():
        assert alone[name][0] == values[7]


def test_cells_of_pairs_are_named_by_what_they_hold(model):
    (pair,) = (effect for effect in model.shown_effects() if effect.name in ("level × shop", "shop × level"))
    assert len(set(pair.cells)) == pair.values.size
    assert any("a" in cell and "above 2" in cell for cell in pair.cells)
