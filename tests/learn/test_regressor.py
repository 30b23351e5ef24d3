"""LabelDPRegressor: scikit-learn's own checks, pipelines, frames, weights, and what it may not keep."""

from __future__ import annotations

import pickle
import random
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import GammaRegressor, LinearRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from labeldp import Domain, LabelDPRegressor, LabelRandomizer, Ledger, Prior
from labeldp.errors import InsufficientBudget, InvalidInput
from labeldp.learn import BoostingRegressor, ConditionalRegressor
from labeldp.priors import BudgetWarning
from seeded_words import seeded_draws

# Clones of one object count their fits together, in whatever order tests run; tests/learn/test_conditional.py has the warning.
pytestmark = pytest.mark.filterwarnings("ignore::labeldp.errors.RepeatedRelease")

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

NEED_DETERMINISM = {
    "check_regressor_data_not_an_array",
    "check_supervised_y_2d",
    "check_regressors_int",
    "check_fit_idempotent",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_invariance",
}


@parametrize_with_checks([NEARLY_EXACT])
def test_scikit_learn_checks_pass_whole_where_noise_is_negligible(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::labeldp.priors.private_histogram.BudgetWarning")
@parametrize_with_checks([DEFAULT])
def test_scikit_learn_checks_pass_but_for_those_that_need_determinism(estimator, check):
    if check.func.__name__ in NEED_DETERMINISM:
        pytest.skip("compares two fits, and every fit draws new noise")
    if check.keywords.get("readonly_memmap"):
        pytest.skip("slow; the test above has this check")
    check(estimator)


def linear_data(n=8_000, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 3))
    y = np.clip(200 + 60 * X[:, 0] - 30 * X[:, 1] + generator.normal(0, 20, n), 0, 400)
    return X, y


X, Y = linear_data()


def test_debiased_targets_and_the_default_train_better_models_than_the_papers_bins():
    test_X, test_y = linear_data(seed=1)
    errors = {}
    for values in ("bins", "debiased", "auto"):
        mechanism = "auto" if values == "auto" else "rr-on-bins"
        model = LabelDPRegressor(
            LinearRegression(), epsilon=1, domain=(0, 400), mechanism=mechanism, target_values=values
        ).fit(X, Y)
        errors[values] = np.mean((model.predict(test_X) - test_y) ** 2)
    assert errors["debiased"] < 0.6 * errors["bins"]
    assert errors["auto"] < 0.7 * errors["bins"]


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


