"""scikit-learn estimators that our list does not name, in the format of skops.

skops builds only types that it trusts, and a few more that we trust (`TRUSTED`). Three things are stricter here: the packages of scikit-learn (no compiled predictor
that follows indices of the file), the kinds of nodes (no method, partial, operator or constructor call), and the archive (not
compressed, so that it is no larger in memory than on disk). skops is imported only for such models, because its import
takes 0.5 s, and 1.8 s where torch is installed, which it imports.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from labeldp.errors import InvalidInput
from labeldp.training.stored.kinds import NotStorable

PACKAGES = frozenset(
    {
        "compose",
        "cross_decomposition",
        "decomposition",
        "dummy",
        "feature_selection",
        "gaussian_process",
        "impute",
        "isotonic",
        "kernel_approximation",
        "kernel_ridge",
        "linear_model",
        "model_selection",
        "neural_network",
        "pipeline",
        "preprocessing",
        "random_projection",
    }
)
"""The packages of scikit-learn whose estimators predict with NumPy."""
NODES = frozenset(
    {
        "DictNode",
        "ListNode",
        "TupleNode",
        "SetNode",
        "JsonNode",
        "NdArrayNode",
        "ObjectNode",
        "TypeNode",
        "FunctionNode",
        "SliceNode",
        "DTypeNode",
    }
)
"""The nodes of skops that a model may have. Functions must be ufuncs of NumPy or SciPy, which is what skops trusts. A slice (a
`ColumnTransformer` notes the columns of its steps as such) holds whole numbers, and a dtype (of a `SimpleImputer`, for
instance) is that of an array: see `_check_slice` and `_check_dtype`."""
TRUSTED = {
    "numpy.dtype": "DTypeNode",
    "numpy.number": "TypeNode",
    "sklearn.compose._column_transformer.make_column_selector": "ObjectNode",
}
"""What skops does not trust by itself, and the only kind of node that may name each: none does more than hold values."""
PROTOCOL = 2
"""The version of the skops format that is read."""


def is_of_scikit_learn(value: object) -> bool:
    """Whether a value is an estimator of scikit-learn itself."""
    return isinstance(value, BaseEstimator) and type(value).__module__.startswith("sklearn.")


def to_skops(model: Any, place: str) -> bytes:
    """The estimator as a file of skops; `NotStorable` if it could not be loaded again."""
    import skops.io

    try:
        data: bytes = skops.io.dumps(model, compression=zipfile.ZIP_STORED)
        from_skops(data)
    except Exception as error:
        raise NotStorable(f"{place} is a {type(model).__name__} that skops cannot hold safely ({error})") from error
    return data


def from_skops(data: bytes) -> Any:
    """The estimator of a file of skops, if all of it is trusted."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        _check_archive(data)
        model = skops.io.loads(data, trusted=list(TRUSTED))
    except UntrustedTypesFoundException as error:
        raise InvalidInput(f"the model holds types that are not trusted: {error}") from error
    except InvalidInput:
        raise
    except Exception as error:  # whatever a damaged file makes zipfile, NumPy or skops say
        raise InvalidInput(f"the model is damaged: {error}") from error
    if not is_of_scikit_learn(model):
        raise InvalidInput(f"an estimator of scikit-learn was expected, not a {type(model).__name__}")
    return model


def _check_archive(data: bytes) -> None:
    """Refuse a compressed archive, one whose files overlap, and whatever its index names beyond our list."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        plain = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not plain or sum(member.file_size for member in members) > len(data):
            raise InvalidInput("the archive is compressed or its files overlap")
        for member in members:
            if member.filename.endswith(".npy"):
                _check_array(archive.read(member))
        schema = json.loads(archive.read("schema.json"))
    if not isinstance(schema, dict) or schema.get("protocol") != PROTOCOL:
        raise InvalidInput(f"the model is not of version {PROTOCOL} of the skops format")
    for node in _nodes(schema):
        _check_node(node)


def _check_array(data: bytes) -> None:
    """Refuse an array that claims another size than it has: NumPy would reserve memory for it."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    size = dtype.itemsize
    for side in shape:
        size *= side
    if dtype.hasobject or size != len(data) - stream.tell():
        raise InvalidInput("an array is damaged")


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    """Every node of a schema, at any depth."""
    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__loader__" in part or "__class__" in part:
                yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _check_node(node: dict[str, Any]) -> None:
    loader, module, name = (str(node.get(key)) for key in ("__loader__", "__module__", "__class__"))
    if loader not in NODES or TRUSTED.get(f"{module}.{name}", loader) != loader:
        raise InvalidInput(f"the model holds a {loader[:60]} of {module[:60]}.{name[:60]}, which is not on the list")
    if loader == "SliceNode":
        _check_slice(node)
    if loader == "DTypeNode":
        _check_dtype(node)
    if loader != "ObjectNode":
        return
    path = module.split(".")
    if path[0] != "sklearn" or len(path) < 2 or path[1] not in PACKAGES:
        raise InvalidInput(f"the model holds the type {module[:60]}.{name[:60]}, which is not on the list")
    content = node.get("content")
    attributes = content.get("content") if isinstance(content, dict) else None
    memory = attributes.get("memory") if isinstance(attributes, dict) else None
    if (
        isinstance(memory, dict) and memory.get("content") != "null"
    ):  # a folder of pickles, which the next fit would load
        raise InvalidInput("an estimator with a cache (memory) cannot be stored: set memory=None")


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
    """Refuse a dtype of anything but an array. skops would take the attribute `dtype` of whatever it holds."""
    content = node.get("content")
    of = content.get("__loader__") if isinstance(content, dict) else None
    if (node.get("__module__"), node.get("__class__"), of) != ("numpy", "dtype", "NdArrayNode"):
        raise InvalidInput("the model holds a dtype that is not on the list: a dtype is that of an array")
