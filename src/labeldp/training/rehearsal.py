"""A trial fit on made-up targets before a release is charged, so that a model that cannot work costs nothing."""

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.metadata_routing import MetadataRequest, MetadataRouter
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.features.tables import FeatureTable
from labeldp.training.boosting import BoostingRegressor
from labeldp.training.scikit_words import without_values

REHEARSAL_ROWS = 500
FIT_PARAMETERS = (
    "sample_weight",
    "groups",
    "categorical_feature",
    "cat_features",
    "feature_name",
    "batch_size",
    "epochs",
    "check_input",
    "verbose",
)
"""Parameters of an estimator's `fit` that have no use for labels, in scikit-learn, LightGBM, XGBoost, CatBoost and Keras."""


def check_fit_parameters(inner: dict[str, Any]) -> None:
    """Raise `InvalidInput` for a parameter of `fit` through which true labels could reach the estimator.

    Validation labels (`y_val`, `eval_set`) end up in the scores that an estimator keeps, and a score of one record reveals its
    label. Estimators name such parameters as they like, so only known names are accepted. A pipeline prefixes them with a step.
    """
    names = [name for name, value in inner.items() if value is not None]
    _refuse([name for name in names if name.rpartition("__")[2] not in FIT_PARAMETERS])


def check_routing(routing: MetadataRequest | MetadataRouter) -> None:
    """Raise `InvalidInput` if an estimator requests a parameter that `check_fit_parameters` refuses under an accepted name.

    A step of a pipeline may request `y_val` as `groups` (`set_fit_request(y_val="groups")`). The pipeline renames it after our check.
    """
    if isinstance(routing, MetadataRouter):
        for _, mapping in routing:
            check_routing(mapping.router)
        return
    for method in ("fit", "fit_transform", "partial_fit"):
        requests = getattr(routing, method).requests if hasattr(routing, method) else {}
        _refuse([name for name, alias in requests.items() if alias in FIT_PARAMETERS and name not in FIT_PARAMETERS])


def _refuse(names: list[str]) -> None:
    if names:
        raise InvalidInput(
            f"fit does not pass {', '.join(names)} to the estimator, because such parameters could carry true labels, which the "
            "fitted model would then reveal without noise. Leave them out. Set options in the estimator's constructor; for early "
            "stopping, let the estimator hold out some of the private labels itself (validation_fraction in scikit-learn). "
            f"fit accepts {', '.join(FIT_PARAMETERS)}, in a pipeline as step__sample_weight"
        )


def rehearse(estimator: Any, X: Any, targets: Floats, inner: dict[str, Any]) -> None:
    """Fit `estimator` (None: the default trees) to made-up `targets`, passing `inner` to its `fit`. Errors are its own.

    A user's estimator is tried on 500 rows first. Only if that fails is the whole table used, so that the real error is
    shown.
    """
    _check_weights(X, inner)
    records = targets.size
    with _without_traces():
        if estimator is None:
            default_trees(_OneTree(), X, records).fit(X, targets, **inner)
            return
        if records > REHEARSAL_ROWS:
            with suppress(Exception):  # perhaps only because the rows are few: all of them are tried below
                rows = _rows_to_try(X, records)
                some = _check_method_params(X, inner, rows)
                clone(estimator).fit(_safe_indexing(X, rows), targets[rows], **some)
                return
        clone(estimator).fit(deepcopy(X), targets, **inner)  # a copy, since copy_X=False overwrites the features


def check_given(X: Any, inner: dict[str, Any]) -> None:
    """Refuse features or weights that the default estimator cannot read; nothing is trained."""
    _check_weights(X, inner)
    if others := sorted(inner.keys() - {"sample_weight"}):
        raise InvalidInput(
            f"the default estimator takes sample_weight and no {others[0]}: leave it out, or give an estimator"
        )
    if FeatureTable.is_frame(X):
        BoostingRegressor().encoder(X).ordinal(X)
        return
    with without_values("the features"):
        check_array(X, dtype=np.float64, ensure_all_finite=False)


def _check_weights(X: Any, inner: dict[str, Any]) -> None:
    for name, weights in inner.items():
        if name.endswith("sample_weight") and weights is not None:
            with without_values("the sample weights"):
                _check_sample_weight(weights, X, ensure_non_negative=True)


def default_trees(boosting: BoostingRegressor, features: Any, rows: int) -> Any:
    """The boosting itself for a table. For an array only its trees, since there is nothing to encode."""
    return boosting if FeatureTable.is_frame(features) else boosting.trees(rows)


class _OneTree(BoostingRegressor):
    """The default estimator for a rehearsal: all the checks, hardly any training."""

    def trees(self, rows: int, numeric: int | None = None) -> Any:
        return super().trees(rows, numeric).set_params(trees__max_iter=1)


def _rows_to_try(features: Any, records: int) -> Any:
    """The first rows. If the first NaN or infinity comes later, its row replaces one of the last of them."""
    rows = np.arange(min(records, REHEARSAL_ROWS))
    try:
        values = np.asarray(features, np.float64).reshape(records, -1)
    except (TypeError, ValueError):
        return rows
    for place, odd in enumerate((np.isnan(values), np.isinf(values)), start=1):
        found = np.flatnonzero(odd.any(axis=1))
        if found.size and found[0] >= rows.size:
            rows[-place] = found[0]
    return rows


@contextmanager
def _without_traces() -> Iterator[None]:
    """Hide warnings, and restore the state of the global random generators at the end."""
    drawn, plain = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(drawn)  # noqa: NPY002
        random.setstate(plain)
