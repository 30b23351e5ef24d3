"""The stack: its weights solve what they claim to solve, and it is never far from the best of its models."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline

from labeldp.learn import StackedRegressor, stack
from labeldp.learn.boosting import fixed_rule
from labeldp.learn.feature_columns import standardizer
from labeldp.learn.smooth_ridge import LARGEST, PENALTIES, SmoothRidge
from labeldp.learn.stack import RULE, TRUSTED, Stack, Validation, candidates

N = 3000
X = np.random.default_rng(0).normal(size=(2 * N, 4))
X[:, 3] = np.random.default_rng(1).integers(0, 8, 2 * N)
CURVED = 3 * X[:, 0] * X[:, 1] + np.abs(X[:, 2]) * 4 + np.array([0, 5, 1, 7, 2, 8, 3, 9])[X[:, 3].astype(int)]
STRAIGHT = 2 * X[:, 0] - X[:, 1]
NOISE = np.random.default_rng(2).normal(size=2 * N)


def error(model, truth):
    return np.mean((model.predict(X[N:]) - truth[N:]) ** 2)


@pytest.fixture(scope="module")
def curved():
    return Stack(3, random_state=0).fit(X[:N], CURVED[:N] + 2 * NOISE[:N])


def validation(seed, effective, size=4, rows=400):
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=rows)
    predictions = truth * generator.uniform(-0.2, 1, (size, 1)) + generator.normal(size=(size, rows)) + 5
    weights, start = generator.uniform(0.5, 2, rows), np.eye(size)[0]
    return Validation(predictions, truth + 5, weights, 5.0, start, effective), predictions - 5, truth, weights, start


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("effective", [10.0, 1e3, 1e6])
def test_weights_have_the_least_penalised_error_among_those_that_are_not_negative(seed, effective):
    found, columns, rest, weights, start = validation(seed, effective)
    each = weights * len(weights) / weights.sum()
    penalty = np.average(rest**2, weights=weights) * TRUSTED / effective

    def loss(w):
        return np.sum(each * (rest - w @ columns) ** 2) + penalty * np.sum((w - start) ** 2)

    oracle = minimize(loss, np.full(4, 0.2), method="L-BFGS-B", bounds=[(0, None)] * 4, options={"ftol": 1e-14})
    np.testing.assert_allclose(found.weights, oracle.x, atol=2e-4)


def test_labels_that_are_worth_little_leave_the_rule_alone():
    np.testing.assert_allclose(validation(0, 0.001)[0].weights, [1, 0, 0, 0], atol=0.2)


def test_weights_for_a_fold_do_not_use_its_values():
    fold = np.arange(400) % 5
    generator = np.random.default_rng(0)
    predictions, values = generator.normal(size=(3, 400)), generator.normal(size=400)
    other = np.where(fold == 2, 10 * generator.normal(size=400), values)
    start = np.eye(3)[0]
    one, two = (Validation(predictions, y, np.ones(400), 0.0, start, 1e12) for y in (values, other))
    own = fold == 2
    np.testing.assert_allclose(one.without_own_fold(fold)[own], two.without_own_fold(fold)[own], atol=1e-6)


def test_structure_that_the_rule_misses_is_found(curved):
    rule = fixed_rule(N, 1.0, 3, 0).fit(X[:N], CURVED[:N] + 2 * NOISE[:N])
    assert error(curved, CURVED) < 0.7 * error(rule, CURVED)
    assert sum(member.weight for member in curved.members) == pytest.approx(1, abs=0.15)
    assert all(member.weight > 0 and member.r2 < 1 for member in curved.members)


def test_noise_alone_is_predicted_by_its_mean():
    model = Stack(3, share=0.1, random_state=0).fit(X[:N], 50 + NOISE[:N])
    assert np.mean((model.predict(X[N:]) - 50) ** 2) < 0.02


def test_a_straight_line_is_not_lost():
    values = STRAIGHT[:N] + 3 * NOISE[:N]
    line = SmoothRidge(3, levels=False).fit(X[:N], values)
    assert error(Stack(3, share=0.2, random_state=0).fit(X[:N], values), STRAIGHT) < error(line, STRAIGHT) + 0.1


def test_few_records_take_the_rule():
    model = Stack(3, random_state=0).fit(X[:150], CURVED[:150])
    assert [(member.name, member.weight) for member in model.members] == [(RULE.name, 1.0)]
    np.testing.assert_array_equal(model.predict(X), fixed_rule(150, 1.0, 3, 0).fit(X[:150], CURVED[:150]).predict(X))


def test_few_records_are_judged_by_a_rule_that_did_not_see_them():
    values = 10 * X[:150, 0]
    rows, predictions = Stack(3, random_state=0).fit_out_of_fold(X[:150], values)
    assert rows.size == 150
    assert 0 < np.mean((predictions - values) ** 2) < 0.5 * values.var()


@pytest.mark.slow
def test_records_without_weight_do_not_count(curved):
    values = CURVED[:N] + 2 * NOISE[:N]
    other = np.where(np.arange(N) % 2, values, 1e4)
    half = Stack(3, random_state=0).fit(X[:N], other, (np.arange(N) % 2).astype(float))
    assert error(half, CURVED) < 3 * error(curved, CURVED)


def test_predictions_out_of_fold_are_as_good_as_on_new_records(curved):
    rows, predictions = Stack(3, random_state=0).fit_out_of_fold(X[:N], CURVED[:N] + 2 * NOISE[:N])
    np.testing.assert_array_equal(rows, np.arange(N))
    assert np.mean((predictions - CURVED[:N]) ** 2) == pytest.approx(error(curved, CURVED), rel=0.25)


def test_very_many_records_are_validated_in_part_and_trained_on_all(monkeypatch):
    monkeypatch.setattr(stack, "MOST_VALIDATED", 1000)
    done = []
    model = Stack(3, random_state=0)
    rows, predictions = model.fit_out_of_fold(X[:N], CURVED[:N], advance=done.append)
    assert rows.size == predictions.size == 1000
    assert np.unique(rows).size == 1000
    assert 5 * len(candidates(N)) < sum(done) <= model.steps(N)
    assert len(model.models_) == len(model.members)
    assert error(model, CURVED) < 0.2 * CURVED.var()


def test_a_copy_predicts_the_same_and_a_row_alone_as_among_others(curved):
    copy = pickle.loads(pickle.dumps(curved))
    np.testing.assert_array_equal(copy.predict(X), curved.predict(X))
    np.testing.assert_array_equal(curved.predict(X[7:8]), curved.predict(X)[7:8])


def test_tables_show_their_members():
    model = StackedRegressor(random_state=0).fit(pa.table({"a": X[:500, 0], "b": X[:500, 1]}), STRAIGHT[:500])
    assert model.members == model.model_.members
    assert model.members[0].weight == max(member.weight for member in model.members)


def test_a_straight_ridge_is_that_of_scikit_learn():
    values = STRAIGHT[:N] + NOISE[:N]
    other = make_pipeline(standardizer(largest=LARGEST), RidgeCV(N * PENALTIES)).fit(X[:N, :3], values)
    mine = SmoothRidge(levels=False).fit(X[:N, :3], values)
    np.testing.assert_allclose(mine.predict(X[:, :3]), other.predict(X[:, :3]), atol=0.01)


def test_a_ridge_bends_steps_and_bulges():
    bent = SmoothRidge(bends=6).fit(X[:N, :1], np.abs(X[:N, 0]))
    assert np.abs(bent.predict(X[N:, :1]) - np.abs(X[N:, 0])).mean() < 0.05
    levels = SmoothRidge(3).fit(X[:N], 5.0 * (X[:N, 3] == 2))
    assert levels.predict([[0, 0, 0, 2.0], [0, 0, 0, 3.0]]).round(1).tolist() == [5.0, 0.0]
    bulging = SmoothRidge(bumps=200).fit(X[:N, :2], X[:N, 0] * X[:N, 1])
    assert np.corrcoef(bulging.predict(X[N:, :2]), X[N:, 0] * X[N:, 1])[0, 1] > 0.95


def test_a_ridge_without_a_column_to_use_answers_the_mean():
    np.testing.assert_allclose(SmoothRidge(0, levels=False).fit(X[:60, 3:], np.arange(60.0)).predict(X[:3, 3:]), 29.5)
