"""The file of a model: arrays as safetensors, and the model's structure as JSON in one more of them."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import sklearn
from safetensors import SafetensorError
from safetensors.numpy import load, save
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import InconsistentVersionWarning

from labeldp.central.sums_model import SumsModel
from labeldp.errors import InvalidInput
from labeldp.training.stored.kinds import NotStorable
from labeldp.training.stored.parts import Reader, Writer

LARGEST_FILE = 2 << 30
"""Larger models are neither saved nor loaded. Loading takes a small multiple of the file's size in memory, whatever it holds."""
STRUCTURE = "structure"


def to_bytes(model: Any) -> bytes:
    """The content of the file; `NotStorable` if the model holds something that only a pickle could hold."""
    if not _predicts(model):
        raise NotStorable(f"a {type(model).__name__} is no regressor")
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
    """The model of a file; `InvalidInput` if the file is damaged or holds anything that is not on our list."""
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
        raise InvalidInput(f"it holds no model that predicts, but a {type(model).__name__}")
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
    """Whether it is a regressor, with a prediction, or what `LabelDPRegressor` makes of noisy sums."""
    if isinstance(model, SumsModel):
        return True
    return isinstance(model, BaseEstimator) and is_regressor(model) and callable(getattr(model, "predict", None))
