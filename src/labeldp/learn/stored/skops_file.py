"""scikit-learn estimators that our list does not name, in the format of skops.

skops builds only types that it trusts, and a few more that we trust (`TRUSTED`). Four things are stricter here: the packages of
scikit-learn (no compiled predictor that follows indices of the file), the kinds of nodes (no method, partial, operator or
constructor call), the archive (no larger in memory than on disk), and the values of what was built. skops is
imported only for such models, because its import takes 0.5 s, and 1.8 s where torch is installed, which it imports.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer

from labeldp.errors import InvalidInput
from labeldp.learn.stored.codec import NotStorable

PACKAGES = frozenset(
    {"compose", "cross_decomposition", "decomposition", "dummy", "feature_selection", "impute", "isotonic"}
    | {"kernel_approximation", "kernel_ridge", "linear_model", "pipeline", "preprocessing"}
    | {"random_projection"}
)
"""The packages of scikit-learn whose estimators predict with NumPy."""
COMPILED = frozenset(
    {"DictionaryLearning", "LatentDirichletAllocation", "MiniBatchDictionaryLearning", "MiniBatchNMF"}
    | {"NMF", "SparseCoder"}
)
"""Estimators of these packages that hand values of the file to compiled loops."""
NODES = frozenset(
    {"DictNode", "ListNode", "TupleNode", "SetNode", "JsonNode", "NdArrayNode", "ObjectNode", "TypeNode"}
    | {"FunctionNode", "SliceNode", "DTypeNode"}
)
"""The nodes of skops that a model may have. A slice (a `ColumnTransformer` notes the columns of its steps as such) holds whole numbers, and a dtype (of a `SimpleImputer`, for
instance) is that of an array: see `_check_slice` and `_check_dtype`."""
FUNCTIONS = frozenset(
    {"absolute", "arcsinh", "cbrt", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "negative"}
    | {"reciprocal", "sinh", "sqrt", "square", "tanh"}
)
"""Functions of NumPy that a model may name: of one number, with one number as their value."""
NUMBERS = frozenset({"bool", "bool_", "str_", "float16", "float32", "float64"}).union(
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
)
NAMES = {
    # Versions of NumPy differ in where its functions say they come from.
    "FunctionNode": {f"{home}.{name}" for home in ("numpy", "numpy._core._multiarray_umath") for name in FUNCTIONS},
    "NdArrayNode": {f"numpy.{name}" for name in NUMBERS | {"ndarray"}},
    "TypeNode": {f"builtins.{name}" for name in ("bool", "float", "int", "str")}.union(
        f"numpy.{name}" for name in NUMBERS | {"number", "object_"}
    ),
}
"""The only functions, arrays and types that nodes of these kinds may name."""
TRUSTED = {
    "numpy.dtype": "DTypeNode",
    "numpy.number": "TypeNode",
    "sklearn.compose._column_transformer.make_column_selector": "ObjectNode",
}
"""What skops does not trust by itself, and the only kind of node that may name each: none does more than hold values."""


def is_of_scikit_learn(value: object) -> bool:
    """Return whether a value is an estimator of scikit-learn itself."""
    return isinstance(value, BaseEstimator) and type(value).__module__.startswith("sklearn.")


def to_skops(model: Any, place: str) -> bytes:
    """Return the estimator as a file of skops; `NotStorable` if it could not be loaded again."""
    import skops.io

    try:
        data: bytes = skops.io.dumps(model, compression=zipfile.ZIP_STORED)
        from_skops(data)
    except Exception as error:
        raise NotStorable(f"{place} is a {type(model).__name__} that skops cannot hold safely ({error})") from error
    return data


def from_skops(data: bytes) -> Any:
    """Return the estimator of a file of skops, if all of it is trusted."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        check_archive(data, _check_node)
        model = skops.io.loads(data, trusted=list(TRUSTED))
        if not is_of_scikit_learn(model):
            raise InvalidInput(f"an estimator of scikit-learn was expected, not a {type(model).__name__}")
        check_built(model)
    except UntrustedTypesFoundException as error:
        raise InvalidInput(f"the model holds types that are not trusted: {error}") from error
    except InvalidInput:
        raise
    except Exception as error:  # zipfile, NumPy and skops may raise anything for a damaged file
        raise InvalidInput(f"the model is damaged: {error}") from error
    return model


