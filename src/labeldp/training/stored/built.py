"""What an estimator that skops built must satisfy, and every estimator within it. skops looks at types and not at values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer

from labeldp.errors import InvalidInput

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
    """Every object within a model, the model first."""
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
