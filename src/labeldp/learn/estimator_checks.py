"""Checks of the regressors, parameters and arrays that users give, before a release is charged.

Errors of scikit-learn are reworded where they would quote a value: a user who swaps two arguments passes labels as features.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRequest, MetadataRouter
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.losses import Loss, Squared

RESHAPE = (
    "Reshape your data: with array.reshape(-1, 1) if it is one feature, with array.reshape(1, -1) if it is one record. "
    "Are the arguments in the right order? The features X come first, then the labels y"
)
TRIAL_ROWS = 500
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
"""Parameters of an estimator's `fit` that do not use labels, in scikit-learn, LightGBM, XGBoost, CatBoost and Keras."""
ROBUST = {
    "absolute_error": "absolute",
    "lad": "absolute",
    "quantile": "pinball",
    "huber": "huber",
    "median": "absolute",
}
"""Values of scikit-learn's parameters `loss`, `criterion` and `strategy` that do not estimate a mean, and the loss to name instead."""
ROBUST_ESTIMATORS = {
    "QuantileRegressor": "pinball",
    "HuberRegressor": "huber",
    "TheilSenRegressor": "absolute",
    "RANSACRegressor": "absolute",
    "SVR": "absolute",
    "NuSVR": "absolute",
    "LinearSVR": "absolute",
}


@contextmanager
def without_values(what: str = "the features or the labels") -> Iterator[None]:
    """Reword errors of scikit-learn and NumPy that quote an array or a value. Other errors pass unchanged.

    `what` is the argument that may contain text by mistake.
    """
    try:
        yield
    except InvalidInput:
        raise
    except (TypeError, ValueError) as error:
        reworded = _reworded(str(error), what)
        if reworded is None:
            raise
        raise InvalidInput(reworded) from None


class QuietScore(RegressorMixin):  # type: ignore[misc]
    """A regressor whose `score` shows no label in its errors."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of the predictions.

        Parameters
        ----------
        X : table or array
            The features.
        y : array-like
            The labels to compare with. The result depends on them and is not private.
        sample_weight : array-like, optional
            A weight for each row.

        Returns
        -------
        float
            At most 1; 0 is as good as always answering the mean of `y`.

        """
        with without_values():
            return float(super().score(X, y, sample_weight))


def _reworded(text: str, what: str) -> str | None:
    """Return an error that quotes values without them; None for an error that quotes none."""
    if text.startswith("Expected 2D array, got "):  # … 1D array instead: array=[…]
        return f"{text.partition(' instead')[0]} instead. {RESHAPE}"
    if text.startswith("Complex data not supported"):
        return "Complex data not supported: give real numbers"
    if "parameter of r2_score must be" in text:
        return f"the labels and the sample weights must be arrays. {RESHAPE}"
    if text.startswith("Singleton array") or "got scalar" in text:
        return f"a single number stands where an array is needed. {RESHAPE}"
    if "could not convert" in text or "invalid literal" in text or "to be a sequence of float" in text:
        return (
            f"{what} hold text where numbers are needed. Convert it to numbers first. The default estimator reads the text "
            "columns of pandas, polars and Arrow tables as categories"
        )
    return None


def check_learns_means(estimator: Any, loss: Loss) -> None:
    """Raise `InvalidInput` for a regressor that estimates a median or a quantile: medians of private values estimate nothing."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name, part in [("", estimator), *parameters.items()]:
        setting = name.split("__")[-1] in ("loss", "criterion", "strategy") and isinstance(part, str)
        wanted = ROBUST.get(part) if setting else ROBUST_ESTIMATORS.get(type(part).__name__)
        if wanted is not None:
            what = f"{name}={part!r}" if setting else type(part).__name__
            level = next((value for key, value in parameters.items() if key.split("__")[-1] == "quantile"), 0.5)
            named = {"pinball": f"pinball({level})", "huber": "huber(10)"}.get(wanted, wanted)
            asked = named if isinstance(loss, Squared) else loss.name
            raise InvalidInput(
                f"{what} does not seek the mean of its targets, and its answer for private values is not that for the labels. "
                f"Name the loss instead: LabelDPRegressor(loss={asked!r}, ...), with a regressor of squared loss or none"
            )


def check_fit_parameters(parameters: dict[str, Any]) -> None:
    """Raise `InvalidInput` for a parameter of `fit` through which true labels could reach the estimator.

    Validation labels (`y_val`, `eval_set`) end up in the scores that an estimator keeps, and a score of one record reveals its
    label. Estimators name such parameters as they like, so only known names are accepted. A pipeline prefixes them with a step.
    """
    names = [name for name, value in parameters.items() if value is not None]
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


def check_weights(X: Any, parameters: dict[str, Any]) -> None:
    """Raise an error unless sample weights are finite, not negative, and one for each row."""
    for name, weights in parameters.items():
        if name.endswith("sample_weight") and weights is not None:
            with without_values("the sample weights"):
                _check_sample_weight(weights, X, ensure_non_negative=True)


def try_fit(estimator: Any, X: Any, targets: Floats, parameters: dict[str, Any], loss: Loss) -> None:
    """Fit a user's estimator to made-up targets, so that an estimator that cannot work costs nothing. Errors are its own.

    It is tried on 500 rows first. Only if that fails is the whole table used, so that the real error is shown.
    """
    try:
        with without_values():
            _fit_clone(estimator, X, targets, parameters)
    except ValueError as error:
        negative = targets.min() < 0 and not _works(estimator, X, targets, parameters)
        if negative and _works(estimator, X, np.abs(targets), parameters):
            positive = "gamma" if "gamma" in repr(estimator).lower() else "poisson"
            asked = positive if isinstance(loss, Squared) else loss.name
            raise InvalidInput(
                f"{type(estimator).__name__} does not accept negative targets, and private values reach from {targets.min():.4g} to "
                f"{targets.max():.4g}. Nothing was released. Leave the estimator out and name the loss; predictions are positive then: "
                f"LabelDPRegressor(loss={asked!r}, ...)"
            ) from error
        raise


def _works(estimator: Any, X: Any, targets: Floats, parameters: dict[str, Any]) -> bool:
    try:
        _fit_clone(estimator, X, targets, parameters)
    except Exception:  # noqa: BLE001 - a user's estimator may raise anything
        return False
    return True


def _fit_clone(estimator: Any, X: Any, targets: Floats, parameters: dict[str, Any]) -> None:
    with _without_traces():
        if targets.size > TRIAL_ROWS:
            with suppress(Exception):  # perhaps only because the rows are few: all of them are tried below
                rows = _rows_to_try(X, targets.size)
                some = _check_method_params(X, parameters, rows)
                clone(estimator).fit(_safe_indexing(X, rows), targets[rows], **some)
                return
        clone(estimator).fit(deepcopy(X), targets, **parameters)  # a copy, since copy_X=False overwrites the features


def _rows_to_try(features: Any, records: int) -> NDArray[np.intp]:
    """Return the first rows. If the first NaN or infinity comes later, its row replaces one of the last of them."""
    rows = np.arange(min(records, TRIAL_ROWS))
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
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