def _check_node(node: dict[str, Any]) -> None:
    loader, module, name = (str(node.get(key)) for key in ("__loader__", "__module__", "__class__"))
    if loader not in NODES or TRUSTED.get(f"{module}.{name}", loader) != loader:
        raise InvalidInput(f"the model holds a {loader[:60]} of {module[:60]}.{name[:60]}, which is not on the list")
    if loader == "SliceNode":
        _check_slice(node)
    if loader == "DTypeNode":
        _check_dtype(node)
    if loader == "ObjectNode" and not _is_listed(module, name):
        raise InvalidInput(f"the model holds the type {module[:60]}.{name[:60]}, which is not on the list")
    if loader in NAMES and f"{module}.{name}" not in NAMES[loader]:
        raise InvalidInput(f"the model holds {module[:60]}.{name[:60]}, which is not on the list")


def _is_listed(module: str, name: str) -> bool:
    """Return whether estimators of that type may be in a model."""
    path = module.split(".")
    return path[0] == "sklearn" and len(path) > 1 and path[1] in PACKAGES and name not in COMPILED


def _check_slice(node: dict[str, Any]) -> None:
    """Refuse a slice of anything but whole numbers. skops does not look at what a slice holds."""
    content = node.get("content")
    if (
        (node.get("__module__"), node.get("__class__")) != ("builtins", "slice")
        or not isinstance(content, dict)
        or set(content) != {"start", "stop", "step"}
        or any(end is not None and type(end) is not int for end in content.values())
    ):
        raise InvalidInput("the model holds a slice that is not on the list: a slice holds whole numbers only")


def _check_dtype(node: dict[str, Any]) -> None:
    """Raise `InvalidInput` for a dtype of anything but an array. skops would take the attribute `dtype` of any object."""
    content = node.get("content")
    of = content.get("__loader__") if isinstance(content, dict) else None
    if (node.get("__module__"), node.get("__class__"), of) != ("numpy", "dtype", "NdArrayNode"):
        raise InvalidInput("the model holds a dtype that is not on the list: a dtype is that of an array")


PROTOCOL = 2
"""The version of the skops format that is read."""
INDEX = "schema.json"
Node = dict[str, Any]


def check_archive(data: bytes, check_node: Callable[[Node], None]) -> None:
    """Refuse a compressed archive, one whose files overlap, an index that `check_node` refuses, and arrays that it does not name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        plain = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not plain or sum(member.file_size for member in members) > len(data):
            raise InvalidInput("the archive is compressed or its files overlap")
        schema = json.loads(archive.read(INDEX))
        if not isinstance(schema, dict) or schema.get("protocol") != PROTOCOL:
            raise InvalidInput(f"the model is not of version {PROTOCOL} of the skops format")
        for node in _nodes(schema):
            check_node(node)
        _check_identities(
            schema, {member.filename: hashlib.sha256(archive.read(member)).digest() for member in members}
        )
        names = _arrays(schema)
        if sorted(member.filename for member in members) != sorted([INDEX, *names]):
            raise InvalidInput("the files of the archive do not match its index")
        for name in names:
            _check_array(archive.read(name))


def _nodes(part: Any) -> Iterator[Node]:
    """Yield every node of a schema, at any depth."""
    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__loader__" in part or "__class__" in part:
                yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _check_identities(schema: Node, digests: dict[str, bytes]) -> None:
    """Raise `InvalidInput` if one id represents two values in an index.

    If skops has seen the id of a node, it uses the first node with that id and ignores the rest of the new one. Files
    written by skops contain the whole value at each occurrence. If that holds everywhere, the model equals the file.
    Otherwise a short index can represent a model of any size, and a node can come from an unexpected part of the file.
    """
    forms: dict[Any, int] = {}
    known: dict[int, int] = {}

    def form(part: Any) -> int:
        """Return a number for the value that is written here. Equal values have the same number, also with different ids and files."""
        if isinstance(part, dict):
            file = part.get("file")
            values = {**part, "file": digests.get(file)} if isinstance(file, str) else part
            key: Any = (dict, *((name, form(value)) for name, value in values.items() if name != "__id__"))
        elif isinstance(part, list):
            key = (list, *map(form, part))
        else:
            key = (type(part), part)
        number = forms.setdefault(key, len(forms))
        if isinstance(part, dict) and "__id__" in part:
            identity = part["__id__"]
            if type(identity) is not int or known.setdefault(identity, number) != number:
                raise InvalidInput("the index of the archive is damaged: one id is used for two values")
        return number

    form(schema)


def _arrays(schema: Node) -> list[str]:
    """Return the files that the index names. skops reads a file once for each id that has it."""
    owners: dict[str, Any] = {}
    for node in _nodes(schema):
        if node.get("__loader__") == "NdArrayNode" and node.get("type") == "numpy":
            name, owner = node.get("file"), node.get("__id__")
            if not isinstance(name, str) or not owner or owners.setdefault(name, owner) != owner:
                raise InvalidInput("an array is damaged: it does not have its own file")
    return list(owners)


def _check_array(data: bytes) -> None:
    """Raise `InvalidInput` unless this is an array of plain values of the size it claims: NumPy would reserve memory for it."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    size = dtype.itemsize
    for side in shape:
        size *= side
    if dtype.hasobject or size != len(data) - stream.tell():
        raise InvalidInput("an array is damaged")


