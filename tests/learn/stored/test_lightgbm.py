"""LightGBM's regressor comes back from a file, and text that was made to do harm does not reach LightGBM's parser."""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow as pa
import pytest
from crafted import changed, inner, put_together
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp import InvalidInput, LabelDPRegressor, SavedModel
from labeldp.errors import MissingExtra
from labeldp.learn.stored import codec
from labeldp.learn.stored.codec import NotStorable
from labeldp.learn.stored.model_file import from_bytes, to_bytes

lightgbm = pytest.importorskip("lightgbm", reason="these tests need the extra docs: pip install 'labeldp[docs]'")
pd = pytest.importorskip("pandas")

ROWS = 400
RANDOM = np.random.default_rng(0)
SHOPS = RANDOM.integers(0, 8, ROWS)
FRAME = pd.DataFrame({"shop": pd.Categorical(np.array([*"abcdefgü"])[SHOPS]), "price": RANDOM.normal(size=ROWS)})
X = np.c_[RANDOM.normal(size=(ROWS, 2)), SHOPS]
Y = 50 + 20 * (SHOPS % 3) + 5 * FRAME["price"].to_numpy()
CATEGORIES = {"min_data_per_group": 5, "cat_smooth": 1, "min_child_samples": 5}


def regressor(**parameters):
    return lightgbm.LGBMRegressor(**{"n_estimators": 4, "num_leaves": 6, "verbose": -1, **parameters})


GOOD = to_bytes(regressor(**CATEGORIES).fit(FRAME, Y))
TREES = from_bytes(GOOD) and inner(GOOD, "LGBMRegressor")[2]["trees"]


def with_trees(text):
    return changed(GOOD, lambda state: state.update(trees=text))


def edited(pattern, replacement):
    """The file after one edit of the text of its trees."""
    text, count = re.subn(pattern, replacement, TREES, count=1, flags=re.MULTILINE)
    assert count == 1
    assert text != TREES
    return with_trees(text)


@pytest.mark.parametrize(
    "parameters",
    [
        CATEGORIES,
        {"objective": "poisson"},
        {"objective": "quantile", "alpha": 0.9},
        {"objective": "tweedie", "boosting_type": "dart"},
        {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"min_child_samples": 5000},
        {"reg_sqrt": True, "random_state": 3},
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
    assert repr(clone(loaded)) == repr(clone(model))
    assert hasattr(loaded, "feature_names_in_") == isinstance(features, pd.DataFrame)
    assert loaded.n_features_in_ == features.shape[1]


def test_it_is_stored_as_a_part_of_other_models():
    model = make_pipeline(StandardScaler(), regressor()).fit(X, Y)
    np.testing.assert_array_equal(from_bytes(to_bytes(model)).predict(X), model.predict(X))
    private = LabelDPRegressor(regressor(), epsilon=2, domain=(0, 120)).fit(X, Y)
    np.testing.assert_array_equal(from_bytes(to_bytes(private)).predict(X), private.predict(X))


def test_it_is_saved_without_a_pickle(tmp_path):
    model = regressor().fit(FRAME, Y)
    SavedModel(model, {"bounds": [0, 60]}).save(tmp_path / "model")
    loaded = SavedModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(FRAME), np.clip(model.predict(FRAME), 0, 60))


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"linear_tree": True}, "linear models"),
        ({"objective": lambda y, f: (f - y, np.ones_like(y))}, "parameter objective"),
        ({"monotone_constraints": [0, 1]}, "parameter monotone_constraints"),
        ({"forcedsplits_filename": ""}, "parameter forcedsplits_filename"),
    ],
)
def test_what_could_not_be_loaded_safely_is_refused_when_it_is_saved(parameters, reason):
    with pytest.raises(NotStorable, match=reason):
        to_bytes(regressor(**parameters).fit(FRAME, Y))


