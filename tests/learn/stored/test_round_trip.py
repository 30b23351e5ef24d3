"""Every learner, for every loss, comes back from a file with the same predictions to the last bit."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    GammaRegressor,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import SVR
from sklearn.utils.validation import check_is_fitted

from labeldp import InvalidInput, LabelDPRegressor, LabelRandomizer, Ledger
from labeldp.learn import BoostingRegressor, ConditionalRegressor
from labeldp.learn.conditional import Recipe
from labeldp.learn.learners import LEARNERS, LearnerRequest
from labeldp.learn.stored import model_file
from labeldp.learn.stored.codec import NotStorable
from labeldp.learn.stored.model_file import from_bytes, to_bytes
from labeldp.losses import loss_examples
from labeldp.paper.network import NetworkRegressor

pytestmark = pytest.mark.filterwarnings("ignore::labeldp.BudgetWarning", "ignore::labeldp.RepeatedRelease")

ROWS = 400
RANDOM = np.random.default_rng(0)
TABLE = pa.table(
    {
        "shop": RANDOM.choice(["a", "b", "ü", None], ROWS),
        "price": np.where(RANDOM.random(ROWS) < 0.1, np.nan, RANDOM.normal(size=ROWS)),
        "age": RANDOM.integers(0, 9, ROWS),
        "nothing": pa.nulls(ROWS, pa.float64()),
    }
)
X = RANDOM.normal(size=(ROWS, 3))
Y = np.abs(100 + 30 * X[:, 0]) + 1
LEARNER_NAMES = ("stack", "boosting", "network")


def same(model, features):
    """The model from its file, which predicts as the model does."""
    data = to_bytes(model)
    loaded = from_bytes(data)
    np.testing.assert_array_equal(loaded.predict(features), model.predict(features))
    check_is_fitted(loaded)
    assert re.sub("0x[0-9a-f]+", "", repr(loaded)) == re.sub("0x[0-9a-f]+", "", repr(model))
    assert type(clone(loaded)) is type(model)
    return loaded, data


def test_the_learners_of_this_file_are_those_of_the_catalogue():
    assert set(LEARNERS.names) == set(LEARNER_NAMES)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        *(("boosting", loss) for loss in loss_examples()),
        ("stack", "squared"),
        pytest.param("stack", "gamma", marks=pytest.mark.slow),
        ("network", "squared"),
        ("network", "absolute"),
    ],
)
def test_a_learner_for_a_loss(name, loss):
    private = LabelRandomizer(2, (1, 400), loss=loss).randomize(Y)
    recipe = Recipe.of(private.mechanism, loss)
    native = "squared" if recipe.conditional else recipe.loss.name
    learner = LEARNERS[name].make(LearnerRequest(ROWS, recipe.share, native, seed=3, epochs=1))
    model = recipe.model(learner).fit(TABLE, recipe.targets(private.codes))
    loaded, data = same(model, TABLE)
    assert to_bytes(loaded) == data
    assert to_bytes(clone(loaded).fit(TABLE, recipe.targets(private.codes))) == data  # and is trained as before


@pytest.mark.parametrize("model", [BoostingRegressor(loss="poisson"), NetworkRegressor(loss="poisson", epochs=1)])
def test_a_learner_that_trains_with_poisson_loss(model):
    same(model.set_params(random_state=0).fit(TABLE, Y), TABLE)


@pytest.mark.parametrize("loss", ["squared", "pinball(0.9)"])
def test_the_private_regressor(loss):
    for features in (TABLE, X):
        loaded, _ = same(
            LabelDPRegressor(BoostingRegressor(), epsilon=2, domain=(1, 400), loss=loss).fit(features, Y), features
        )
        assert loaded.epsilon_spent_ == 2
    same(LabelDPRegressor(Ridge(), epsilon="1/2", domain=(1, 400)).fit(X, Y), X)
    codes = RANDOM.integers(0, loaded.mechanism_.outputs.size, ROWS)
    same(ConditionalRegressor(Ridge(), loaded.mechanism_, "absolute").fit(X, codes), X)


def test_a_private_regressor_with_a_ledger_is_refused(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    model = LabelDPRegressor(Ridge(), domain=(1, 400), ledger=ledger, dataset="sales").fit(X, Y)
    with pytest.raises(NotStorable, match="estimator_"):
        to_bytes(model)
    same(model.estimator_, X)


@pytest.mark.parametrize(
    "model",
    [
        LinearRegression(),
        LassoCV(),
        SGDRegressor(random_state=0),
        PoissonRegressor(),
        make_pipeline(StandardScaler(), GammaRegressor()),
        TweedieRegressor(power=1.5),
        TweedieRegressor(power=0),
        HistGradientBoostingRegressor(loss="gamma"),
        HistGradientBoostingRegressor(loss="absolute_error", early_stopping=True),
        make_pipeline(StandardScaler(), Ridge()),
        TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_estimator_of_scikit_learn(model):
    same(model.fit(X, Y), X)


NUMBERS = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
CATEGORIES = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))


@pytest.mark.parametrize(
    "columns",
    [
        ColumnTransformer([("numbers", NUMBERS, ["price", "age"]), ("categories", CATEGORIES, ["shop"])]),
        ColumnTransformer([("codes", OrdinalEncoder(), ["shop"])], remainder=SimpleImputer()),
        ColumnTransformer([("age", "passthrough", ["age"]), ("shop", "drop", ["shop"])]),
        ColumnTransformer(
            [("bins", KBinsDiscretizer(3, strategy="uniform"), slice(2, 3)), ("powers", PolynomialFeatures(3), ["age"])]
        ),
        ColumnTransformer([("numbers", NUMBERS, make_column_selector(dtype_include=np.number))]),
    ],
    ids=["mixed", "remainder", "passthrough", "slice", "selector"],
)
def test_a_pipeline_for_mixed_columns(columns):
    table = TABLE.select(["shop", "price", "age"]).to_pandas()
    for final in (Ridge(), TransformedTargetRegressor(Ridge(), transformer=StandardScaler())):
        model = make_pipeline(columns, SimpleImputer(), final)
        same(model.fit(table, Y), table)


@pytest.mark.parametrize("named", [True, False])
def test_trees_that_split_by_categories(named):
    shops = RANDOM.integers(0, 9, ROWS)
    labels = Y + 100 * (shops % 2)
    if named:
        table = TABLE.select(["price", "age"]).to_pandas()
        table.insert(1, "shop", np.array([*"abcdefgh", None], object)[shops])
        table["shop"] = table["shop"].astype("category")
        other = table.assign(shop=table["shop"].astype(object).where(shops != 2, "a new one"))
    else:
        table = np.c_[X[:, 0], shops, X[:, 1]]
        other = np.c_[X[:, 0], shops + 5, X[:, 1]]
    model = HistGradientBoostingRegressor(categorical_features=[1], max_iter=5)
    model.fit(table, labels, sample_weight=np.arange(ROWS) + 1.0)
    assert any(step[0].nodes["is_categorical"].any() for step in model._predictors)
    loaded, _ = same(model, table)
    np.testing.assert_array_equal(loaded.predict(other), model.predict(other))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (RandomForestRegressor(2), "sklearn.ensemble"),  # compiled trees, whose indices nothing checks
        (SVR(), "sklearn.svm"),
        (make_pipeline(FunctionTransformer(lambda X: X), Ridge()), "only without a function"),
        (make_pipeline(StandardScaler(), Ridge(), memory="cache"), "memory=None"),
        (
            TransformedTargetRegressor(make_pipeline(StandardScaler(), Ridge(), memory="cache")),
            "memory=None",
        ),
        (TransformedTargetRegressor(Ridge(), func=lambda y: y, inverse_func=lambda y: y), "<lambda>"),
        (make_pipeline(SplineTransformer(), Ridge()), "BSpline"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_could_not_be_loaded_safely_is_refused_when_it_is_saved(model, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.fit(np.c_[X[:, :2], np.arange(ROWS) % 3], Y)
    with pytest.raises(InvalidInput, match=reason):
        to_bytes(model)


def test_what_is_no_regressor_is_refused_when_it_is_saved():
    for model in (LogisticRegression().fit(X, Y > 100), StandardScaler().fit(X), "text", None):
        with pytest.raises(NotStorable, match="is not a regressor"):
            to_bytes(model)


def test_a_loss_of_the_users_own_is_refused():
    private = LabelRandomizer(2, (1, 400)).randomize(Y)
    model = ConditionalRegressor(Ridge(), private.mechanism, lambda output, label: abs(output - label)).fit(X, private)
    with pytest.raises(NotStorable, match=r"model\.loss"):
        to_bytes(model)


def test_another_version_of_scikit_learn_is_told(monkeypatch):
    data = to_bytes(BoostingRegressor().fit(TABLE, Y))
    monkeypatch.setattr(model_file.sklearn, "__version__", "0.1")
    with pytest.warns(InconsistentVersionWarning):
        from_bytes(data)


def test_a_model_beyond_the_limit_is_not_saved(monkeypatch):
    monkeypatch.setattr(model_file, "LARGEST_FILE", 1000)
    with pytest.raises(ValueError, match="more than the 1,000"):
        to_bytes(BoostingRegressor().fit(TABLE, Y))


def test_our_own_models_predict_without_torch_and_skops(tmp_path):
    (tmp_path / "boosting").write_bytes(to_bytes(BoostingRegressor().fit(TABLE, Y)))
    (tmp_path / "network").write_bytes(to_bytes(NetworkRegressor(epochs=1).fit(TABLE, Y)))
    pq.write_table(TABLE, tmp_path / "table.parquet")
    code = (
        "import sys; from pathlib import Path; import pyarrow.parquet as pq; "
        "from labeldp.learn.stored.model_file import from_bytes; table = pq.read_table('table.parquet'); "
        "[from_bytes(Path(name).read_bytes()).predict(table) for name in ('boosting', 'network')]; "
        "assert not {'torch', 'skops'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
