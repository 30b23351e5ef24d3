"""The file of a model: its arrays as safetensors, and its structure as JSON in one more array.

A value without a JSON form is an object with one key, the name of its format. Loading builds only types that have an
entry (`codec`, `estimators`) or that skops may build (`skops_file`).
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import InconsistentVersionWarning

from labeldp.errors import InvalidInput
from labeldp.learn.class_rates import ClassRates
from labeldp.learn.classifier import LabelDPClassifier
from labeldp.learn.record_checks import all_are, is_a
from labeldp.learn.score_model import ScoreModel
from labeldp.learn.stored import estimators  # noqa: F401 - enters the types of estimators
from labeldp.learn.stored.codec import TREE_NODES, NotStorable, type_named, type_of
from labeldp.learn.stored.skops_file import from_skops, is_of_scikit_learn, to_skops
from labeldp.learn.sums.classes_model import ClassesModel
from labeldp.learn.sums.sums_model import SumsModel

Arrays = dict[str, NDArray[Any]]
FUNCTIONS = {"numpy.clip": np.clip}
"""The only functions that a model may refer to."""
SIMPLE = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"}
"""Types of numbers in arrays, as NumPy writes them without the byte order."""


class Writer:
    """Turns values into JSON and collects their arrays."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}

    def write(self, value: Any, place: str) -> Any:
        """Return the JSON of a value. `place` is its location in the model, for errors."""
        if _is_plain(value):
            return value
        if type(value) is list:
            return [self.write(item, f"{place}[{i}]") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [self.write(item, f"{place}[{i}]") for i, item in enumerate(value)]}
        if type(value) is dict and all(type(key) is str for key in value):
            return {"dict": {key: self.write(item, f"{place}[{key!r}]") for key, item in value.items()}}
        if type(value) is np.ndarray:
            return self._array(value, place)
        if isinstance(value, np.generic) and value.dtype.str[1:] in SIMPLE:
            return {"number": self._kept(np.asarray(value))}
        if isinstance(value, np.dtype) and (value.str[1:] in SIMPLE or value.kind == "O"):
            return {"dtype": value.str[1:]}
        for name, function in FUNCTIONS.items():
            if value is function:
                return {"function": name}
        return self._object(value, place)

    def _array(self, array: NDArray[Any], place: str) -> Any:
        if array.dtype == TREE_NODES:
            return {"nodes": self._kept(np.ascontiguousarray(array).view(np.uint8))}
        if array.dtype.str[1:] in SIMPLE:
            return {"array": self._kept(array)}
        if array.dtype.kind == "O" and array.ndim == 1 and all(map(_is_plain, array)):
            return {"objects": list(array)}
        if array.dtype.kind == "U" and array.ndim == 1:
            return {"texts": array.tolist()}
        raise NotStorable(f"{place} is an array of {array.dtype}")

    def _object(self, value: Any, place: str) -> Any:
        kind = type_of(value)
        if kind is not None:
            state = kind.state(value)
            return {"object": [kind.name, {name: self.write(part, f"{place}.{name}") for name, part in state.items()}]}
        if is_of_scikit_learn(value):
            return {"skops": self._kept(np.frombuffer(to_skops(value, place), np.uint8))}
        raise NotStorable(f"{place} is a {type(value).__module__}.{type(value).__qualname__}")

    def _kept(self, array: NDArray[Any]) -> str:
        name = str(len(self.arrays))
        self.arrays[name] = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False)).reshape(
            array.shape
        )
        return name