def test_it_works_in_a_pipeline_grid_search_and_cross_validation():
    model = LabelDPRegressor(Ridge(), epsilon=4, domain=(0, 400), mechanism="rr-on-bins")
    pipeline = make_pipeline(StandardScaler(), model).fit(X, Y)
    assert pipeline.score(X, Y) > 0.5
    search = GridSearchCV(model, {"epsilon": [0.2, 8.0], "estimator__alpha": [0.1, 10.0]}, cv=2).fit(X, Y)
    assert search.best_params_["epsilon"] == 8.0
    assert cross_val_score(model, X, Y, cv=2).min() > 0.5


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_keep_their_feature_names(library):
    frame = library.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    model = LabelDPRegressor(Ridge(), epsilon=8, domain=(0, 400)).fit(frame, library.Series(Y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.score(frame, Y) > 0.5
    with pytest.raises(ValueError, match="feature names"):
        model.predict(library.DataFrame({"b": X[:, 1], "a": X[:, 0], "c": X[:, 2]}))


@pytest.mark.slow
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_the_default_estimator_takes_text_and_many_categories(library):
    # 700 categories, more than scikit-learn's trees take natively; "shop" tells what the second feature told.
    shop = [f"shop {i}" for i in np.argsort(np.argsort(X[:, 1])) // (len(Y) // 700)]
    frame = library.DataFrame({"a": X[:, 0], "shop": shop, "b": X[:, 2]})
    if library is pd:
        frame["shop"] = frame["shop"].astype("category")
    model = LabelDPRegressor(epsilon=8, domain=(0, 400)).fit(frame, Y)
    assert model.score(frame, Y) > 0.5


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
        model = clone(NEARLY_EXACT).set_params(estimator=inner).set_score_request(sample_weight=False)
        search = GridSearchCV(model, {"estimator__fit_intercept": [True]}, cv=2)
        search.fit(X, Y, sample_weight=weights)
    exact = LinearRegression().fit(X, Y, weights).coef_
    assert search.best_estimator_.estimator_.coef_ == pytest.approx(exact, abs=0.05)


HELD_OUT = {"X_val": X[:1], "y_val": np.array([137.0])}
STOPS_EARLY = HistGradientBoostingRegressor(early_stopping=True, max_iter=3)


@pytest.mark.parametrize(
    ("estimator", "parameters"),
    [
        (STOPS_EARLY, HELD_OUT),
        (make_pipeline(STOPS_EARLY), {f"histgradientboostingregressor__{name}": at for name, at in HELD_OUT.items()}),
        *(
            (Ridge(), {name: [(X[:1], Y[:1])]})
            for name in ("eval_set", "eval_y", "validation_data", "callbacks", "other")
        ),
        (Ridge(), {"ridge__sample_weight__y": Y}),
        (None, HELD_OUT),
    ],
)
def test_parameters_that_could_carry_true_labels_are_refused_before_the_charge(ledger, estimator, parameters):
    # Trees that stop early keep the score of the held-out records: for one record it gives the label away.
    model = LabelDPRegressor(estimator, domain=(0, 400), ledger=ledger, dataset="sales")
    with pytest.raises(InvalidInput, match="could carry true labels") as refused:
        model.fit(X[:500], Y[:500], **parameters)
    assert "137" not in str(refused.value)
    assert ledger.remaining("sales") == 3


@pytest.mark.parametrize("name", ["y_val", "sample_weight"])  # under its own name, and as an alias of an accepted one
def test_routing_cannot_pass_true_labels_to_the_estimator(name):
    with sklearn.config_context(enable_metadata_routing=True):
        inner = clone(STOPS_EARLY).set_fit_request(y_val=name, X_val=True, sample_weight=False)
        with pytest.raises(InvalidInput, match="could carry true labels"):
            LabelDPRegressor(inner, domain=(0, 400)).fit(X[:500], Y[:500], X_val=X[:1], **{name: Y[:1]})


def test_a_step_of_a_pipeline_cannot_take_true_labels_under_another_name():
    with sklearn.config_context(enable_metadata_routing=True):
        inner = clone(STOPS_EARLY).set_fit_request(y_val="groups", X_val=False, sample_weight=False)
        model = LabelDPRegressor(make_pipeline(StandardScaler(), inner), domain=(0, 400))
        with pytest.raises(InvalidInput, match="does not pass y_val"):
            model.fit(X[:500], Y[:500], groups=Y[:1])


@pytest.mark.filterwarnings("ignore::labeldp.priors.private_histogram.BudgetWarning")
def test_a_conditional_regressor_refuses_labels_to_validate_on():
    private = LabelRandomizer(1, (0, 400), "absolute").randomize(Y[:500])
    model = ConditionalRegressor(STOPS_EARLY, private.mechanism, "absolute")
    with pytest.raises(InvalidInput, match="could carry true labels"):
        model.fit(X[:500], private, **HELD_OUT)


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
        mechanism="rr-on-bins",
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


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    return ledger


def test_labels_outside_the_bounds_are_refused_before_they_are_charged(ledger):
    model = LabelDPRegressor(Ridge(), domain=(0, 400), out_of_range="error", ledger=ledger, dataset="sales")
    with pytest.raises(InvalidInput, match=f"index {len(Y) - 1} is outside"):
        model.fit(X, np.r_[Y[:-1], 401.0])
    model.set_params(out_of_range="clip")
    for method in ("labels", "sums"):
        model.set_params(estimator=Ridge() if method == "labels" else None, method=method)
        with pytest.raises(InvalidInput, match="more than 20% of the labels lie outside"):
            model.fit(X, np.where(np.arange(len(Y)) % 4 == 0, 401.0, Y))
    assert ledger.remaining("sales") == 3


def test_a_warning_of_the_budget_comes_before_the_charge(ledger):
    model = LabelDPRegressor(Ridge(), epsilon=0.1, domain=(0, 400), ledger=ledger, dataset="sales")
    with warnings.catch_warnings():
        warnings.simplefilter("error", BudgetWarning)
        with pytest.raises(BudgetWarning):
            model.fit(X[:50], Y[:50])
    assert ledger.remaining("sales") == 3
    with pytest.warns(BudgetWarning) as raised:
        model.fit(X[:50], Y[:50])
    assert len(raised) == 1


class Moody(Ridge):
    """Fits the made-up targets of a rehearsal, and fails on all other ones."""

    def fit(self, X, y, sample_weight=None):
        if np.unique(y).size > 2:
            raise ValueError("not in the mood")
        return super().fit(X, y, sample_weight)


def test_labels_whose_training_failed_are_not_lost(ledger):
    model = LabelDPRegressor(Moody(), domain=(0, 400), mechanism="unbiased", ledger=ledger, dataset="sales")
    with pytest.raises(ValueError, match="mood") as raised:
        model.fit(X, Y)
    assert "private_labels_" in raised.value.__notes__[0]
    assert ledger.remaining("sales") == 2
    assert len(model.private_labels_) == Y.size
    assert Ridge().fit(X, model.private_labels_.values("auto")).predict(X).shape == Y.shape


def test_trees_are_sized_on_any_grid(ledger):
    domain = Domain(0, 400, 5_001)  # more cells than a design distinguishes
    model = LabelDPRegressor(
        epsilon=2, domain=domain, mechanism="unbiased", prior=Prior.uniform(domain), ledger=ledger, dataset="sales"
    )
    assert model.fit(X[:150], Y[:150]).predict(X).shape == Y.shape


ROWS = 1000
TEXT = np.array(["a", "b"])[np.arange(ROWS) % 2]
NAMED = pd.DataFrame({"a": X[:ROWS, 0], "b": X[:ROWS, 1]})
LATE = NAMED["a"].to_numpy(copy=True)[:, None]
LATE[700] = np.inf
WEIGHTS = np.where(np.arange(ROWS) == 900, np.nan, 1.0)


@pytest.mark.parametrize(
    ("estimator", "features", "parameters", "error", "words"),
    [
        (None, TEXT[:, None], {}, ValueError, "hold text where numbers are needed"),
        (None, TEXT[:, None].astype(object), {}, ValueError, "hold text where numbers are needed"),
        (None, X[:ROWS, 0], {}, ValueError, "Expected 2D array"),
        (None, np.zeros((ROWS, 2, 2)), {}, ValueError, "dim 3"),
        (None, scipy.sparse.csr_matrix(X[:ROWS]), {}, TypeError, "dense"),
        (None, NAMED, {"sample_weight": np.ones(5)}, ValueError, r"\(5,\)"),
        (None, NAMED, {"sample_weight": WEIGHTS}, ValueError, "NaN"),
        (None, NAMED, {"nonsense": 1}, ValueError, "nonsense"),
        (Ridge(), NAMED, {"sample_weight": np.ones(5)}, ValueError, r"\(5,\)"),
        (Ridge(), NAMED, {"sample_weight": WEIGHTS}, ValueError, "NaN"),
        (Ridge(), NAMED, {"nonsense": 1}, ValueError, "nonsense"),
        (make_pipeline(Ridge()), NAMED, {"ridge__sample_weight": WEIGHTS}, ValueError, "NaN"),
        (Ridge(), NAMED.assign(t=TEXT), {}, ValueError, "hold text where numbers are needed"),
        (Ridge(), pa.table({"t": TEXT}), {}, ValueError, "hold text where numbers are needed"),
        (Ridge(), LATE, {}, ValueError, "infinity"),
        (Ridge(), pl.DataFrame({"a": LATE[:, 0]}), {}, ValueError, "infinity"),
        (Ridge(), np.where(np.isinf(LATE), np.nan, LATE), {}, ValueError, "NaN"),
        (Ridge(alpha=-1), NAMED, {}, ValueError, "alpha"),
    ],
)
def test_what_the_estimator_cannot_take_is_refused_before_the_charge(
    ledger, estimator, features, parameters, error, words
):
    model = LabelDPRegressor(estimator, domain=(0, 400), ledger=ledger, dataset="sales")
    with pytest.raises(error, match=words):
        model.fit(features, Y[:ROWS], **parameters)
    assert ledger.remaining("sales") == 3
    assert not ledger.history("sales")
    assert not hasattr(model, "estimator_")


@pytest.mark.parametrize(
    ("estimator", "bounds"),
    [
        (None, (0, 400)),
        (GammaRegressor(), (0, 400)),
        (PoissonRegressor(), (-100, 400)),
        (make_pipeline(PCA(600), Ridge()), (0, 400)),  # impossible on 500 rows
        (Ridge(), (-400, -100)),
    ],
)
def test_the_rehearsal_refuses_nothing_that_works(ledger, estimator, bounds):
    features = np.random.default_rng(0).normal(size=(ROWS, 5 if estimator is None else 600))
    middle = np.mean(bounds)
    model = LabelDPRegressor(
        estimator,
        domain=bounds,
        mechanism="rr-on-bins",
        target_values="bins",
        prior=Prior([middle - 20, middle + 20], [0.5, 0.5]),
        ledger=ledger,
        dataset="sales",
    ).fit(features, np.full(ROWS, middle))
    assert ledger.remaining("sales") == 2
    assert np.isfinite(model.predict(features)).all()


@pytest.mark.parametrize(
    "features",
    [
        NAMED.assign(t=TEXT),
        pl.DataFrame({"a": X[:ROWS, 0], "t": TEXT}),
        pa.table({"a": X[:ROWS, 0], "t": TEXT}),
        pa.RecordBatch.from_pydict({"a": X[:ROWS, 0], "t": pa.array(TEXT.tolist())}),
    ],
    ids=["pandas", "polars", "Arrow", "record batch"],
)
def test_every_kind_of_table_is_rehearsed_and_charged_once(ledger, features):
    model = LabelDPRegressor(domain=(0, 400), ledger=ledger, dataset="sales").fit(features, Y[:ROWS])
    assert ledger.remaining("sales") == 2
    assert model.predict(features).shape == (ROWS,)
    assert model.feature_names_in_[0] == "a"


class Recorder(RegressorMixin, BaseEstimator):
    """Notes what it is fitted on."""

    fits: list = []  # noqa: RUF012 - shared by clones

    def fit(self, X, y, sample_weight=None, groups=None):
        self.fits.append((X, y, sample_weight, groups))
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.fixture
def fits():
    Recorder.fits = []
    return Recorder.fits


def test_a_rehearsal_sees_few_rows_and_no_label(ledger, fits):
    model = LabelDPRegressor(Recorder(), domain=(0, 400), ledger=ledger, dataset="sales")
    for labels in (Y, np.zeros(len(Y))):
        model.fit(X, labels, sample_weight=np.arange(1.0, len(Y) + 1), groups=list(range(len(Y))))
    (one, first, weights, groups), _, (two, second, _, _), (whole, _, _, _) = fits
    np.testing.assert_array_equal(one, X[:500])
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(first, second, rtol=0.5)  # designs without labels differ by their noise only
    np.testing.assert_array_equal(weights, np.arange(1.0, 501))
    assert groups == list(range(500))
    assert first.min() < 0  # as far out as private values can be
    assert first.max() > 400
    assert whole is X


def test_without_a_ledger_an_estimator_is_tried_all_the_same(fits):
    LabelDPRegressor(Recorder(), domain=(0, 400)).fit(X, Y)
    assert [len(features) for features, *_ in fits] == [500, len(Y)]


def rehearse_only(estimator, ledger, features, labels):
    model = LabelDPRegressor(estimator, epsilon=5, domain=(0, 400), ledger=ledger, dataset="sales")
    with pytest.raises(InsufficientBudget):  # which the ledger says after the rehearsal
        model.fit(features, labels)
    return model


@pytest.mark.parametrize("estimator", [None, ExtraTreesRegressor(n_estimators=2, max_depth=2)])
def test_a_rehearsal_leaves_no_trace(ledger, estimator):
    before, plain = np.random.get_state(), random.getstate()
    model = rehearse_only(estimator, ledger, X, Y)
    after = np.random.get_state()
    np.testing.assert_array_equal(after[1], before[1])
    assert after[2:] == before[2:]
    assert random.getstate() == plain
    assert [name for name in vars(model) if name.endswith("_")] == ["n_features_in_"]


def test_a_rehearsal_leaves_the_features_alone(ledger):
    features = X[:400] + 5.0
    rehearse_only(LinearRegression(copy_X=False), ledger, features, Y[:400])
    np.testing.assert_array_equal(features, X[:400] + 5.0)


def test_frames_with_columns_for_pipelines_are_rehearsed(ledger):
    encoder = make_column_transformer((OneHotEncoder(), ["t"]), remainder="passthrough")
    features = NAMED.assign(t=TEXT)
    model = LabelDPRegressor(make_pipeline(encoder, Ridge()), domain=(0, 400), ledger=ledger, dataset="sales")
    assert model.fit(features, Y[:ROWS]).predict(features).shape == (ROWS,)
    assert ledger.remaining("sales") == 2


@pytest.mark.parametrize(
    "frame",
    [NAMED, pl.DataFrame({"a": X[:ROWS, 0], "b": X[:ROWS, 1]}), pa.table({"a": X[:ROWS, 0], "b": X[:ROWS, 1]})],
    ids=["pandas", "polars", "Arrow"],
)
def test_a_model_of_a_frame_predicts_arrays_by_position(frame):
    model = LabelDPRegressor(BoostingRegressor(), epsilon=8, domain=(0, 400)).fit(frame, Y[:ROWS])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        by_position = model.predict(X[:ROWS, :2])
    np.testing.assert_array_equal(by_position, model.predict(frame))
    with pytest.raises(ValueError, match="3 features"), pytest.warns(UserWarning, match="feature names"):
        model.predict(X[:ROWS])


def test_a_model_of_a_frame_with_numbered_columns_predicts_arrays():
    frame = pd.DataFrame(X[:ROWS])
    model = LabelDPRegressor(BoostingRegressor(), epsilon=8, domain=(0, 400)).fit(frame, Y[:ROWS])
    np.testing.assert_array_equal(model.predict(X[:ROWS]), model.predict(frame))


def test_columns_without_values_and_intervals_train():
    frame = NAMED.assign(none=np.nan, band=pd.cut(NAMED["a"], 5))
    model = LabelDPRegressor(epsilon=8, domain=(0, 400)).fit(frame, Y[:ROWS])
    assert model.score(frame, Y[:ROWS]) > 0.3
    array = np.column_stack([X[:ROWS], np.full(ROWS, np.nan)])
    assert (
        LabelDPRegressor(BoostingRegressor(), epsilon=8, domain=(0, 400)).fit(array, Y[:ROWS]).score(array, Y[:ROWS])
        > 0.3
    )


@pytest.mark.parametrize("estimator", [None, Ridge()])
def test_lazy_frames_are_refused_with_advice(estimator):
    frame = pl.DataFrame({"a": X[:150, 0]})
    model = LabelDPRegressor(estimator, epsilon=8, domain=(0, 400))
    with pytest.raises(InvalidInput, match="collect"):
        model.fit(frame.lazy(), Y[:150])
    model.fit(frame, Y[:150])
    with pytest.raises(InvalidInput, match="collect"):
        model.predict(frame.lazy())


def test_record_batches_are_tables():
    batch = pa.RecordBatch.from_pydict({"a": X[:ROWS, 0], "b": X[:ROWS, 1]})
    model = LabelDPRegressor(Ridge(), epsilon=8, domain=(0, 400)).fit(batch, Y[:ROWS])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.predict(batch), model.predict(pa.Table.from_batches([batch])))


SEVERAL = np.column_stack([Y, 400 - Y])[:ROWS]
OWNERS = np.arange(ROWS) // 5


def columns_model(**settings):
    return LabelDPRegressor(LinearRegression(), epsilon=8, domain=[(0, 400), (0, 500)], **settings)


@pytest.mark.parametrize("persons", [None, OWNERS])
def test_several_columns_cost_epsilon_once(tmp_path, persons):
    ledger = Ledger.create(tmp_path / "several.db")
    ledger.add_dataset("sales", 8, unit="record" if persons is None else "person")
    model = columns_model(ledger=ledger, dataset="sales").fit(X[:ROWS], SEVERAL, persons=persons)
    assert ledger.remaining("sales") == 0
    assert model.epsilon_spent_ == 8
    assert model.predict(X).shape == (len(X), 2)
    assert model.score(X[:ROWS], SEVERAL) > 0.3
    with pytest.raises(InsufficientBudget):
        model.fit(X[:ROWS], SEVERAL, persons=persons)


@pytest.mark.parametrize("persons", [None, OWNERS])
def test_all_labels_of_a_row_or_a_person_reach_one_column_only(persons):
    """So that the charge of one column covers the others."""
    moved = set()
    for number in range(12):
        found = []
        others = np.where((np.arange(ROWS) if persons is None else persons)[:, None] == number, 400 - SEVERAL, SEVERAL)
        for labels in (SEVERAL, others):
            with seeded_draws(5, any_processor=True):
                found.append(
                    columns_model(mechanism="randomized-response").fit(X[:ROWS], labels, persons=persons).predict(X)
                )
        changed = np.flatnonzero((found[0] != found[1]).any(axis=0))
        assert changed.size <= 1
        moved.update(changed.tolist())
    assert moved == {0, 1}


def test_a_column_that_is_refused_costs_nothing(ledger):
    labels = SEVERAL.copy()
    labels[:, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        columns_model(ledger=ledger, dataset="sales").fit(X[:ROWS], labels)
    assert not ledger.history("sales")
    with pytest.raises(InvalidInput, match="3 columns and domain has 2"):
        columns_model().fit(X[:ROWS], np.zeros((ROWS, 3)))
    with pytest.raises(InvalidInput, match="domain is a list"):
        columns_model().fit(X[:ROWS], Y[:ROWS])
