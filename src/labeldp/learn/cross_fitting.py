"""Cross-fitting of regressors on functions of private labels: what models of distributions and of classes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_predict

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.learn.feature_columns import ColumnEncoder
from labeldp.learn.feature_tables import FeatureTable
from labeldp.learn.learners import BoostingRegressor, EncodedFeatures, StackedRegressor
from labeldp.mechanisms import FiniteMechanism, PrivateLabels

FOLDS = 3
"""Of the cross-fitting: two thirds of the records are nearly all, and four models are trained for each function of the label."""


def checked_codes(y: Any, mechanism: FiniteMechanism) -> NDArray[np.intp]:
    """Return codes of this mechanism; raise `InvalidInput` for anything else, above all for true labels."""
    codes = np.asarray(y.codes if isinstance(y, PrivateLabels) else y)
    most = mechanism.outputs.size
    fits = codes.ndim == 1 and codes.dtype.kind in "iu" and (codes.size == 0 or 0 <= codes.min() <= codes.max() < most)
    if not fits:
        raise InvalidInput(
            f"y must be private labels or their codes, whole numbers from 0 to {most - 1}: pass the PrivateLabels themselves, "
            "not their values"
        )
    return codes.astype(np.intp)


def prepared(
    estimator: Any, X: Any, rows: int, first: Any = None
) -> tuple[ColumnEncoder | None, Callable[[float], Any], Any]:
    """Return the encoder of a table, how to make a regressor for values of some worth, and the features that it takes.

    A table is encoded once. `estimator` is a user's own, which is cloned, or None for a stack, which has the predictions of `first` as
    its first column.
    """
    boosting = StackedRegressor() if estimator is None else estimator
    if not isinstance(boosting, BoostingRegressor):
        return None, lambda _: clone(estimator), X
    encoder, numeric = None, None
    if first is not None:
        encoder = boosting.encode(X).encoder
        X, numeric = encoded(X, encoder, first), 1 + len(encoder.numeric)
    elif isinstance(X, EncodedFeatures) or FeatureTable.is_frame(X):
        table = boosting.encode(X)
        encoder, X, numeric = table.encoder, table.matrix, len(table.encoder.numeric)
    return encoder, lambda share: clone(boosting).set_params(share=share).model(rows, numeric), X


def encoded(X: Any, encoder: ColumnEncoder | None, first: Any) -> Any:
    """Return features as the regressors of `prepared` take them."""
    matrix = X if encoder is None else encoder.ordinal(X)
    return matrix if first is None else np.column_stack([first.predict(X), matrix])


def steps_of(estimator: Any, rows: int) -> int:
    """Return the maximum number of models that `out_of_fold` trains on this number of rows."""
    estimator = StackedRegressor() if estimator is None else estimator
    return estimator.steps(rows) if isinstance(estimator, StackedRegressor) else FOLDS + 1


def out_of_fold(
    estimator: Any, X: Any, targets: Floats, fit_params: dict[str, Any], advance: Callable[[int], object] | None
) -> tuple[Any, NDArray[np.int64], Floats]:
    """Return the fitted estimator, the rows for which it predicts without having seen them, and these predictions."""
    if hasattr(estimator, "fit_out_of_fold"):
        rows, predictions = estimator.fit_out_of_fold(X, targets, **fit_params, advance=advance)
        return estimator, rows, predictions
    every = np.arange(targets.size)
    fitted = clone(estimator).fit(X, targets, **fit_params)
    if targets.size < 2 * FOLDS:
        return fitted, every, np.full(targets.size, targets.mean())
    folds = KFold(FOLDS, shuffle=True, random_state=0)  # fixed: folds must not depend on the order of labels
    predictions = cross_val_predict(estimator, X, targets, cv=folds, params=fit_params or None)
    if advance is not None:
        advance(FOLDS + 1)
    return fitted, every, np.asarray(predictions, np.float64)
