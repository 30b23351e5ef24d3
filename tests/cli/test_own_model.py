"""`predict` and `evaluate` with a scikit-learn model of the user's own, of which nothing but the model was saved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from labeldp import InvalidInput, SavedModel
from labeldp.learn.prediction_files import predict_file

SECRET = "x77123y"
TABLE = pd.DataFrame(
    {
        "amount": np.linspace(0, 90, 40),
        "age": np.sin(np.arange(40.0)),
        "shop": ["a", "b", "c", "d"] * 10,
        "order": np.arange(40) + 1000,
        "visits": np.arange(40.0) % 7,
    }
)
NUMBERS = ["visits", "age"]
MIXED = ColumnTransformer(
    [("numbers", StandardScaler(), ["age"]), ("shops", OneHotEncoder(), ["shop"])], remainder="passthrough"
)
MODELS = {
    "a line": Ridge().fit(TABLE[NUMBERS], TABLE["amount"]),
    "a pipeline": make_pipeline(StandardScaler(), Ridge()).fit(TABLE[NUMBERS], TABLE["amount"]),
    "mixed columns": make_pipeline(MIXED, Ridge()).fit(TABLE[["visits", "shop", "age"]], TABLE["amount"]),
}
LINE = MODELS["a line"]
ARRAY = Ridge().fit(TABLE[NUMBERS].to_numpy(), TABLE["amount"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_parquet("all.parquet")
    return tmp_path


def saved(model, **facts):
    SavedModel(model, {"bounds": [0, 100], **facts}).save("model")


def predictions():
    return pd.read_parquet("p.parquet")["prediction"].to_numpy()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_columns_are_those_that_the_model_was_fitted_to(run, folder, model):
    saved(model)
    expected = model.predict(TABLE[model.feature_names_in_])
    code, _, err = run("predict", "model", "all.parquet", "--id", "order", "--out", "p.parquet")
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(predictions(), np.clip(expected, 0, 100))
    code, out, err = run("evaluate", "model", "all.parquet", "--label", "amount")
    assert code == 0, err
    assert "mean squared error" in out


def test_an_index_that_pandas_wrote_is_a_column_like_any_other(run, folder):
    TABLE.set_index("age").to_parquet("indexed.parquet")
    saved(LINE)
    assert run("predict", "model", "indexed.parquet", "--out", "p.parquet")[0] == 0
    np.testing.assert_array_equal(predictions(), np.clip(LINE.predict(TABLE[NUMBERS]), 0, 100))


@pytest.mark.filterwarnings("always::labeldp.FeatureWarning")
def test_columns_without_names_are_taken_in_the_files_order_and_that_is_said(run, folder):
    saved(ARRAY)
    TABLE[["visits", "order", "age"]].to_parquet("few.parquet")
    code, _, err = run("predict", "model", "few.parquet", "--id", "order", "--out", "p.parquet")
    assert code == 0
    assert err.count("note:") == 1
    assert "in the order of few.parquet: visits, age" in " ".join(err.split())
    np.testing.assert_array_equal(predictions(), np.clip(LINE.predict(TABLE[NUMBERS]), 0, 100))


def test_another_number_of_columns_without_names_is_refused(run, folder):
    saved(ARRAY)
    code, _, err = run("predict", "model", "all.parquet", "--id", "order", "--out", "p.parquet")
    assert code == 2
    assert "takes 2 columns and was trained without their names, but all.parquet has 4" in " ".join(err.split())


def test_names_in_the_facts_help_a_model_that_knows_none(run, folder):
    saved(ARRAY, columns=NUMBERS)
    code, _, err = run("predict", "model", "all.parquet", "--out", "p.parquet")
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(predictions(), np.clip(LINE.predict(TABLE[NUMBERS]), 0, 100))


def test_a_column_that_is_not_there_is_named(run, folder):
    saved(LINE)
    TABLE.rename(columns={"visits": "Visits"}).to_parquet("renamed.parquet")
    code, _, err = run("predict", "model", "renamed.parquet", "--out", "p.parquet")
    assert code == 2
    assert "has no column 'visits' (did you mean 'Visits'?), and the model was trained on it" in " ".join(err.split())


def test_a_column_that_the_model_drops_may_be_missing(run, folder):
    dropping = ColumnTransformer([("numbers", StandardScaler(), ["age"])])
    saved(make_pipeline(dropping, Ridge()).fit(TABLE, TABLE["amount"]))
    TABLE[["age"]].to_parquet("age.parquet")
    assert run("predict", "model", "age.parquet", "--out", "p.parquet")[0] == 0
    assert run("evaluate", "model", "all.parquet", "--label", "amount")[0] == 0


def test_a_model_that_reads_the_label_is_not_evaluated(run, folder):
    saved(Ridge().fit(TABLE[["age", "amount"]], TABLE["amount"]))
    code, _, err = run("evaluate", "model", "all.parquet", "--label", "amount")
    assert code == 2
    assert "trained on the column 'amount', which is the label here" in " ".join(err.split())


def test_what_the_estimator_says_is_not_shown(run, folder):
    """scikit-learn quotes the value that it cannot read."""
    saved(LINE)
    TABLE.assign(age=SECRET).to_parquet("text.parquet")
    code, _, err = run("predict", "model", "text.parquet", "--out", "p.parquet")
    assert code == 2
    assert "the features hold text where numbers are needed" in " ".join(err.split())
    assert SECRET not in err
    assert len(err.splitlines()) < 10
    with pytest.raises(InvalidInput) as caught:
        predict_file(SavedModel.load("model"), folder / "text.parquet", folder / "q.parquet")
    assert caught.value.__suppress_context__


def test_an_unfitted_model_is_not_saved(folder):
    for model in (Ridge(), make_pipeline(StandardScaler(), Ridge())):
        for as_pickle in (False, True):
            with pytest.raises(InvalidInput, match="is not fitted: call fit before save"):
                SavedModel(model, {}).save("unfitted", pickle=as_pickle)
    assert not (folder / "unfitted").exists()