def test_a_package_that_is_missing_is_named(monkeypatch, tmp_path):
    SavedModel(regressor().fit(X, Y), {}).save(tmp_path / "model")
    monkeypatch.setattr(codec, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install lightgbm"):
        SavedModel.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"^left_child=\S+", "left_child=9"),
        (r"^left_child=\S+", "left_child=0"),
        (r"^right_child=\S+", "right_child=-100"),
        (r"^(left_child=.*) \S+$", r"\1"),
        (r"^(leaf_value=.*)$", r"\1 1"),
        (r"^leaf_value=\S+", "leaf_value=nan"),
        (r"^leaf_value=\S+", "leaf_value=1e999"),
        (r"^leaf_value=\S+", "leaf_value=1_0"),
        (r"^split_feature=\S+", "split_feature=2"),
        (r"^split_feature=\S+", "split_feature=-1"),
        (r"^split_feature=\S+", "split_feature=0.5"),
        (r"^decision_type=\S+", "decision_type=13"),
        (r"^threshold=\S+", "threshold=7"),  # the first split is by a set of categories
        (r"^num_cat=\d+", "num_cat=5"),
        (r"^cat_boundaries=0 \d+", "cat_boundaries=0 9"),
        (r"^cat_boundaries=0", "cat_boundaries=1"),
        (r"^cat_threshold=\d+", "cat_threshold=4294967296"),
        (r"^num_leaves=\d+", "num_leaves=131073"),
        (r"^num_leaves=\d+", "num_leaves=5"),
        (r"^num_leaves=\d+\n", ""),
        (r"^is_linear=0", "is_linear=1"),
        (r"^shrinkage=", "leaf_const=1\nshrinkage="),
        (r"^(shrinkage=.*)$", r"\1\n\1"),
        (r"^Tree=1$", "Tree=2"),
        (r"^max_feature_idx=1", "max_feature_idx=900000000"),
        (r"^max_feature_idx=1", "max_feature_idx=0"),
        (r"^num_class=1", "num_class=2"),
        (r"^objective=regression", "objective=lambdarank"),
        (r"^version=v4", "version=v9"),
        (r"^(objective=.*)$", r"\1\ntree_sizes=1 1 1 1"),
        (r"^end of trees$", "end of trees\n\nparameters:\n[num_threads: 9]\nend of parameters"),
        (r"^end of trees$", "end"),
        (r"^pandas_categorical:.*$", "pandas_categorical:[[[]]]"),
        (r"^pandas_categorical:.*$", "pandas_categorical:" + "[" * 100_000),
        (r"^pandas_categorical:.*$", "pandas_categorical:7"),
        (r"\Atree", "forest"),
    ],
)
def test_text_that_lightgbm_would_not_write_is_refused_before_it_is_parsed(monkeypatch, pattern, replacement):
    from labeldp.learn.stored import lightgbm_text

    data = edited(pattern, replacement)
    monkeypatch.setattr(lightgbm_text, "Booster", None)
    with pytest.raises(InvalidInput):
        from_bytes(data)


def test_a_tree_of_too_many_levels_is_refused():
    """LightGBM measures the depth by recursion, which ends the process where the stack ends."""
    leaves = 5000
    chain = {
        "num_leaves": leaves,
        "num_cat": 0,
        **dict.fromkeys(("split_feature", "split_gain", "threshold", "decision_type"), "0 " * (leaves - 2) + "0"),
        "left_child": " ".join(map(str, [*range(1, leaves - 1), -1])),
        "right_child": " ".join(map(str, range(-2, -leaves - 1, -1))),
        "leaf_value": "0 " * (leaves - 1) + "0",
        "is_linear": 0,
        "shrinkage": 1,
    }
    tree = "Tree=0\n" + "\n".join(f"{name}={value}" for name, value in chain.items())
    start, end = TREES.index("Tree=0"), TREES.index("end of trees")
    with pytest.raises(InvalidInput, match="more than 4,096 levels"):
        from_bytes(with_trees(TREES[:start] + tree + "\n\n\n" + TREES[end:]))


@pytest.mark.parametrize("seed", range(60))
def test_edited_text_is_refused_or_predicts(seed):
    chosen, text = random.Random(seed), list(TREES)
    for _ in range(chosen.choice([1, 1, 2, 3])):
        where = chosen.randrange(len(text))
        match chosen.randrange(3):
            case 0:
                digits = [place for place, sign in enumerate(text) if sign.isdigit()]
                text[chosen.choice(digits)] = chosen.choice("0123456789-")
            case 1:
                del text[where : where + chosen.randrange(1, 20)]
            case 2:
                begin = chosen.randrange(len(text))
                text[where:where] = text[begin : begin + chosen.randrange(1, 60)]
    try:
        model = SavedModel(from_bytes(with_trees("".join(text))), {})
        assert len(model.predict(FRAME)) == ROWS
    except InvalidInput:
        pass


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_threads", 10**6),
        ("forcedsplits_filename", "secret"),
        ("objective", "../../x"),
        ("_Booster", 1),
        ("_n_features", 1),
        ("predict", 1),
        ("n_estimators", {"function": "numpy.clip"}),
        ("boosting_type", []),
    ],
)
def test_parameters_that_cannot_be_stored_are_refused(name, value):
    structure, arrays, state = inner(GOOD, "LGBMRegressor")
    state["parameters"]["dict"][name] = value
    with pytest.raises(InvalidInput, match=f"the parameter '{name}' has a value"):
        from_bytes(put_together(structure, arrays))


def test_a_file_cannot_ask_for_threads():
    structure, arrays, state = inner(GOOD, "LGBMRegressor")
    state["parameters"]["dict"]["n_jobs"] = 10**6
    assert from_bytes(put_together(structure, arrays)).n_jobs is None


def test_text_in_a_table_is_read_as_the_categories_of_training():
    model = regressor(**CATEGORIES).fit(FRAME, Y)
    text = FRAME.assign(shop=FRAME["shop"].astype(object))
    table = pa.Table.from_pandas(text, preserve_index=False)
    assert not pa.types.is_dictionary(table.schema.field("shop").type)
    np.testing.assert_array_equal(SavedModel(from_bytes(GOOD), {}).predict(table), model.predict(FRAME))
    np.testing.assert_array_equal(SavedModel(model, {}).predict(table[5:9]), model.predict(FRAME[5:9]))


def test_text_that_the_model_does_not_take_is_named_with_the_cure():
    text = FRAME.assign(shop=FRAME["shop"].astype(object))
    with pytest.raises(InvalidInput, match=r"The column 'shop' contains text or categories\..*astype\(\"category\"\)"):
        SavedModel(from_bytes(GOOD), {}).predict(text)
