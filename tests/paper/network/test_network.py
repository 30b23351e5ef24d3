from __future__ import annotations

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from labeldp.errors import InvalidInput, MissingExtra

pytest.importorskip("torch")

from labeldp.paper.network import NetworkRegressor

QUICK = {"epochs": 30, "batch_size": 128, "learning_rate": 0.01, "hidden": (16, 8), "random_state": 0}
NOT_OURS = {
    "check_sample_weight_equivalence_on_dense_data": "batches are drawn by row, so repeated rows make other batches",
}


def shop(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    brand, price = rng.integers(0, 30, rows), rng.gamma(2, 20, rows)
    worth = np.random.default_rng(99).normal(0, 50, 30)
    frame = pl.DataFrame({"brand": [f"b{b}" for b in brand], "price": price})
    return frame, np.clip(100 + worth[brand] + price + rng.normal(0, 10, rows), 0, 400)


@parametrize_with_checks(
    [NetworkRegressor(**{**QUICK, "batch_size": 16, "min_count": 1})], expected_failed_checks=lambda _: NOT_OURS
)
def test_it_is_a_scikit_learn_regressor(estimator, check):
    check(estimator)


def test_it_learns_categories_and_numbers():
    X, y = shop()
    X_test, y_test = shop(seed=1)
    model = NetworkRegressor(**QUICK).fit(X, y)
    assert np.mean((model.predict(X_test) - y_test) ** 2) < 0.12 * np.var(y_test)
    assert model.loss_curve_[-1] < 0.3 * model.loss_curve_[0]
    assert model.validation_loss_curve_ is None
    assert model.feature_names_in_.tolist() == ["brand", "price"]
    assert model.predict(X_test.head(0)).shape == (0,)


@pytest.mark.parametrize("convert", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_every_kind_of_table_gives_the_same_network(convert):
    X, y = shop(400)
    reference = NetworkRegressor(**QUICK).fit(X, y).predict(X)
    model = NetworkRegressor(**QUICK).fit(convert(X), pd.Series(y))
    np.testing.assert_array_equal(model.predict(convert(X)), reference)
    np.testing.assert_array_equal(model.predict(X.select("price", pl.lit(1).alias("id"), "brand")), reference)


def test_arrays_take_categories_by_position():
    X, y = shop()
    codes = X["brand"].str.strip_prefix("b").cast(pl.Float64).to_numpy()
    array = np.column_stack([codes, X["price"].to_numpy()])
    plain, told = (NetworkRegressor(**QUICK, categorical=c).fit(array, y) for c in (None, [0]))
    assert told.loss_curve_[-1] < 0.3 * plain.loss_curve_[-1]
    assert told.n_features_in_ == 2
    assert not hasattr(told, "feature_names_in_")


def test_the_seed_decides_everything():
    X, y = shop(500)
    one, again, other = (NetworkRegressor(**{**QUICK, "random_state": s}).fit(X, y).predict(X) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0


def test_unseen_and_missing_values_give_predictions_between_the_others():
    X, y = shop()
    model = NetworkRegressor(**QUICK).fit(X, y)
    known = model.predict(pl.DataFrame({"brand": [f"b{b}" for b in range(30)], "price": [40.0] * 30}))
    odd = model.predict(pl.DataFrame({"brand": ["never seen", None], "price": [40.0, None]}))
    assert ((known.min() < odd) & (odd < known.max())).all()


def test_lost_columns_are_named():
    X, y = shop(200)
    model = NetworkRegressor(**QUICK).fit(X, y)
    with pytest.raises(InvalidInput, match=r"'price' \(did you mean 'prize'\?\)"):
        model.predict(X.rename({"price": "prize"}))


def test_poisson_loss_learns_rates():
    rng = np.random.default_rng(5)
    group = rng.integers(0, 4, 8000)
    rates = np.array([0.2, 1.0, 3.0, 9.0])
    X = pl.DataFrame({"group": group})
    model = NetworkRegressor(**{**QUICK, "batch_size": 512}, loss="poisson", categorical=["group"])
    model.fit(X, rng.poisson(rates[group]))
    np.testing.assert_allclose(model.predict(pl.DataFrame({"group": range(4)})), rates, rtol=0.2)


def test_early_stopping_keeps_the_best_network():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(300, 20)), rng.normal(size=300)
    model = NetworkRegressor(
        **{**QUICK, "epochs": 200, "hidden": (64, 64)}, early_stopping=True, patience=3, validation_fraction=0.3
    )
    model.fit(X, y)
    curve = model.validation_loss_curve_
    assert len(curve) < 200
    assert len(curve) - 1 - int(np.argmin(curve)) == 3
    full = NetworkRegressor(**{**QUICK, "epochs": 200, "hidden": (64, 64)}).fit(X, y)
    assert np.mean((full.predict(X) - y) ** 2) < 0.5 * np.mean((model.predict(X) - y) ** 2)


def test_rows_of_weight_zero_are_as_if_absent():
    X, y = shop(600)
    rng = np.random.default_rng(7)
    kept = rng.random(600) < 0.5
    spoiled = np.where(kept, y, 1e6)
    weighted = NetworkRegressor(**QUICK).fit(X, spoiled, sample_weight=kept.astype(float))
    assert np.abs(weighted.predict(X)).max() < 1000


def test_it_works_in_pipelines_and_searches():
    X, y = shop(300)
    numbers = X.select("price").to_numpy()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), NetworkRegressor(**{**QUICK, "epochs": 2})),
        {"networkregressor__hidden": [(4,), (8, 4)]},
        cv=2,
    )
    search.fit(numbers, y)
    assert search.predict(numbers).shape == (300,)
    model = NetworkRegressor(categorical=["brand"], hidden=[4])
    assert clone(model).get_params() == model.get_params()


