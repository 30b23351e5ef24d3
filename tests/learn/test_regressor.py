"""LabelDPRegressor: scikit-learn's own checks, pipelines, frames, weights, and what it may not keep."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from labeldp import Domain, LabelDPRegressor, Ledger, Prior
from labeldp.errors import InsufficientBudget, InvalidInput

FINE = Domain(-1000, 1000, cells=20_001)
NEARLY_EXACT = LabelDPRegressor(
    LinearRegression(),
    epsilon=40,
    domain=FINE,
    mechanism="rr-on-bins",
    prior=Prior.uniform(FINE),
    clip_predictions=False,
)
DEFAULT = LabelDPRegressor(epsilon=1, domain=(-1000, 1000))

NEEDS_DETERMINISM = "compares two fits, and every fit draws fresh secure randomness"
EXPECTED_FAILURES = dict.fromkeys(
    (
        "check_regressor_data_not_an_array",
        "check_supervised_y_2d",
        "check_regressors_int",
        "check_fit_idempotent",
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
        "check_sample_weights_invariance",
    ),
    NEEDS_DETERMINISM,
)


@parametrize_with_checks([NEARLY_EXACT])
def test_scikit_learn_checks_pass_whole_where_noise_is_negligible(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::labeldp.prior.BudgetWarning")
@parametrize_with_checks([DEFAULT], expected_failed_checks=lambda _: EXPECTED_FAILURES, xfail_strict=False)
def test_scikit_learn_checks_pass_but_for_those_that_need_determinism(estimator, check):
    check(estimator)


def linear_data(n=20_000, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 3))
    y = np.clip(200 + 60 * X[:, 0] - 30 * X[:, 1] + generator.normal(0, 20, n), 0, 400)
    return X, y


X, Y = linear_data()


def test_debiased_targets_train_a_better_model_than_the_papers_bins():
    errors = {}
    for values in ("bins", "debiased"):
        model = LabelDPRegressor(
            LinearRegression(), epsilon=1, domain=(0, 400), mechanism="rr-on-bins", target_values=values
        ).fit(X, Y)
        test_X, test_y = linear_data(seed=1)
        errors[values] = np.mean((model.predict(test_X) - test_y) ** 2)
    assert errors["debiased"] < 0.6 * errors["bins"]


def test_the_default_choice_trains_a_better_model_than_the_papers():
    test_X, test_y = linear_data(seed=1)
    errors = {
        kind: np.mean(
            (LabelDPRegressor(epsilon=1, domain=(0, 400), **settings).fit(X, Y).predict(test_X) - test_y) ** 2
        )
        for kind, settings in {"auto": {}, "paper": {"mechanism": "rr-on-bins", "target_values": "bins"}}.items()
    }
    assert errors["auto"] < 0.7 * errors["paper"]


def test_fit_reports_its_mechanism_and_cost():
    model = LabelDPRegressor(Ridge(), epsilon=2, domain=(0, 400)).fit(X, Y)
    assert model.epsilon_spent_ == 2
    assert model.mechanism_.proof().holds
    assert model.mechanism_.prior.epsilon_exact + model.mechanism_.epsilon_exact == 2


def test_predictions_stay_in_the_bounds_unless_told_otherwise():
    far = 100 * np.ones((1, 3)) * [1, -1, 0]
    model = LabelDPRegressor(Ridge(), epsilon=8, domain=(0, 400)).fit(X, Y)
    assert model.predict(far)[0] == 400
    free = LabelDPRegressor(Ridge(), epsilon=8, domain=(0, 400), clip_predictions=False).fit(X, Y)
    assert free.predict(far)[0] > 400


def test_the_domain_must_be_given():
    with pytest.raises(InvalidInput, match="must be given"):
        LabelDPRegressor(epsilon=1).fit(X, Y)


def test_it_has_no_random_state():
    assert not any("random" in name for name in LabelDPRegressor().get_params(deep=False))


def test_it_works_in_a_pipeline_grid_search_and_cross_validation():
    model = LabelDPRegressor(Ridge(), epsilon=4, domain=(0, 400))
    pipeline = make_pipeline(StandardScaler(), model).fit(X, Y)
    assert pipeline.score(X, Y) > 0.5
    search = GridSearchCV(model, {"epsilon": [2.0, 8.0], "estimator__alpha": [0.1, 10.0]}, cv=3).fit(X, Y)
    assert search.best_params_["epsilon"] in (2.0, 8.0)
    assert cross_val_score(model, X, Y, cv=3).min() > 0.5


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_keep_their_feature_names(library):
    frame = library.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    model = LabelDPRegressor(Ridge(), epsilon=8, domain=(0, 400)).fit(frame, library.Series(Y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.score(frame, Y) > 0.5
    with pytest.raises(ValueError, match="feature names"):
        model.predict(library.DataFrame({"b": X[:, 1], "a": X[:, 0], "c": X[:, 2]}))


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_the_default_estimator_takes_text_and_many_categories(library):
    # 700 categories, more than scikit-learn's trees take natively; "shop" tells what the second feature told.
    shop = [f"shop {i}" for i in np.argsort(np.argsort(X[:, 1])) // (len(Y) // 700)]
    frame = library.DataFrame({"a": X[:, 0], "shop": shop, "b": X[:, 2]})
    if library is pd:
        frame["shop"] = frame["shop"].astype("category")
    model = LabelDPRegressor(epsilon=8, domain=(0, 400)).fit(frame, Y)
    assert model.score(frame, Y) > 0.5


def test_columns_that_trees_cannot_read_are_refused_before_the_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    frame = pl.DataFrame({"a": [[1, 2]] * 50})
    with pytest.raises(InvalidInput, match="'a'"):
        LabelDPRegressor(domain=(0, 400), ledger=ledger, dataset="sales").fit(frame, np.arange(50.0))
    assert ledger.remaining("sales") == 3


def test_sample_weights_reach_the_inner_estimator():
    weights = np.where(X[:, 0] > 0, 1.0, 0.0)
    exact = LinearRegression().fit(X, Y, weights).coef_
    model = clone(NEARLY_EXACT).fit(X, Y, sample_weight=weights)
    assert model.estimator_.coef_ == pytest.approx(exact, abs=0.05)
    assert model.estimator_.coef_ != pytest.approx(LinearRegression().fit(X, Y).coef_, abs=0.05)


def test_sample_weights_are_routed_through_a_search():
    weights = np.where(X[:, 0] > 0, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LinearRegression().set_fit_request(sample_weight=True)
        model = clone(NEARLY_EXACT).set_params(estimator=inner)
        search = GridSearchCV(model, {"estimator__fit_intercept": [True]}, cv=2)
        search.fit(X, Y, sample_weight=weights)
    exact = LinearRegression().fit(X, Y, weights).coef_
    assert search.best_estimator_.estimator_.coef_ == pytest.approx(exact, abs=0.05)


def test_every_fit_is_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    model = LabelDPRegressor(Ridge(), epsilon=1, domain=(0, 400), ledger=ledger, dataset="sales")
    cross_val_score(model, X, Y, cv=3)
    assert ledger.remaining("sales") == 0
    assert [release.state for release in ledger.history("sales")] == ["committed"] * 3
    with pytest.raises(InsufficientBudget):
        model.fit(X, Y)
    with pytest.raises(InvalidInput, match="dataset"):
        LabelDPRegressor(Ridge(), domain=(0, 400), ledger=ledger).fit(X, Y)


def test_a_refused_budget_is_not_charged_for_a_bad_input(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    model = LabelDPRegressor(
        Ridge(), epsilon=1, domain=Domain(0, 400, 401), mechanism="rr-on-bins", ledger=ledger, dataset="sales"
    )
    with pytest.raises(InvalidInput, match="cells"):
        model.fit(X[:100], Y[:100])
    assert ledger.remaining("sales") == 3


def test_the_fitted_object_holds_no_label():
    secret = 123.45678912345
    labels = np.full(5000, secret)
    model = LabelDPRegressor(Ridge(), epsilon=1, domain=(0, 400)).fit(X[:5000], labels)
    assert np.float64(secret).tobytes() not in pickle.dumps(model)
    assert pickle.loads(pickle.dumps(model)).predict(X[:5]) == pytest.approx(model.predict(X[:5]))


def test_positive_targets_train_a_poisson_model():
    counts = np.random.default_rng(0).poisson(np.exp(0.5 + 0.8 * X[:, 0]))
    model = LabelDPRegressor(
        HistGradientBoostingRegressor(loss="poisson"),
        epsilon=3,
        domain=Domain.integers(0, 30),
        loss="poisson",
        target_values="positive",
    ).fit(X, counts)
    assert np.corrcoef(model.predict(X), np.exp(0.5 + 0.8 * X[:, 0]))[0, 1] > 0.7


@pytest.mark.parametrize(
    "settings",
    [
        {"target_values": "nonsense"},
        {"loss": "nonsense"},
        {"mechanism": "unbiased", "loss": "poisson"},
        {"mechanism": "bias-variance", "target_values": "debiased"},
    ],
)
def test_settings_that_cannot_work_are_refused_before_the_charge(tmp_path, settings):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    model = LabelDPRegressor(Ridge(), epsilon=1, domain=(0, 400), ledger=ledger, dataset="sales", **settings)
    with pytest.raises(InvalidInput):
        model.fit(X, Y)
    assert ledger.remaining("sales") == 3
