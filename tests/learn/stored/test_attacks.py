"""Files made to do harm are refused when they are loaded, and nothing that they name is called."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from crafted import LINE, changed, holding, inner, nothing_is_run, put_together, taken_apart  # noqa: F401 - a fixture
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

from labeldp import Domain, InvalidInput, LabelRandomizer, Prior, SavedModel
from labeldp.learn import BoostingRegressor, ConditionalRegressor, StackedRegressor
from labeldp.learn.boosting import Trees
from labeldp.learn.smooth_ridge import SmoothRidge
from labeldp.learn.stored.codec import TREE_NODES, check_boosting
from labeldp.learn.stored.model_file import from_bytes, to_bytes
from labeldp.learn.stored.skops_file import to_skops
from labeldp.paper.network import NetworkRegressor

ROWS = 300
RANDOM = np.random.default_rng(0)
TABLE = pa.table({"shop": RANDOM.choice(["a", "b"], ROWS), "price": RANDOM.normal(size=ROWS)})
Y = np.abs(RANDOM.normal(size=ROWS)) * 50 + 1

FILES = ["boosting", "network", "conditional"]


@pytest.fixture(scope="module")
def stored():
    """Files of trained models."""
    private = LabelRandomizer(2, (1, 400), loss="absolute", prior=Prior.uniform(Domain(1, 400, 50))).randomize(Y)
    conditional = ConditionalRegressor(BoostingRegressor(), private.mechanism, "absolute")
    models = {
        "boosting": BoostingRegressor().fit(TABLE, Y),
        "stack": StackedRegressor().fit(TABLE, Y),
        "ridge": SmoothRidge(bends=2, bumps=5).fit(RANDOM.normal(size=(ROWS, 2)), Y),
        "network": NetworkRegressor(epochs=1, random_state=0).fit(TABLE, Y),
        "conditional": conditional.fit(TABLE, private),
    }
    return {name: to_bytes(model) for name, model in models.items()}


@pytest.mark.parametrize(
    "part",
    [
        {"function": "os.system"},
        {"function": "numpy.load"},
        {"function": ["numpy.clip"]},
        {"object": ["os.system", {}]},
        {"object": ["builtins.eval", {"source": "open('sentinel', 'w')"}]},
        {"object": ["functools.partial", {"func": {"function": "os.system"}}]},
        {"object": ["Sentinel", {}]},
        {"object": ["crafted.Sentinel", {}]},
        {"object": [["Trees"], {}]},
        {"object": ["Trees", []]},
        {"object": "Trees"},
        {"lambda": "open('sentinel', 'w')"},
        {"__class__": "x"},
        {"read": None},
        {"object": ["Fraction", {"numerator": 1, "denominator": 0}]},
        {"object": ["Mechanism", {"json": "[" * 100_000}]},
        {"object": ["Loss", {"name": "squared", "wrong": 1}]},
        {"object": ["Domain", {"fields": [0]}]},
        {"object": ["Generator", {"state": -1, "inc": 1, "has_uint32": 0, "uinteger": 0}]},
        {"array": "none"},
        {"dtype": "O8,O8"},
        {"dtype": {}},
        {"skops": "0"},
        {"tuple": {"a": 1}},
        {"objects": [[1]]},
        {},
        {"a": 1, "b": 2},
    ],
    ids=lambda part: str(part)[:40],
)
def test_what_is_not_on_the_list_is_refused(part):
    with pytest.raises(InvalidInput):
        from_bytes(holding(part))
    with pytest.raises(InvalidInput):
        from_bytes(holding({"tuple": [[{"dict": {"deep": part}}]]}))


@pytest.mark.parametrize(
    "part",
    [
        None,
        True,
        3,
        "text",
        [],
        {"tuple": []},
        {"dtype": "f8"},
        {"object": ["Domain", {"fields": [0, 1]}]},
        taken_apart(to_bytes(make_pipeline(StandardScaler(), LINE)))[0]["model"]["object"][1]["steps"][0]["tuple"][1],
    ],
    ids=lambda part: str(part)[:20],
)
def test_a_file_that_holds_no_model_is_refused(part):
    with pytest.raises(InvalidInput, match="does not contain a model that predicts"):
        from_bytes(holding(part))


@pytest.mark.parametrize(
    ("data", "name", "value"),
    [
        ("boosting", "model_", "text"),
        ("boosting", "model_", {"object": ["Fraction", {"numerator": 1, "denominator": 2}]}),
        ("boosting", "encoder_", None),
        ("boosting", "predict", {"function": "numpy.clip"}),
        ("boosting", "fit", 1),
        ("boosting", "__class__", 1),
        ("boosting", "__dict__", {"dict": {}}),
        ("boosting", "not a name", 1),
        ("boosting", "n_features_in_", 3),
        ("stack", "model_", {"object": ["Fraction", {"numerator": 1, "denominator": 2}]}),
        ("network", "weights_", {"dict": {}}),
        ("network", "encoder_", "text"),
        ("network", "scaler_", {"function": "numpy.clip"}),
        ("conditional", "location_", {"function": "numpy.clip"}),
        ("conditional", "loss", {"function": "numpy.clip"}),
        ("conditional", "mechanism", None),
        ("conditional", "level_", "1"),
        ("conditional", "scores_", [1]),
    ],
)
def test_a_listed_type_with_an_attribute_that_it_cannot_have_is_refused(stored, data, name, value):
    from_bytes(stored[data])
    with pytest.raises(InvalidInput):
        from_bytes(changed(stored[data], lambda state: state.update({name: value})))


@pytest.mark.parametrize("attribute", ["_in_fit", "more_"])
@pytest.mark.parametrize(
    "name",
    [
        "Trees",
        "TreePredictor",
        "_BinMapper",
        "LinearStart",
        "Pipeline",
        "StandardScaler",
        "SimpleImputer",
        "SmoothRidge",
        "Stack",
    ],
)
def test_an_attribute_that_no_fitted_object_has_is_refused(stored, name, attribute):
    """With `_in_fit`, scikit-learn predicts without a look at the features, and a tree could read beyond them."""
    data = to_bytes(make_pipeline(StandardScaler(), LINE).fit([[0.0], [1.0]], [0.0, 1.0]))
    structure, arrays, state = inner(
        data if name == "StandardScaler" else stored["stack" if name == "Stack" else "boosting"], name
    )
    from_bytes(put_together(structure, arrays))
    state[attribute] = True
    with pytest.raises(InvalidInput, match=rf"{name}: it cannot have an attribute '{attribute}'"):
        from_bytes(put_together(structure, arrays))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("Stack", lambda state: state.update(models_=["text"])),
        ("Stack", lambda state: state.update(models_=[{"tuple": [1, 2, 3]}])),
        ("Stack", lambda state: state["models_"][0]["tuple"].pop()),
        ("Stack", lambda state: state.update(base_="1")),
        ("Stack", lambda state: state["facts_"][0]["tuple"].pop()),
        ("SmoothRidge", lambda state: state.update(coef_=state["rotation_"])),
        ("SmoothRidge", lambda state: state.update(landmarks_=state["coef_"])),
        ("SmoothRidge", lambda state: state.update(knots_=[1.0])),
        ("SmoothRidge", lambda state: state.update(intercept_="1")),
    ],
)
def test_a_stack_whose_parts_do_not_fit_is_refused(stored, name, change):
    structure, arrays, state = inner(stored["ridge" if name == "SmoothRidge" else "stack"], name)
    change(state)
    with pytest.raises(InvalidInput):
        from_bytes(put_together(structure, arrays))


def test_trees_that_claim_more_columns_than_they_have_bins_are_refused():
    structure, arrays, trees = inner(to_bytes(Trees(max_iter=1).fit(np.eye(50), np.arange(50.0))), "Trees")
    trees["n_features_in_"] = trees["_n_features"] = 2_000_000
    trees["_bin_mapper"]["object"][1]["is_categorical_"] = {"array": "flags"}
    with pytest.raises(InvalidInput, match="bins do not fit the columns"):
        from_bytes(put_together(structure, {**arrays, "flags": np.zeros(2_000_000, np.uint8)}))


@pytest.mark.parametrize(
    "change",
    [
        {"kw_args": {"dict": {"a_min": 0, "a_max": 255, "dtype": {"dtype": "u1"}, "casting": "unsafe"}}},
        {"kw_args": {"dict": {"a_min": 0, "a_max": 255, "where": False}}},
        {"kw_args": {"dict": {"a_min": 0, "a_max": {"array": "more"}}}},
        {"func": None},
        {"inverse_func": {"function": "numpy.clip"}},
        {"inv_kw_args": {"dict": {"dtype": 1}}},
    ],
    ids=str,
)
def test_a_function_with_other_arguments_than_ours_is_refused(stored, change):
    structure, arrays, state = inner(stored["boosting"], "FunctionTransformer")
    state.update(change)
    with pytest.raises(InvalidInput, match="FunctionTransformer: a FunctionTransformer can be stored"):
        from_bytes(put_together(structure, {**arrays, "more": np.ones(1)}))


def test_an_array_belongs_to_one_part_of_the_model(stored):
    """Copies for many parts would take more memory than the file."""
    ones = np.ones(3)
    with pytest.raises(InvalidInput, match="two parts of the model refer to it"):
        from_bytes(holding([{"array": "0"}] * 2, {"0": ones}))
    structure, arrays = taken_apart(stored["boosting"])
    with pytest.raises(InvalidInput, match="no part of the model refers to the array 'more'"):
        from_bytes(put_together(structure, {**arrays, "more": ones}))


def test_a_parameter_that_is_missing_is_refused(stored):
    with pytest.raises(InvalidInput, match="share"):
        from_bytes(changed(stored["boosting"], lambda state: state.pop("share")))


def test_a_cache_of_pickles_is_refused():
    data = to_bytes(make_pipeline(StandardScaler(), LINE).fit([[0.0], [1.0]], [0.0, 1.0]))
    with pytest.raises(InvalidInput, match="cache"):
        from_bytes(changed(data, lambda state: state.update(memory="elsewhere")))


@pytest.mark.parametrize("step", [True, 3, [], {"function": "numpy.clip"}], ids=str)
def test_a_step_that_is_no_estimator_is_refused(step):
    data = to_bytes(make_pipeline(StandardScaler(), LINE).fit([[0.0], [1.0]], [0.0, 1.0]))
    steps = [{"tuple": ["scaler", step]}]
    with pytest.raises(InvalidInput, match="not an estimator"):
        from_bytes(changed(data, lambda state: state.update(steps=steps)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("left", 2**31),
        ("left", 0),
        ("right", 2**32 - 1),
        ("right", 1),
        ("feature_idx", 2),
        ("feature_idx", -1),
        ("feature_idx", 2**62),
        ("is_categorical", 1),
    ],
)
def test_a_tree_that_leads_out_of_its_arrays_is_refused(stored, field, value):
    structure, arrays = taken_apart(stored["boosting"])
    name, nodes = next(
        (name, array.view(TREE_NODES).copy())
        for name, array in arrays.items()
        if array.dtype == np.uint8 and array.size > TREE_NODES.itemsize and array.size % TREE_NODES.itemsize == 0
    )
    assert not nodes["is_leaf"][0]
    nodes[field][0] = value
    arrays[name] = nodes.view(np.uint8)
    with pytest.raises(InvalidInput, match="a tree is damaged"):
        from_bytes(put_together(structure, arrays))


def categorical():
    """A file of trees that split by two of three columns, taken apart, and their state."""
    features = np.c_[RANDOM.normal(size=ROWS), np.arange(ROWS) % 5, np.arange(ROWS) % 3]
    model = HistGradientBoostingRegressor(categorical_features=[1, 2], max_iter=2).fit(features, Y * features[:, 1])
    return inner(to_bytes(model), "HistGradientBoostingRegressor")


@pytest.mark.parametrize(("field", "value"), [("bitset_idx", 2**32 - 1), ("bitset_idx", 4096), ("feature_idx", 2)])
def test_a_split_by_categories_that_are_not_there_is_refused(field, value):
    structure, arrays, _ = categorical()
    from_bytes(put_together(structure, arrays))
    name, nodes = next(
        (name, nodes)
        for name, array in arrays.items()
        if array.dtype == np.uint8 and array.size > TREE_NODES.itemsize and array.size % TREE_NODES.itemsize == 0
        if (nodes := array.view(TREE_NODES).copy())["is_categorical"].any()
    )
    nodes[field][np.argmax(nodes["is_categorical"])] = value
    arrays[name] = nodes.view(np.uint8)
    with pytest.raises(InvalidInput, match="a tree is damaged"):
        from_bytes(put_together(structure, arrays))


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({"_preprocessor": None}, {}),
        ({"_preprocessor": "text"}, {}),
        ({"_preprocessor": []}, {}),
        ({"_preprocessor": [{"array": "codes"}]}, {"codes": np.arange(3.0)}),
        ({"_preprocessor": [{"array": "codes"}, 1]}, {"codes": np.arange(3.0)}),
        ({"_preprocessor": [{"array": "codes"}, {"array": "codes"}]}, {"codes": np.arange(300.0)}),
        ({"_preprocessor": {"skops": "encoder"}}, {"encoder": OrdinalEncoder().fit([[1, 2]])}),
        ({"_preprocessor": {"skops": "encoder"}}, {"encoder": StandardScaler().fit([[1, 2]])}),
        ({"_preprocessor": {"skops": "encoder"}}, {"encoder": "one column"}),
        ({"is_categorical_": {"array": "flags"}}, {"flags": np.array([True, False, False])}),
        ({"is_categorical_": {"array": "flags"}}, {"flags": np.array([True, True, True])}),
        ({"is_categorical_": {"array": "flags"}}, {"flags": np.array([0, 1, 1], np.uint8)}),
        ({"is_categorical_": {"array": "flags"}}, {"flags": np.array([True, True])}),
        ({"is_categorical_": None}, {}),
    ],
)
def test_an_encoder_that_does_not_fit_the_trees_is_refused(change, more):
    """Nothing else checks how many columns the encoder gives to the compiled trees."""
    structure, arrays, state = categorical()
    for part in change:
        for each in state[part] if isinstance(state[part], list) else [state[part] or {}]:
            for name in each.values():
                arrays.pop(name)
    state.update(change)
    for name, value in more.items():
        if isinstance(value, str):  # as scikit-learn makes it, but for one column
            one = HistGradientBoostingRegressor(categorical_features=[0], max_iter=1).fit(
                np.eye(50)[:, :1], np.ones(50)
            )
            value = one._preprocessor.named_transformers_["encoder"]  # noqa: PLW2901
        arrays[name] = value if isinstance(value, np.ndarray) else np.frombuffer(to_skops(value, ""), np.uint8)
    with pytest.raises(InvalidInput, match="HistGradientBoostingRegressor: "):
        from_bytes(put_together(structure, arrays))


@pytest.mark.parametrize("codes", [[256.0], [-1.0], [0.5], [np.nan]])
def test_categories_beyond_their_sets_are_refused(codes):
    structure, arrays, state = categorical()
    name = state["_bin_mapper"]["object"][1]["bin_thresholds_"][0]["array"]
    arrays[name] = np.array(codes)
    with pytest.raises(InvalidInput, match="the categories of a column are damaged"):
        from_bytes(put_together(structure, arrays))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_is_refused(stored, name):
    data = stored[name]
    for length in [0, 1, 7, 8, 9, 100, *range(200, len(data) - 1, len(data) // 40), len(data) - 1]:
        with pytest.raises(InvalidInput):
            from_bytes(data[:length])
    with pytest.raises(InvalidInput):
        from_bytes(data + b"\0")


@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True), st.integers(0, 255))
def test_a_file_with_a_wrong_byte_is_refused_or_its_trees_are_sound(stored, name, where, byte):
    data = stored[name]
    place = int(where * len(data))
    try:
        model = from_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
    except InvalidInput:
        return
    if isinstance(model, BoostingRegressor):
        check_boosting(getattr(model.model_, "trees_", model.model_))
    try:
        assert len(SavedModel(model, {}).predict(TABLE)) == ROWS
    except InvalidInput:  # a column with another name, for instance
        return
