"""Files of skops made to do harm are refused when they are loaded, and nothing that they name is called."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
import sklearn
from crafted import LINE, archive, array, as_file, attributes, holding, node, nothing_is_run, plain  # noqa: F401 - a fixture
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, PolynomialFeatures, StandardScaler

from labeldp import InvalidInput
from labeldp.learn.stored.model_file import from_bytes
from labeldp.learn.stored.skops_file import from_skops

ARGUMENTS = node("builtins", "tuple", "TupleNode", content=[plain("touch sentinel")])
SYSTEM = node("os", "system", "FunctionNode")
NO_KEYS = {"key_types": node("builtins", "list", "ListNode", content=[])}
VERSION = {"_sklearn_version": sklearn.__version__}
EMPTY = node("builtins", "dict", "DictNode", content={}, **NO_KEYS)
SELECTOR = ("sklearn.compose._column_transformer", "make_column_selector")


def sliced(start=None, stop=None, step=None, **more):
    return node("builtins", "slice", "SliceNode", content={"start": start, "stop": stop, "step": step} | more)


ATTACKS = {
    "os.system": SYSTEM,
    "os.system as a type": node("os", "system", "TypeNode"),
    "a function of a module": node("crafted", "touched", "FunctionNode"),
    "functools.partial": node(
        "functools",
        "partial",
        "PartialNode",
        content={"func": SYSTEM, "args": ARGUMENTS, "kwds": EMPTY, "namespace": EMPTY},
    ),
    "a call of a constructor": node("subprocess", "Popen", "ConstructorFromReduceNode", content=ARGUMENTS),
    "a class of the user": node("crafted", "Sentinel", "ObjectNode", content=EMPTY),
    "a class of the user, called": node("crafted", "Sentinel", "ConstructorFromReduceNode", content=ARGUMENTS),
    "a class as a dict": node("crafted", "Sentinel", "DictNode", content={}, **NO_KEYS),
    "a class as a list": node("crafted", "Sentinel", "ListNode", content=[]),
    "a class as an array": array() | {"__module__": "crafted", "__class__": "Sentinel"},
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
    "a dtype of an object": node("numpy", "dtype", "DTypeNode", content=node("crafted", "Sentinel", "ObjectNode")),
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
    "our own type": node("labeldp.learn.learners", "Trees", "ObjectNode", content=EMPTY),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_skops_builds_nothing_that_is_not_trusted(attack):
    assert type(from_skops(archive())) is LinearRegression
    files = {"a.npy": as_file(np.zeros(2))} if "a.npy" in json.dumps(attack) else {}

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
    for good, value, files in (
        (sliced(0, 3), slice(0, 3), {}),
        (sliced(-1, None, 2), slice(-1, None, 2), {}),
        (
            node("numpy", "dtype", "DTypeNode", content=array()),
            np.dtype("f8"),
            {"a.npy": as_file(np.zeros(2))},
        ),
    ):
        data = archive(lambda schema, good=good: attributes(schema, coef_=good), **files)
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


def with_array(data, name="a.npy"):
    """A file of skops in which an attribute is an array of these bytes."""
    return archive(lambda schema: attributes(schema, coef_=array(name)), **{name: data})


def test_an_array_that_claims_to_be_huge_is_refused():
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with pytest.raises(InvalidInput, match="array is damaged"):
        from_skops(with_array(header.getvalue()))


def test_an_array_of_objects_is_refused():
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": (2,)})
    with pytest.raises(InvalidInput, match="array is damaged"):
        from_skops(with_array(header.getvalue() + bytes(16)))


def test_an_archive_in_place_of_an_array_is_refused():
    """NumPy would open it, whatever its name, and unpack it when somebody looks."""
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_BZIP2) as made:
        made.writestr("a.npy", as_file(np.zeros(1_000_000)))
    for name in ("a.npy", "a"):
        with pytest.raises(InvalidInput, match="magic"):
            from_skops(with_array(bomb.getvalue(), name))


def test_a_file_that_the_index_does_not_name_is_refused():
    for name in ("more.npy", "more", "a/../more.npy"):
        with pytest.raises(InvalidInput, match="do not match its index"):
            from_skops(archive(**{name: as_file(np.zeros(2))}))


def test_a_file_that_is_read_more_than_once_is_refused():
    for second in (8, None):
        parts = node("builtins", "list", "ListNode", content=[array(), array(__id__=second)])
        data = archive(lambda schema, parts=parts: attributes(schema, coef_=parts), **{"a.npy": as_file(np.zeros(2))})
        with pytest.raises(InvalidInput, match=r"does not have its own file|one id is used"):
            from_skops(data)


def test_a_short_index_that_stands_for_a_large_model_is_refused():
    """Each list holds the one before it twice, the second time by its id: 2^44 values."""
    part = node("builtins", "list", "ListNode", content=[], __id__=1)
    for number in range(2, 45):
        again = node("builtins", "list", "ListNode", content=[], __id__=number - 1)
        part = node("builtins", "list", "ListNode", content=[part, again], __id__=number)
    with pytest.raises(InvalidInput, match="one id is used for two values"):
        from_skops(archive(lambda schema: attributes(schema, more_=part)))


@pytest.mark.parametrize("name", ["more_", "file", "__id__"])
def test_an_id_cannot_bring_a_node_to_another_place(name):
    """In whatever attribute the node hides."""
    hidden = node("builtins", "list", "ListNode", content=[plain("hidden")], __id__=1)
    again = node("builtins", "list", "ListNode", content=[], __id__=1)
    with pytest.raises(InvalidInput, match="one id is used for two values"):
        from_skops(archive(lambda schema: attributes(schema, **{name: hidden, "coef_": again})))


def test_a_value_that_is_written_twice_is_read_once():
    data = archive(lambda schema: attributes(schema, coef_=array(), more_=array()), **{"a.npy": as_file(np.ones(2))})
    model = from_skops(data)
    assert model.coef_ is model.more_


@pytest.mark.parametrize("as_json", [False, True])
def test_a_cache_of_pickles_within_skops_is_refused(as_json):
    """Also where no node has its name."""
    model = TransformedTargetRegressor(make_pipeline(StandardScaler(), Ridge())).fit([[0.0], [1.0]], [0.0, 1.0])

    def cached(schema):
        pipeline = schema["content"]["content"]["regressor"]
        attributes(pipeline, memory=plain("elsewhere"))
        if as_json:
            state = {"steps": [], "memory": "elsewhere", "transform_input": None, "verbose": False}
            pipeline["content"] = plain(state | VERSION)

    from_skops(archive(model=model))
    with pytest.raises(InvalidInput, match="cache"):
        from_skops(archive(cached, model=model))


POWERS = make_pipeline(PolynomialFeatures(2), Ridge()).fit([[0.0], [1.0]], [0.0, 1.0])
CONSTANT = DummyRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
SCALED = FeatureUnion([("a", StandardScaler()), ("b", MinMaxScaler())], n_jobs=2).fit([[0.0], [1.0]])


@pytest.mark.parametrize(
    ("model", "name", "value", "message"),
    [
        (LINE, "predict", node("builtins", "str", "TypeNode"), "cannot have an attribute 'predict'"),
        (LINE, "predict", node("builtins", "map", "TypeNode"), "not on the list"),
        (LINE, "get_params", plain(1), "cannot have an attribute 'get_params'"),
        (LINE, "_validate_params", node("numpy", "exp", "FunctionNode"), "cannot have an attribute '_validate_params'"),
        (LINE, "coef_", node("numpy", "add", "FunctionNode"), "not on the list"),
        (LINE, "coef_", node("scipy.special._ufuncs", "expit", "FunctionNode"), "not on the list"),
        (LINE, "fit_intercept", plain("yes"), "fit_intercept"),
        (LINE, "rank_", plain(10**7), "beyond 1,000,000"),
        (POWERS[0], "_max_degree", plain(10**12), "beyond 1,000,000"),
        (CONSTANT, "n_outputs_", plain(2), "n_outputs_"),
        (CONSTANT, "n_outputs_", plain("2"), "n_outputs_"),
        (FunctionTransformer(np.exp), "kw_args", plain({"where": False}), "kw_args"),
        (FunctionTransformer(np.exp), "inv_kw_args", plain({"where": False}), "kw_args"),
    ],
)
def test_a_value_that_scikit_learn_would_not_have_put_there_is_refused(model, name, value, message):
    from_skops(archive(model=model))
    with pytest.raises(InvalidInput, match=message):
        from_skops(archive(lambda schema: attributes(schema, **{name: value}), model=model))


def test_a_scalar_of_another_type_than_a_number_is_refused():
    """`numpy.void` of a number makes so many bytes."""
    number = array() | {"__class__": "void"}
    with pytest.raises(InvalidInput, match="not on the list"):
        from_skops(archive(lambda schema: attributes(schema, rank_=number), **{"a.npy": as_file(np.array(10**9))}))


def test_a_parameter_that_is_missing_within_skops_is_refused():
    with pytest.raises(InvalidInput, match="is missing"):
        from_skops(archive(lambda schema: schema.update(content=plain({"coef_": [1.0]} | VERSION))))


def test_a_loaded_model_starts_no_processes():
    assert from_skops(archive(model=SCALED)).n_jobs is None


def test_an_archive_that_was_cut_is_refused():
    data = archive()
    for length in range(0, len(data), len(data) // 40):
        with pytest.raises(InvalidInput):
            from_skops(data[:length])
    for junk in (b"", b"PK", bytes(1000), b"\x80\x04N."):
        with pytest.raises(InvalidInput):
            from_skops(junk)
