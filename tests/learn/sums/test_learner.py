"""Models from noisy sums: what they cost, that odd data get an answer, and that they learn."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from labeldp import Domain, InvalidInput
from labeldp.learn.sums.inference import kernel, roots
from labeldp.learn.sums.sums_learner import SumsLearner
from labeldp.release import grid_labels
from labeldp.release.sum_queries import SumQueries

GENERATOR = np.random.default_rng(17)
ROWS = 400
X = GENERATOR.random(ROWS)
MIXED = pa.table(
    {
        "x": pa.array(X, mask=GENERATOR.random(ROWS) < 0.1),
        "few": GENERATOR.integers(0, 3, ROWS),
        "shop": GENERATOR.choice(["a", "b", "c"], ROWS),
    }
)
FEATURES = {
    "two records": pa.table({"x": [1.0, 2.0]}),
    "two equal records": pa.table({"x": [1.0, 1.0]}),
    "two records of text": pa.table({"shop": ["a", "b"]}),
    "constant numbers": pa.table({"x": np.ones(ROWS), "z": np.zeros(ROWS)}),
    "one category": pa.table({"shop": ["a"] * ROWS}),
    "one category or none": pa.table({"shop": ["a", None] * (ROWS // 2)}),
    "all missing": pa.table({"x": pa.nulls(ROWS, pa.float64()), "shop": pa.nulls(ROWS, pa.string())}),
    "rare categories": pa.table({"shop": [str(row) for row in range(ROWS)]}),
    "mixed": MIXED,
    "wide": np.random.default_rng(2).random((60, 12)),
}
LABELS = {
    "all equal": (np.full(ROWS, 5.0), (0, 10)),
    "at the lower bound": (np.zeros(ROWS), (0, 10)),
    "at the upper bound": (np.full(ROWS, 10.0), (0, 10)),
    "at both bounds": (np.where(X > 0.5, 10.0, 0.0), (0, 10)),
    "zero or one": ((X > 0.5).astype(int), Domain.integers(0, 1)),
    "of both signs": (100 * X - 50, (-50, 50)),
    "all negative": (-X, (-1, 0)),
    "far from zero": (1e9 + X, (1e9, 1e9 + 1)),
    "in a corner of the bounds": (X, (0, 1e6)),
}


def rows_of(features):
    return features.num_rows if isinstance(features, pa.Table) else len(features)


def fitted(features, labels, epsilon, domain):
    queries = SumQueries(labels, epsilon, domain)
    return SumsLearner(features).learn(queries), queries


def check(model, features):
    """Predictions, intervals and effects are numbers within the bounds."""
    lower, upper = model.bounds
    for found in (model.predict(features), model.predict_interval(features)):
        assert np.isfinite(found).all()
        assert lower <= found.min()
        assert found.max() <= upper
    assert np.isfinite(model.uncertainty(features)).all()
    for effect in model.shown_effects():
        assert np.isfinite(effect.values).all()
        assert np.isfinite(effect.errors).all()


@pytest.mark.parametrize(("rest", "used"), [(0.1, True), (2.0, False)])
def test_residuals_are_summed_where_features_explain_much(rest, used):
    """They lie in a range of about three of their own standard deviations, so their noise is a fraction of that of labels."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(4000, 2))
    model, queries = fitted(x, 10 + x[:, 0] + rest * generator.normal(size=4000), 2, (2, 18))
    assert {answer.residuals for answer in queries.answers[2:]} == {used}
    if used:
        labels, residuals = (queries.answers[number].clip for number in (1, -1))
        assert residuals[1] - residuals[0] < 0.5 * (labels[1] - labels[0])
        assert np.mean(np.square(model.predict(x) - 10 - x[:, 0])) < 0.01


