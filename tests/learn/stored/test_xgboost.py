"""XGBoost's regressor comes back from a file, and trees that were made to do harm do not reach XGBoost."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from crafted import changed, inner, put_together

from labeldp import InvalidInput, SavedModel
from labeldp.learn.stored.codec import NotStorable
from labeldp.learn.stored.model_file import from_bytes, to_bytes

xgboost = pytest.importorskip("xgboost", minversion="3.1", reason="these tests need xgboost: pip install xgboost")
pd = pytest.importorskip("pandas")

ROWS = 400
RANDOM = np.random.default_rng(0)
SHOPS = RANDOM.integers(0, 8, ROWS)
FRAME = pd.DataFrame({"shop": pd.Categorical(np.array([*"abcdefgü"])[SHOPS]), "price": RANDOM.normal(size=ROWS)})
X = np.c_[RANDOM.normal(size=(ROWS, 2)), SHOPS]
Y = 50 + 20 * (SHOPS % 3) + 5 * FRAME["price"].to_numpy()


def regressor(**parameters):
    return xgboost.XGBRegressor(**{"n_estimators": 3, "max_depth": 3, "enable_categorical": True, **parameters})


@pytest.fixture(scope="module")
def good():
    """A file of trees that split by categories."""
    data = to_bytes(regressor(max_cat_to_onehot=1).fit(FRAME, Y))
    assert json.loads(inner(data, "XGBRegressor")[2]["trees"])["learner"]["gradient_booster"]["model"]["trees"][0][
        "categories"
    ]
    return data


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_cat_to_onehot": 1},
        {"objective": "count:poisson"},
        {"objective": "reg:tweedie", "tweedie_variance_power": 1.2},
        {"objective": "reg:absoluteerror"},
        {"num_parallel_tree": 2, "subsample": 0.5, "random_state": 3},
        {"grow_policy": "lossguide", "max_leaves": 5},
        {"gamma": 1e9},
    ],
    ids=str,
)
@pytest.mark.parametrize("features", [FRAME, X], ids=["frame", "array"])
def test_a_model_comes_back_with_the_same_predictions(features, parameters):
    model = regressor(**parameters).fit(features, Y)
    data = to_bytes(model)
    loaded = from_bytes(data)
    np.testing.assert_array_equal(loaded.predict(features), model.predict(features))
    assert to_bytes(loaded) == data
    assert repr(loaded.get_params()) == repr(model.get_params())


def test_trees_that_were_pruned_come_back():
    model = regressor(tree_method="exact", gamma=500, enable_categorical=False, verbosity=0).fit(X, Y)
    np.testing.assert_array_equal(from_bytes(to_bytes(model)).predict(X), model.predict(X))


def test_text_in_a_table_is_read_as_the_categories_of_training(good):
    table = pa.Table.from_pandas(FRAME.assign(shop=FRAME["shop"].astype(object)), preserve_index=False)[5:9]
    loaded = from_bytes(good)
    np.testing.assert_allclose(SavedModel(loaded, {}).predict(table), loaded.predict(FRAME[5:9]), rtol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"booster": "gblinear", "verbosity": 0}, "not gbtree"),
        ({"booster": "dart"}, "not gbtree"),
        ({"objective": lambda y, f: (f - y, np.ones_like(y))}, "objective"),
        ({"monotone_constraints": (0, 1, 0)}, "parameter monotone_constraints"),
    ],
)
def test_what_could_not_be_loaded_safely_is_refused_when_it_is_saved(parameters, reason):
    with pytest.raises(NotStorable, match=reason):
        to_bytes(regressor(**parameters).fit(X, Y))


TREE = ("learner", "gradient_booster", "model", "trees", 0)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*TREE, "left_children", 0), 900),
        ((*TREE, "left_children", 0), 0),
        ((*TREE, "right_children", 0), -1),
        ((*TREE, "right_children", 0), 2**40),
        ((*TREE, "right_children", 0), 1.5),
        ((*TREE, "parents", 1), 900),
        ((*TREE, "parents", 1), -1),
        ((*TREE, "split_indices", 0), 2),
        ((*TREE, "split_indices", 0), -1),
        ((*TREE, "split_type", 0), 0),
        ((*TREE, "split_type", 0), 7),
        ((*TREE, "split_conditions", 0), float("nan")),
        ((*TREE, "base_weights"), []),
        ((*TREE, "categories", 0), -1),
        ((*TREE, "categories", 0), 2**31),
        ((*TREE, "categories_segments", 0), 900),
        ((*TREE, "categories_sizes", 0), 900),
        ((*TREE, "categories_nodes", 0), 900),
        ((*TREE, "tree_param", "num_nodes"), "900000000"),
        ((*TREE, "tree_param", "num_deleted"), "1"),
        ((*TREE, "tree_param", "size_leaf_vector"), "5"),
        ((*TREE, "id"), 1),
        ((*TREE, "more"), 1),
        ((*TREE[:-2], "trees"), {}),
        ((*TREE[:-2], "iteration_indptr", 1), 9),
        ((*TREE[:-2], "tree_info", 0), 1),
        ((*TREE[:-2], "cats", "feature_segments", 1), 900),
        ((*TREE[:-2], "cats", "sorted_idx", 0), 900),
        ((*TREE[:-2], "cats", "enc", 0, "offsets", 1), 900),
        ((*TREE[:-2], "cats", "enc", 0, "values", 0), 900),
        (("learner", "learner_model_param", "num_feature"), "999999999"),
        (("learner", "learner_model_param", "num_target"), "2"),
        (("learner", "feature_names"), ["a"]),
        (("learner", "objective", "name"), "rank:ndcg"),
        (("learner", "gradient_booster", "name"), "gblinear"),
        (("version", 0), 1),
        (("learner",), []),
    ],
    ids=str,
)
def test_trees_that_xgboost_would_not_write_are_refused_before_it_sees_them(good, monkeypatch, path, value):
    record = json.loads(inner(good, "XGBRegressor")[2]["trees"])
    part = record
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    monkeypatch.setattr(xgboost.XGBRegressor, "load_model", None)
    with pytest.raises(InvalidInput, match="XGBRegressor: "):
        from_bytes(changed(good, lambda state: state.update(trees=json.dumps(record))))


@pytest.mark.parametrize(
    ("name", "value"), [("nthread", 10**6), ("objective", "../../x"), ("_Booster", 1), ("predict", 1), ("device", [])]
)
def test_parameters_that_cannot_be_stored_are_refused(good, name, value):
    structure, arrays, state = inner(good, "XGBRegressor")
    state["parameters"]["dict"][name] = value
    with pytest.raises(InvalidInput, match=f"the parameter '{name}' has a value"):
        from_bytes(put_together(structure, arrays))
