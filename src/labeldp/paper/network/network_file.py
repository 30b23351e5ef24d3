"""The network in a model file: its weights as arrays, checked against its columns when it is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from labeldp.errors import InvalidInput
from labeldp.learn.feature_columns import ColumnEncoder
from labeldp.learn.record_checks import all_are, exactly, is_a
from labeldp.learn.stored.codec import State, StoredType, add
from labeldp.learn.stored.estimators import estimator
from labeldp.paper.network.network_regressor import NetworkRegressor
from labeldp.paper.network.weights import Weights

FIELDS = ("loss", "embeddings", "offsets", "kernels", "biases", "center", "scale")


def _state(weights: Weights) -> State:
    return {name: getattr(weights, name) for name in FIELDS}


def _weights(state: State) -> Weights:
    loss, embeddings, offsets, kernels, biases, center, scale = exactly(state, *FIELDS)
    arrays = (embeddings, *all_are(kernels, np.ndarray, "kernels"))
    if loss not in {"squared", "poisson"} or any(array.dtype != np.float32 or array.ndim != 2 for array in arrays):
        raise InvalidInput("the layers are damaged")
    if offsets.dtype != np.int32 or offsets.ndim != 1 or (offsets < 0).any():
        raise InvalidInput("the offsets are damaged")
    widths = [kernel.shape[1] for kernel in kernels]
    inputs = [kernel.shape[0] for kernel in kernels]
    chained = widths[:-1] == inputs[1:] and widths[-1:] == [1] and min(inputs) > 0
    if not chained or [bias.shape for bias in all_are(biases, np.ndarray, "biases")] != [(width,) for width in widths]:
        raise InvalidInput("the layers do not fit each other")
    numbers = (float(is_a(number, int, float, what="a scale")) for number in (center, scale))
    return Weights(loss, embeddings, offsets, tuple(kernels), tuple(biases), *numbers)


def _check(model: Any) -> None:
    if not hasattr(model, "weights_"):
        return
    weights, sizes = model.weights_, np.asarray(model.encoder_.sizes, np.int64)
    if weights.offsets.shape != sizes.shape or (weights.offsets + sizes > len(weights.embeddings)).any():
        raise InvalidInput("the embeddings do not fit the columns")


add(
    StoredType("Weights", Weights, _state, _weights),
    estimator(
        NetworkRegressor,
        {"encoder_": (ColumnEncoder,), "scaler_": (Pipeline,), "weights_": (Weights,)},
        _check,
        fitted=("n_features_in_", "feature_names_in_", "loss_curve_", "validation_loss_curve_"),
    ),
)
