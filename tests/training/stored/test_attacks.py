"""Files made to do harm are refused when they are loaded, and nothing that they name is called."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp import BoostingRegressor, ConditionalRegressor, Domain, InvalidInput, LabelRandomizer, Prior
from labeldp.paper.network import NetworkRegressor
from labeldp.training.boosting import Trees
from labeldp.training.stored.model_file import from_bytes, to_bytes
from labeldp.training.stored.other_estimators import from_skops
from labeldp.training.stored.tree_checks import TREE_NODES

ROWS = 300
RANDOM = np.random.default_rng(0)
TABLE = pa.table({"shop": RANDOM.choice(["a", "b"], ROWS), "price": RANDOM.normal(size=ROWS)})
Y = np.abs(RANDOM.normal(size=ROWS)) * 50 + 1
BOOSTING = to_bytes(BoostingRegressor().fit(TABLE, Y))
NETWORK = to_bytes(NetworkRegressor(epochs=1, random_state=0).fit(TABLE, Y))
PRIVATE = LabelRandomizer(2, (1, 400), loss="absolute", prior=Prior.uniform(Domain(1, 400, 50))).randomize(Y)
CONDITIONAL = to_bytes(ConditionalRegressor(None, PRIVATE.mechanism, "absolute").fit(TABLE, PRIVATE))
LINE = LinearRegression().fit([[0.0], [1.0]], [0.0, 10.0])


class Sentinel:
    """Leaves a trace when skops or anybody else makes one."""

    made = 0

    def __new__(cls, *_, **__):
        Sentinel.made += 1
        return super().__new__(cls)

    def __setstate__(self, state):
        Sentinel.made += 1

    def __call__(self, *_):
        Sentinel.made += 1


def touched(*_):
    Sentinel.made += 1


@pytest.fixture(autouse=True)
def nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Sentinel, "made", 0)
    yield
    assert Sentinel.made == 0
    assert list(tmp_path.iterdir()) == []


def taken_apart(data):
    arrays = load(data)
    return json.loads(arrays.pop("structure").tobytes()), arrays


def put_together(structure, arrays=None):
    text = json.dumps(structure).encode()
    return save({**(arrays or {}), "structure": np.frombuffer(text, np.uint8)})


def holding(part, arrays=None):
    """A whole file of this version that holds one value."""
    structure, _ = taken_apart(BOOSTING)
    return put_together(structure | {"model": part}, arrays)


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
        {"object": [f"{__name__}.Sentinel", {}]},
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


@pytest.mark.parametrize("part", [None, True, 3, "text", [], {"tuple": []}, {"dtype": "f8"}], ids=str)
def test_a_file_that_holds_no_model_is_refused(part):
    with pytest.raises(InvalidInput, match="holds no model that predicts"):
        from_bytes(holding(part))


def changed(data, change):
    """The file with one change to the state of its outermost object."""
    structure, arrays = taken_apart(data)
    change(structure["model"]["object"][1])
    return put_together(structure, arrays)


@pytest.mark.parametrize(
    ("data", "name", "value"),
    [
        (BOOSTING, "trees_", "text"),
        (BOOSTING, "trees_", {"object": ["Fraction", {"numerator": 1, "denominator": 2}]}),
        (BOOSTING, "encoder_", None),
        (BOOSTING, "predict", {"function": "numpy.clip"}),
        (BOOSTING, "fit", 1),
        (BOOSTING, "__class__", 1),
        (BOOSTING, "__dict__", {"dict": {}}),
        (BOOSTING, "not a name", 1),
        (BOOSTING, "n_features_in_", 3),
        (NETWORK, "weights_", {"dict": {}}),
        (NETWORK, "encoder_", "text"),
        (NETWORK, "scaler_", {"function": "numpy.clip"}),
        (CONDITIONAL, "location_", {"function": "numpy.clip"}),
        (CONDITIONAL, "loss", {"function": "numpy.clip"}),
        (CONDITIONAL, "mechanism", None),
        (CONDITIONAL, "level_", "1"),
        (CONDITIONAL, "scores_", [1]),
    ],
)
def test_a_listed_type_with_an_attribute_that_it_cannot_have_is_refused(data, name, value):
    from_bytes(data)
    with pytest.raises(InvalidInput):
        from_bytes(changed(data, lambda state: state.update({name: value})))


def inner(data, name):
    """The file taken apart, and the state of the first object of that type in it."""
    structure, arrays = taken_apart(data)
    waiting = [structure["model"]]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, dict) and part.get("object", [None])[0] == name:
            return structure, arrays, part["object"][1]
        waiting.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
    raise AssertionError(f"no {name}")


@pytest.mark.parametrize("attribute", ["_in_fit", "more_"])
@pytest.mark.parametrize(
    "name",
    ["Trees", "TreePredictor", "_BinMapper", "LinearStart", "Pipeline", "StandardScaler", "SimpleImputer", "RidgeCV"],
)
def test_an_attribute_that_no_fitted_object_has_is_refused(name, attribute):
    """With `_in_fit`, scikit-learn predicts without a look at the features, and a tree could read beyond them."""
    data = to_bytes(make_pipeline(StandardScaler(), LINE).fit([[0.0], [1.0]], [0.0, 1.0]))
    structure, arrays, state = inner(data if name == "StandardScaler" else BOOSTING, name)
    from_bytes(put_together(structure, arrays))
    state[attribute] = True
    with pytest.raises(InvalidInput, match=rf"{name}: it cannot have an attribute '{attribute}'"):
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
        {"kw_args": {"dict": {"a_min": 0, "a_max": {"array": "0"}}}},
        {"func": None},
        {"inverse_func": {"function": "numpy.clip"}},
        {"inv_kw_args": {"dict": {"dtype": 1}}},
    ],
    ids=str,
)
def test_a_function_with_other_arguments_than_ours_is_refused(change):
    structure, arrays, state = inner(BOOSTING, "FunctionTransformer")
    state.update(change)
    with pytest.raises(InvalidInput, match="FunctionTransformer: a FunctionTransformer can be stored"):
        from_bytes(put_together(structure, arrays))


def test_a_parameter_that_is_missing_is_refused():
    with pytest.raises(InvalidInput, match="share"):
        from_bytes(changed(BOOSTING, lambda state: state.pop("share")))


def test_a_cache_of_pickles_is_refused():
    data = to_bytes(make_pipeline(StandardScaler(), LINE).fit([[0.0], [1.0]], [0.0, 1.0]))
    with pytest.raises(InvalidInput, match="cache"):
        from_bytes(changed(data, lambda state: state.update(memory="elsewhere")))


@pytest.mark.parametrize("step", [True, 3, [], {"function": "numpy.clip"}], ids=str)
def test_a_step_that_is_no_estimator_is_refused(step):
    data = to_bytes(make_pipeline(StandardScaler(), LINE).fit([[0.0], [1.0]], [0.0, 1.0]))
    steps = [{"tuple": ["scaler", step]}]
    with pytest.raises(InvalidInput, match="no estimator"):
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
def test_a_tree_that_leads_out_of_its_arrays_is_refused(field, value):
    structure, arrays = taken_apart(BOOSTING)
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


@pytest.mark.parametrize("data", [BOOSTING, NETWORK, CONDITIONAL], ids=["boosting", "network", "conditional"])
def test_a_file_that_was_cut_is_refused(data):
    for length in [0, 1, 7, 8, 9, 100, *range(200, len(data) - 1, len(data) // 40), len(data) - 1]:
        with pytest.raises(InvalidInput):
            from_bytes(data[:length])
    with pytest.raises(InvalidInput):
        from_bytes(data + b"\0")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([BOOSTING, NETWORK, CONDITIONAL]), st.floats(0, 1, exclude_max=True), st.integers(0, 255))
def test_a_file_with_a_wrong_byte_is_refused_or_predicts_in_its_own_memory(data, where, byte):
    place = int(where * len(data))
    try:
        model = from_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
    except InvalidInput:
        return
    try:
        assert len(model.predict(TABLE)) == ROWS
    except (ValueError, TypeError, AttributeError, KeyError):  # of Python: a column with another name, for instance
        return


def archive(change=lambda schema: None, compression=zipfile.ZIP_STORED, **files):
    """A file of skops for a line, with its index changed and files added."""
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(LINE))) as source:
        content = {name: source.read(name) for name in source.namelist()}
    schema = json.loads(content.pop("schema.json"))
    change(schema)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as made:
        made.writestr("schema.json", json.dumps(schema))
        for name, data in {**content, **files}.items():
            made.writestr(name, data)
    return buffer.getvalue()


def node(module, name, loader, **more):
    return {"__module__": module, "__class__": name, "__loader__": loader, **more}


def plain(value):
    return node("builtins", "str", "JsonNode", content=json.dumps(value), is_json=True)


ARGUMENTS = node("builtins", "tuple", "TupleNode", content=[plain("touch sentinel")])
SYSTEM = node("os", "system", "FunctionNode")
NO_KEYS = {"key_types": node("builtins", "list", "ListNode", content=[])}
EMPTY = node("builtins", "dict", "DictNode", content={}, **NO_KEYS)
SELECTOR = ("sklearn.compose._column_transformer", "make_column_selector")


def sliced(start=None, stop=None, step=None, **more):
    return node("builtins", "slice", "SliceNode", content={"start": start, "stop": stop, "step": step} | more)


ATTACKS = {
    "os.system": SYSTEM,
    "os.system as a type": node("os", "system", "TypeNode"),
    "a function of a module": node(__name__, "touched", "FunctionNode"),
    "functools.partial": node(
        "functools",
        "partial",
        "PartialNode",
        content={"func": SYSTEM, "args": ARGUMENTS, "kwds": EMPTY, "namespace": EMPTY},
    ),
    "a call of a constructor": node("subprocess", "Popen", "ConstructorFromReduceNode", content=ARGUMENTS),
    "a class of the user": node(__name__, "Sentinel", "ObjectNode", content=EMPTY),
    "a class of the user, called": node(__name__, "Sentinel", "ConstructorFromReduceNode", content=ARGUMENTS),
    "a class as a dict": node(__name__, "Sentinel", "DictNode", content={}, **NO_KEYS),
    "a class as a list": node(__name__, "Sentinel", "ListNode", content=[]),
    "a class as an array": node(__name__, "Sentinel", "NdArrayNode", type="numpy", file="a.npy"),
    "a method": node(
        "sklearn.linear_model._base", "LinearRegression", "MethodNode", content={"func": "fit", "obj": EMPTY}
    ),
    "operator.methodcaller": node("operator", "methodcaller", "OperatorFuncNode", attrs=ARGUMENTS),
    "an unknown node": node("os", "system", "LambdaNode"),
    "a loss that calls": node("os", "system", "LossNode", content=EMPTY, __reduce__={"args": ARGUMENTS}),
    "a random generator": node("numpy.random", "Generator", "RandomGeneratorNode", content={}),
    "a tree": node("sklearn.tree._tree", "Tree", "TreeNode", content=EMPTY, __reduce__={"args": ARGUMENTS}),
    "support vectors": node("sklearn.svm._classes", "SVR", "ObjectNode", content=EMPTY),
    "a slice that holds a function": sliced(SYSTEM),
    "a slice that holds a plain node": sliced(0, plain(3)),
    "a slice that holds a text": sliced(0, "3"),
    "a slice that holds a list": sliced(0, 3, [1]),
    "a slice that holds a float": sliced(0.5),
    "a slice that holds a truth value": sliced(stop=True),
    "a slice that holds more": sliced(other=3),
    "a slice without an end": node("builtins", "slice", "SliceNode", content={"start": 0, "step": 1}),
    "a slice without content": node("builtins", "slice", "SliceNode", content=None),
    "another type as a slice": node("os", "system", "SliceNode", content={"start": 0, "stop": 1, "step": 1}),
    "a dtype of an object": node("numpy", "dtype", "DTypeNode", content=node(__name__, "Sentinel", "ObjectNode")),
    "a dtype of an estimator": node(
        "numpy", "dtype", "DTypeNode", content=node("sklearn.linear_model._base", "LinearRegression", "ObjectNode")
    ),
    "a dtype of a list": node("numpy", "dtype", "DTypeNode", content=node("builtins", "list", "ListNode", content=[])),
    "a dtype without content": node("numpy", "dtype", "DTypeNode", content="f8"),
    "another type as a dtype": node(
        "os", "system", "DTypeNode", content=node("numpy", "ndarray", "NdArrayNode", type="numpy", file="a.npy")
    ),
    "a dtype that is called": node("numpy", "dtype", "ListNode", content=[plain("f8")]),
    "a dtype as a function": node("numpy", "dtype", "FunctionNode"),
    "a selector that is called": node(*SELECTOR, "ListNode", content=[]),
    "a selector as a function": node(*SELECTOR, "FunctionNode"),
    "a selector that holds a function": node(
        *SELECTOR,
        "ObjectNode",
        content=node(
            "builtins",
            "dict",
            "DictNode",
            content={"pattern": SYSTEM},
            key_types=node("builtins", "list", "ListNode", content=[node("builtins", "str", "TypeNode")]),
        ),
    ),
    "our own type": node("labeldp.training.boosting", "Trees", "ObjectNode", content=EMPTY),
}


def small_array():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(2))
    return buffer.getvalue()


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_skops_builds_nothing_that_is_not_trusted(attack):
    assert type(from_skops(archive())) is LinearRegression
    files = {"a.npy": small_array()}

    def whole(schema):
        kept = {"protocol": schema["protocol"]}
        schema.clear()
        schema.update(attack | kept)

    def inside(schema):
        schema["content"]["content"]["coef_"] = attack

    for change in (whole, inside):
        data = archive(change, **files)
        with pytest.raises(InvalidInput, match=r"not on the list|not trusted"):
            from_skops(data)
        with pytest.raises(InvalidInput, match=r"not on the list|not trusted"):
            from_bytes(holding({"skops": "a"}, {"a": np.frombuffer(data, np.uint8)}))


def test_slices_and_dtypes_of_plain_values_are_built():
    """The attacks above differ from these in what they hold."""
    array = node("numpy", "ndarray", "NdArrayNode", type="numpy", file="a.npy")
    for good, value in (
        (sliced(0, 3), slice(0, 3)),
        (sliced(-1, None, 2), slice(-1, None, 2)),
        (node("numpy", "dtype", "DTypeNode", content=array), np.dtype("f8")),
    ):
        data = archive(
            lambda schema, good=good: schema["content"]["content"].update(coef_=good), **{"a.npy": small_array()}
        )
        assert from_skops(data).coef_ == value


def test_skops_reads_one_version_of_its_format():
    for protocol in (0, 1, 3, True, "2", None):
        with pytest.raises(InvalidInput, match="version 2"):
            from_skops(archive(lambda schema, protocol=protocol: schema.update(protocol=protocol)))


def test_an_archive_that_grows_is_refused():
    bomb = archive(compression=zipfile.ZIP_DEFLATED, **{"bomb.npy": bytes(10_000_000)})
    assert len(bomb) < 100_000
    with pytest.raises(InvalidInput, match="compressed"):
        from_skops(bomb)


def test_files_of_an_archive_that_overlap_are_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("big", bytes(10_000))
        made.filelist.extend([made.filelist[0]] * 20)  # the index names one file many times
    with pytest.raises(InvalidInput, match="overlap"):
        from_skops(buffer.getvalue())


def test_an_array_that_claims_to_be_huge_is_refused():
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with pytest.raises(InvalidInput, match="array is damaged"):
        from_skops(archive(**{"a.npy": header.getvalue()}))


def test_a_cache_of_pickles_within_skops_is_refused():
    data = archive(lambda schema: schema["content"]["content"].update(memory=plain("elsewhere")))
    with pytest.raises(InvalidInput, match="cache"):
        from_skops(data)


def test_an_archive_that_was_cut_is_refused():
    data = archive()
    for length in range(0, len(data), len(data) // 40):
        with pytest.raises(InvalidInput):
            from_skops(data[:length])
    for junk in (b"", b"PK", bytes(1000), b"\x80\x04N."):
        with pytest.raises(InvalidInput):
            from_skops(junk)
