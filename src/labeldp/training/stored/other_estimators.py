"""scikit-learn estimators that our list does not name, in the format of skops.

skops builds only types that it trusts, and a few more that we trust (`TRUSTED`). Four things are stricter here: the packages of
scikit-learn (no compiled predictor that follows indices of the file), the kinds of nodes (no method, partial, operator or
constructor call), the archive (`archive`: no larger in memory than on disk), and the values of what was built (`built`). skops is
imported only for such models, because its import takes 0.5 s, and 1.8 s where torch is installed, which it imports.
"""

from __future__ import annotations

import zipfile
from typing import Any

from sklearn.base import BaseEstimator

from labeldp.errors import InvalidInput
from labeldp.training.stored.archive import check_archive
from labeldp.training.stored.built import check_built
from labeldp.training.stored.kinds import NotStorable

PACKAGES = frozenset(
    {
        "compose",
        "cross_decomposition",
        "decomposition",
        "dummy",
        "feature_selection",
        "impute",
        "isotonic",
        "kernel_approximation",
        "kernel_ridge",
        "linear_model",
        "pipeline",
        "preprocessing",
        "random_projection",
    }
)
"""The packages of scikit-learn whose estimators predict with NumPy."""
COMPILED = frozenset(
    {
        "DictionaryLearning",
        "LatentDirichletAllocation",
        "MiniBatchDictionaryLearning",
        "MiniBatchNMF",
        "NMF",
        "SparseCoder",
    }
)
"""Estimators of these packages that hand values of the file to compiled loops."""
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
"""The nodes of skops that a model may have. A slice (a `ColumnTransformer` notes the columns of its steps as such) holds whole numbers, and a dtype (of a `SimpleImputer`, for
instance) is that of an array: see `_check_slice` and `_check_dtype`."""
FUNCTIONS = frozenset(
    {
        "absolute",
        "arcsinh",
        "cbrt",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log10",
        "log1p",
        "log2",
        "negative",
        "reciprocal",
        "sinh",
        "sqrt",
        "square",
        "tanh",
    }
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
        check_archive(data, _check_node)
        model = skops.io.loads(data, trusted=list(TRUSTED))
        if not is_of_scikit_learn(model):
            raise InvalidInput(f"an estimator of scikit-learn was expected, not a {type(model).__name__}")
        check_built(model)
    except UntrustedTypesFoundException as error:
        raise InvalidInput(f"the model holds types that are not trusted: {error}") from error
    except InvalidInput:
        raise
    except Exception as error:  # whatever a damaged file makes zipfile, NumPy or skops say
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
    """Whether estimators of that type may be in a model."""
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
    """Refuse a dtype of anything but an array. skops would take the attribute `dtype` of whatever it holds."""
    content = node.get("content")
    of = content.get("__loader__") if isinstance(content, dict) else None
    if (node.get("__module__"), node.get("__class__"), of) != ("numpy", "dtype", "NdArrayNode"):
        raise InvalidInput("the model holds a dtype that is not on the list: a dtype is that of an array")