LARGEST = 1_000_000
"""A larger whole number is refused as an attribute: it could be a number of columns, steps or outputs that no array bears out."""
UNBOUNDED = frozenset(
    {"random_state", "n_samples_seen_", "max_iter", "subsample", "missing_values", "fill_value", "unknown_value"}
)
"""Whole numbers that may be larger: seeds, counts of training rows, limits of training, and values of the data."""


def check_built(model: Any) -> None:
    """Refuse an estimator with a value that scikit-learn would not have put there, and let none start processes."""
    estimators = [part for part in _parts(model) if isinstance(part, BaseEstimator)]
    for estimator in estimators:
        _check_attributes(estimator)
    for estimator in estimators:
        _check_parameters(estimator)


def _parts(model: Any) -> Iterator[Any]:
    """Yield every object within a model, the model first."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting.extend(part)
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple, set)) or (isinstance(part, np.ndarray) and part.dtype.hasobject):
            waiting.extend(part.flat if isinstance(part, np.ndarray) else part)
        elif type(part).__module__.startswith("sklearn."):
            waiting.extend(vars(part).values())


def _check_attributes(estimator: Any) -> None:
    kind, state = type(estimator), vars(estimator)
    parameters = set(kind._get_param_names())  # noqa: SLF001
    if missing := sorted(parameters - state.keys()):
        raise InvalidInput(f"the parameter {missing[0]} of {kind.__name__} is missing")
    for name, value in state.items():
        # An attribute of the object must not hide a method of its class.
        if not isinstance(name, str) or (name not in parameters and hasattr(kind, name)):
            raise InvalidInput(f"a {kind.__name__} cannot have an attribute {name!r:.60}")
        if isinstance(value, (int, np.integer)) and abs(int(value)) > LARGEST and name not in UNBOUNDED:
            raise InvalidInput(f"{name:.60} of {kind.__name__} is a number beyond {LARGEST:,}")
    if state.get("memory") is not None:  # a folder of pickles, which the next fit would load
        raise InvalidInput("an estimator with a cache (memory) cannot be stored: set memory=None")
    outputs = state.get("n_outputs_", 1)
    if not isinstance(outputs, (int, np.integer)) or outputs != 1:
        raise InvalidInput(f"n_outputs_ of {kind.__name__} is not 1: a model predicts one number for each row")


def _check_parameters(estimator: Any) -> None:
    if isinstance(estimator, FunctionTransformer) and (estimator.kw_args or estimator.inv_kw_args):
        raise InvalidInput("a FunctionTransformer with arguments for its function (kw_args) cannot be stored")
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()  # noqa: SLF001
    if hasattr(estimator, "n_jobs"):
        estimator.n_jobs = None