def test_a_pickle_predicts_alike_and_does_not_mention_torch():
    X, y = shop(300)
    model = NetworkRegressor(**QUICK).fit(X, y)
    data = pickle.dumps(model)
    assert b"torch" not in data
    np.testing.assert_array_equal(pickle.loads(data).predict(X), model.predict(X))


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "labeldp.paper.network.trainer", raising=False)
    monkeypatch.delattr("labeldp.paper.network.trainer", raising=False)
    X, y = shop(50)
    with pytest.raises(MissingExtra, match=r"pip install 'labeldp\[torch\]'"):
        NetworkRegressor().fit(X, y)


def test_it_is_quiet_unless_asked(capfd):
    X, y = shop(200)
    NetworkRegressor(**QUICK).fit(X, y)
    assert capfd.readouterr() == ("", "")
    NetworkRegressor(**QUICK, progress=True).fit(X, y)
    assert "rows/s" in capfd.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        {"epochs": 0},
        {"batch_size": 2.5},
        {"embedding_size": True},
        {"learning_rate": 0},
        {"l2": -1},
        {"loss": "huber"},
        {"optimizer": "sgd"},
        {"hidden": (0,)},
        {"threads": 0},
        {"validation_fraction": 1.0},
    ],
    ids=str,
)
def test_wrong_parameters_are_refused_in_fit(option):
    X, y = shop(50)
    with pytest.raises(InvalidInput, match=next(iter(option))):
        NetworkRegressor(**option).fit(X, y)


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        ([1.0] * 9, {}, "X has 10 rows and y has 9"),
        ([1.0] * 9 + [np.nan], {}, "index 9"),
        ([1.0] * 9 + [-1.0], {"loss": "poisson"}, "0 or more"),
        ([0.0] * 10, {"loss": "poisson"}, "one above 0"),
    ],
)
def test_wrong_targets_are_refused(targets, options, message):
    X, _ = shop(10)
    with pytest.raises(InvalidInput, match=message):
        NetworkRegressor(**options).fit(X, targets)


def test_divergence_is_an_error_with_advice():
    X, y = shop(500)
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(InvalidInput, match=r"diverged in epoch \d+: lower learning_rate"),
    ):
        NetworkRegressor(**{**QUICK, "learning_rate": 1e20}).fit(X, y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [(np.zeros(50), "nothing to train on"), (np.ones(49), "49 entries for 50 rows"), (np.full(50, -1.0), "0 or more")],
)
def test_wrong_weights_are_refused(weights, message):
    X, y = shop(50)
    with pytest.raises(InvalidInput, match=message):
        NetworkRegressor().fit(X, y, sample_weight=weights)


def test_empty_tables_are_refused():
    with pytest.raises(InvalidInput, match="no rows"):
        NetworkRegressor().fit(pa.table({"a": pa.array([], pa.float64())}), [])