@pytest.mark.parametrize("epsilon", [0.001, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FEATURES)
def test_odd_features_get_a_model(name, epsilon):
    features = FEATURES[name]
    model, _ = fitted(features, 10 * X[: rows_of(features)], epsilon, (0, 10))
    check(model, features)


@pytest.mark.parametrize("epsilon", [0.001, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", LABELS)
def test_odd_labels_get_a_model(name, epsilon):
    labels, domain = LABELS[name]
    model, _ = fitted(MIXED, labels, epsilon, domain)
    check(model, MIXED)


@pytest.mark.parametrize("epsilon", ["0.001", "0.3", "40"])
def test_all_of_epsilon_is_spent_and_no_more(epsilon):
    _, queries = fitted(MIXED, 10 * X, epsilon, (0, 10))
    released = queries.released
    assert released.proof().holds
    assert released.spent <= queries.epsilon_exact
    assert released.spent + queries.remaining == queries.epsilon_exact
    assert queries.remaining <= queries.epsilon_exact / 10**12


def test_a_category_that_was_never_seen_is_uncertain_within_reason():
    """One category alone tells nothing of others, whose prior variance must not be that of a division by zero."""
    model, _ = fitted(FEATURES["one category"], 10 * X, 1, (0, 10))
    unseen = model.uncertainty(pa.table({"shop": ["b"]}))
    assert model.uncertainty(pa.table({"shop": ["a"]})) <= unseen < 1e3


def test_columns_that_cannot_matter_take_no_place_among_pairs():
    useless = {f"constant {number}": np.ones(3000) for number in range(8)}
    generator = np.random.default_rng(3)
    one, other = generator.integers(0, 4, (2, 3000))
    table = pa.table({**useless, "one": one, "other": other})
    model, _ = fitted(table, one + other + 2 * one * other, 5, (0, 25))
    names = model.partitions.names
    assert [{names[column] for column in pair.columns} for pair in model.pairs] == [{"one", "other"}]


def test_the_order_of_records_does_not_matter(monkeypatch):
    monkeypatch.setattr(grid_labels, "add_laplace", lambda values, scale: values)
    monkeypatch.setattr(grid_labels, "cube_noise", lambda count, scale: np.zeros(count, np.int64))
    order = np.random.default_rng(1).permutation(ROWS)
    labels = 10 * X
    one, _ = fitted(MIXED, labels, 1, (0, 10))
    other, _ = fitted(MIXED.take(order), labels[order], 1, (0, 10))
    np.testing.assert_allclose(one.predict(MIXED), other.predict(MIXED), rtol=1e-4)


@pytest.mark.parametrize("share", [0.5, 0.04, 0.01])
def test_a_rare_one_among_zeros_has_the_effect_of_its_own_cell(monkeypatch, share):
    monkeypatch.setattr(grid_labels, "add_laplace", lambda values, scale: values)
    monkeypatch.setattr(grid_labels, "cube_noise", lambda count, scale: np.zeros(count, np.int64))
    flag = np.random.default_rng(4).random(4000) < share
    model, _ = fitted(flag[:, None].astype(float), 30.0 + 40 * flag, 20, (0, 100))
    assert np.ptp(model.predict(np.array([[0.0], [1.0]]))) == pytest.approx(40, rel=0.1)


def test_too_many_columns_are_refused_before_anything_is_asked():
    queries = SumQueries([1, 2], 1, (0, 10))
    with pytest.raises(InvalidInput, match='method="labels"'):
        SumsLearner(np.zeros((2, 301))).learn(queries)
    assert queries.remaining == 1


def test_steps_are_learned():
    """With 20,000 records and ε = 2 a model of three steps leaves little more than the noise of the labels."""
    generator = np.random.default_rng(5)
    x, other = generator.random((2, 20_000))
    truth = np.digitize(x, [0.3, 0.6]) * 20.0 + 30
    labels = np.clip(truth + generator.normal(0, 5, len(x)), 0, 100)
    model, _ = fitted(np.column_stack([x, other]), labels, 2, (0, 100))
    fresh = np.column_stack([generator.random(5000), generator.random(5000)])
    error = np.mean((model.predict(fresh) - (np.digitize(fresh[:, 0], [0.3, 0.6]) * 20.0 + 30)) ** 2)
    assert error < 0.15 * truth.var()


@pytest.mark.slow
def test_intervals_cover_the_mean_at_about_their_level():
    """Labels whose means are drawn from the model's own prior: effects of two columns, one along numbers and one of categories."""
    covered = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        number, shop = generator.integers(0, 12, 3000), generator.integers(0, 8, 3000)
        means = 50.0
        for codes, ordered in ((number, True), (shop, False)):
            root = roots(kernel(np.bincount(codes) / 3000, ordered=ordered))
            means = means + 5 * (root @ generator.normal(size=root.shape[1]))[codes]
        labels = means + generator.normal(0, 5, 3000)
        table = pa.table({"number": number, "shop": [f"shop {code}" for code in shop]})
        model, _ = fitted(table, labels, 1, (0, 100))
        low, high = model.predict_interval(table, 0.9).T
        covered.append(np.mean((low <= means) & (means <= high)))
    assert 0.8 < np.mean(covered) < 0.99


@pytest.mark.slow
@pytest.mark.parametrize("interaction", [lambda a, b: 3 * a * b, lambda a, b: 2.0 * ((a > 0) & (b > 0.2))])
def test_intervals_cover_means_that_depend_on_two_columns_together(interaction):
    covered = []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        a, b, c = generator.uniform(-1, 1, (3, 10_000))
        means = 50 + 8 * (interaction(a, b) + c)
        model, _ = fitted(pa.table({"a": a, "b": b, "c": c}), means + generator.normal(0, 8, means.size), 4, (0, 100))
        low, high = model.predict_interval(pa.table({"a": a, "b": b, "c": c}), 0.9).T
        covered.append(np.mean((low <= means) & (means <= high)))
    assert np.mean(covered) > 0.88