class Reader:
    """Builds values from JSON and arrays: only what `Writer` writes, and only types of the list."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = dict(arrays)

    def read(self, part: Any) -> Any:
        """Return the value that the JSON represents."""
        if _is_plain(part):
            return part
        if isinstance(part, list):
            return [self.read(item) for item in part]
        if not isinstance(part, dict) or len(part) != 1:
            raise InvalidInput(f"expected an object with one key, found {part!r:.60}")
        ((form, content),) = part.items()
        reader = getattr(self, f"_{form}", None) if form in FORMS else None
        if reader is None:
            raise InvalidInput(f"unknown form {form!r:.60}")
        return reader(content)

    def _tuple(self, items: Any) -> tuple[Any, ...]:
        return tuple(self.read(is_a(items, list, what="what a tuple holds")))

    def _dict(self, items: Any) -> dict[str, Any]:
        return {name: self.read(item) for name, item in is_a(items, dict, what="what a dict holds").items()}

    def _array(self, name: Any) -> NDArray[Any]:
        """Return the array of that name. Each is used once, so that a model is not larger than its file."""
        array = self.arrays.pop(is_a(name, str, what="the name of an array"), None)
        if array is None:
            raise InvalidInput(f"the array {name!r:.60} is missing, or two parts of the model refer to it")
        return np.array(array)

    def _number(self, name: Any) -> Any:
        array = self._array(name)
        if array.ndim:
            raise InvalidInput("a number has dimensions")
        return array[()]

    def _nodes(self, name: Any) -> NDArray[Any]:
        array = self._array(name)
        if array.dtype != np.uint8 or array.ndim != 1 or array.size % TREE_NODES.itemsize:
            raise InvalidInput("the nodes of a tree are damaged, or come from another version of scikit-learn")
        return array.view(TREE_NODES)

    def _objects(self, items: Any) -> NDArray[Any]:
        if not all(map(_is_plain, is_a(items, list, what="what an array holds"))):
            raise InvalidInput("an array of plain values holds something else")
        array = np.empty(len(items), object)
        array[:] = items
        return array

    def _texts(self, items: Any) -> NDArray[Any]:
        return np.array(all_are(items, str, "an array of text"), str)

    def _dtype(self, name: Any) -> np.dtype[Any]:
        if name not in SIMPLE | {"O"}:
            raise InvalidInput(f"unknown type of numbers {name!r:.60}")
        made: np.dtype[Any] = np.dtype(name)
        return made

    def _function(self, name: Any) -> Any:
        if not isinstance(name, str) or name not in FUNCTIONS:
            raise InvalidInput(f"the model refers to the function {name!r:.60}, which is not on the list")
        return FUNCTIONS[name]

    def _object(self, content: Any) -> Any:
        if not isinstance(content, list) or len(content) != 2:
            raise InvalidInput("an object is its type and its state")
        name, state = content
        kind = type_named(name)
        if kind is None:
            raise InvalidInput(f"the model holds the type {name!r:.60}, which is not on the list")
        try:
            return kind.build({part: self.read(value) for part, value in is_a(state, dict, what="the state").items()})
        except (AttributeError, KeyError, TypeError, IndexError, ArithmeticError, ValueError) as error:
            raise InvalidInput(f"{kind.name}: {error}") from error

    def _skops(self, name: Any) -> Any:
        return from_skops(self._array(name).tobytes())


FORMS = frozenset(
    {"tuple", "dict", "array", "number", "nodes", "objects", "texts", "dtype", "function", "object", "skops"}
)
"""The keys that specify how an object of the JSON is read."""


def _is_plain(value: object) -> bool:
    return value is None or type(value) in {bool, int, float, str}


LARGEST_FILE = 2 << 30
"""Larger models are neither saved nor loaded. Loading takes a small multiple of the file's size in memory, for any content."""
STRUCTURE = "structure"


def to_bytes(model: Any) -> bytes:
    """Return the content of the file; `NotStorable` if the model holds something that only a pickle could hold."""
    if not _predicts(model):
        raise NotStorable(f"a {type(model).__name__} is not a regressor")
    writer = Writer()
    structure = {"scikit-learn": sklearn.__version__, "model": writer.write(model, "model")}
    text = json.dumps(structure, ensure_ascii=False, separators=(",", ":")).encode()
    data: bytes = save({**writer.arrays, STRUCTURE: np.frombuffer(text, np.uint8)})
    if len(data) > LARGEST_FILE:
        raise InvalidInput(
            f"the model takes {len(data):,} bytes, more than the {LARGEST_FILE:,} that can be loaded again"
        )
    return data


def from_bytes(data: bytes) -> Any:
    """Return the model of a file; `InvalidInput` if the file is damaged or holds anything that is not on our list."""
    try:
        arrays = load(data)
        structure = json.loads(arrays.pop(STRUCTURE).tobytes())
        written = structure["scikit-learn"]
        reader = Reader(arrays)
        model = reader.read(structure["model"])
        predicts = _predicts(model)
    except InvalidInput:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidInput(f"it is damaged ({type(error).__name__}: {error!s:.200})") from error
    if reader.arrays:
        raise InvalidInput(f"it is damaged: no part of the model refers to the array {min(reader.arrays)!r:.60}")
    if not predicts:
        raise InvalidInput(f"it does not contain a model that predicts, but a {type(model).__name__}")
    if written != sklearn.__version__:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name=type(model).__name__,
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=f"{written!s:.20}",
            ),
            stacklevel=3,
        )
    return model


def _predicts(model: Any) -> bool:
    """Return whether it is a regressor, with a prediction, a label-private classifier, or what these make of private labels or noisy sums."""
    if isinstance(model, (SumsModel, ScoreModel, ClassesModel, ClassRates, LabelDPClassifier)):
        return True
    return isinstance(model, BaseEstimator) and is_regressor(model) and callable(getattr(model, "predict", None))
