"""BoostingRegressor and its trees: columns with few values or none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

from labeldp import Domain, LabelRandomizer, Prior
from labeldp.evaluate.estimates import estimates_of_model, out_of_fold_predictions
from labeldp.learn.boosting import Trees
from labeldp.learn.learners import BoostingRegressor

GENERATOR = np.random.default_rng(0)
N = 2000
A = GENERATOR.normal(size=N)
Y = 100 + 50 * A
EMPTY = np.full(N, np.nan)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": A, "none": EMPTY}),
        pd.DataFrame({"a": A, "none": [None] * N}),
        pl.DataFrame({"a": A, "none": [None] * N}),
        pa.table({"a": A, "none": pa.nulls(N)}),
        pa.table({"a": A, "none": pa.nulls(N, pa.float64())}),
        np.column_stack([A, EMPTY]),
    ],
)
def test_a_column_without_values_changes_nothing(frame):
    model = BoostingRegressor(random_state=0).fit(frame, Y)
    alone = BoostingRegressor(random_state=0).fit(A[:, None], Y)
    np.testing.assert_array_equal(model.predict(frame), alone.predict(A[:, None]))


def test_values_that_come_later_do_not_matter():
    model = BoostingRegressor(random_state=0).fit(pl.DataFrame({"a": A, "b": EMPTY}), Y)
    now, *later = (model.predict(pl.DataFrame({"a": A, "b": column})) for column in (EMPTY, A, ["text"] * N))
    for predictions in later:
        np.testing.assert_array_equal(now, predictions)


def test_folds_may_miss_the_only_values_of_a_column():
    column = EMPTY.copy()
    column[7] = 3.0  # some fold trains without it
    domain = Domain(-100, 300, 41)
    private = LabelRandomizer(4, domain, prior=Prior.uniform(domain), mechanism="unbiased").randomize(Y)
    table = pa.table({"a": A, "b": column})
    predictions = out_of_fold_predictions(BoostingRegressor(), table, private.values(), 5)
    estimates = estimates_of_model(private, predictions)
    assert estimates["error"]["value"] < np.var(Y)


@pytest.mark.parametrize(("values", "dtype"), [(0, np.float64), (1, object), (19, np.float32)])
def test_trees_on_part_of_a_matrix_take_columns_that_are_empty_there(values, dtype):
    column = EMPTY.copy()
    column[:values] = 1 + Y[:values]
    matrix = np.column_stack([A, column]).astype(dtype)
    trees = clone(BoostingRegressor(random_state=0).model(N).trees).fit(matrix, Y)
    alone = HistGradientBoostingRegressor(**trees.get_params()).fit(matrix[:, :1], Y)
    np.testing.assert_array_equal(trees.predict(matrix), alone.predict(matrix[:, :1]))


def test_columns_with_enough_values_are_used():
    column = EMPTY.copy()
    column[::20] = 1.0
    y = np.where(np.isnan(column), 0.0, 100.0)
    assert np.abs(Trees().fit(column[:, None], y).predict(column[:, None]) - y).max() < 1
    frame = pl.DataFrame({"zero or nothing": column - 1})
    assert np.abs(BoostingRegressor().fit(frame, y).predict(frame) - y).max() < 1


def test_rows_without_weight_do_not_count_as_values():
    column = np.where(A > 0, A, np.nan)
    weights = (A <= 0).astype(float)
    matrix = np.column_stack([A, column])
    assert np.isfinite(Trees().fit(matrix, Y, weights).predict(matrix)).all()


def test_rare_values_may_be_missing_from_the_rows_that_are_binned():
    rows = 1_000_000
    column = np.full((rows, 1), np.nan)
    column[:2] = [[1.0], [2.0]]
    trees = Trees(max_iter=1, min_samples_leaf=1, early_stopping=False)
    assert np.isfinite(trees.fit(column, np.arange(rows) % 7).predict(column[:5])).all()


def test_what_trees_cannot_take_is_refused_in_scikit_learns_words():
    for matrix in (np.array([["a"], ["b"]]), np.array([[1 + 1j], [np.nan]]), A, np.zeros((N, 2, 2))):
        with pytest.raises(ValueError) as ours:
            Trees().fit(matrix, Y[: len(matrix)])
        with pytest.raises(ValueError) as theirs:
            HistGradientBoostingRegressor().fit(matrix, Y[: len(matrix)])
        assert str(ours.value).replace("Trees", "") == str(theirs.value).replace("HistGradientBoostingRegressor", "")
    with pytest.raises(ValueError, match="sample_weight"):
        Trees().fit(np.column_stack([A, EMPTY]), Y, np.ones(3))
