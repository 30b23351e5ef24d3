"""Gradient boosting for private labels: trees that start from a line, sized by the share of a true label that a private value is worth (`label_share`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.learn.smooth_ridge import SmoothRidge

RARE = 1e-4
"""Columns with values in fewer rows than this share are treated as empty. scikit-learn bins a sample of 200,000 rows; at this
share the sample has 20 values on average, and none at all with a chance of 2e-9."""


class Trees(HistGradientBoostingRegressor):  # type: ignore[misc]
    """scikit-learn's gradient boosting, which can also be fitted if a column is completely empty.

    scikit-learn raises an error there. Columns with fewer values than a leaf has rows cannot split anything and are treated
    as constant.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> Self:
        """Fit as scikit-learn does, after setting columns that are nearly empty to 0."""
        return super().fit(self._filled(X, sample_weight), y, sample_weight, **options)  # type: ignore[no-any-return]

    def shorten(self, trees: int) -> None:
        """Keep the first trees only."""
        del self._predictors[trees:]

    def _filled(self, X: Any, sample_weight: Any) -> Any:
        """Return `X` with 0 in the columns that are nearly empty. Anything but an array of floats is left to scikit-learn."""
        try:
            array = np.asarray(X)
            values = array.astype(np.float64) if array.dtype.kind == "O" else array
        except (TypeError, ValueError):
            return X
        if values.ndim != 2 or values.dtype.kind != "f" or not values.size:
            return X
        present = ~np.isnan(values)
        if present.all():
            return X
        weights = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight)
        if weights.shape != (len(values),) or weights.dtype.kind not in "biuf":
            return X
        counts = present[weights != 0].sum(axis=0)
        empty = (counts < max(1, self.min_samples_leaf)) | (weights @ present < RARE * weights.sum())
        return np.where(empty, values.dtype.type(0), values) if empty.any() else X


class LinearStart(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A ridge regression, and trees on what it leaves.

    A line has few numbers to learn, so noise moves it little; trees need many labels for every step. With private labels the line
    removes much of the error where features act in one direction, and the trees add the rest.

    Parameters
    ----------
    trees : HistGradientBoostingRegressor
        What learns the rest; cloned.
    line : SmoothRidge, optional
        What learns first; cloned. By default a straight line in all columns.

    Attributes
    ----------
    line_ : SmoothRidge or None
        The fitted line; None where scikit-learn refuses the features.
    trees_ : HistGradientBoostingRegressor
        The fitted trees.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from labeldp.learn.boosting import LinearStart
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> model = LinearStart(HistGradientBoostingRegressor()).fit(X, 5 * X[:, 0])
    >>> model.predict([[1.0]]).round(1)
    array([5.])
    """

    def __init__(self, trees: Any, line: SmoothRidge | None = None) -> None:
        self.trees = trees
        self.line = line

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the line, then the trees.

        Parameters
        ----------
        X : array
            The features; NaN is a missing number.
        y : array-like
            The values to train on.
        sample_weight : array-like, optional
            A weight for each row.

        Returns
        -------
        LinearStart
            The fitted regressor itself.
        """
        self.line_, rest = None, y
        if _fits_a_line(X):
            line = SmoothRidge(levels=False) if self.line is None else self.line
            self.line_ = clone(line).fit(X, y, sample_weight)
            rest = np.asarray(y, np.float64) - self.line_.predict(X)
        self.trees_ = clone(self.trees).fit(X, rest, sample_weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.trees_, name):
                setattr(self, name, getattr(self.trees_, name))
        return self

    def predict(self, X: Any) -> Floats:
        """Predict for each row.

        Parameters
        ----------
        X : array
            The features.

        Returns
        -------
        array of float
        """
        check_is_fitted(self)
        predictions: Floats = self.trees_.predict(X)  # checks the features, in scikit-learn's own words
        return predictions if self.line_ is None else predictions + self.line_.predict(X)

    def staged_predict(self, X: Any) -> Iterator[Floats]:
        """Predict for each row after each tree.

        Parameters
        ----------
        X : array
            The features.

        Yields
        ------
        array of float
        """
        check_is_fitted(self)
        start = 0.0 if self.line_ is None else self.line_.predict(X)
        for prediction in self.trees_.staged_predict(X):
            yield start + prediction

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _fits_a_line(X: Any) -> bool:
    """Return whether a line can be fitted. Where not, scikit-learn will refuse the features in its own words."""
    try:
        matrix = np.asarray(X, np.float64)
    except (TypeError, ValueError):
        return False
    return matrix.ndim == 2 and bool(matrix.size) and not np.isinf(matrix).any()


def fixed_rule(records: int, share: float, numeric: int | None = None, random_state: Any = None) -> LinearStart:
    """Return a straight line in the numbers and small trees, sized by the number of values and by what each is worth."""
    trees = Trees(random_state=random_state, **after_a_line(records, share))
    return LinearStart(trees, SmoothRidge(numeric, levels=False))


def boosting_settings(records: int, share: float = 1.0) -> dict[str, Any]:
    """Return settings of scikit-learn's `HistGradientBoostingRegressor` for training on private labels.

    A leaf holds records worth about twenty true labels. Trees are small and few while there is little to learn from; with
    many records the settings are scikit-learn's defaults. Give categories as ordinary codes, not as
    `categorical_features`: sorting categories by their noisy means fits the noise (docs/concepts/beyond-the-paper.md has the
    figures).

    Parameters
    ----------
    records : int
        The number of private labels.
    share : float
        The share of a true label that each is worth, see `label_share`.

    Returns
    -------
    dict
        Keyword arguments for `HistGradientBoostingRegressor`.

    Examples
    --------
    >>> from labeldp.learn import boosting_settings
    >>> boosting_settings(10_000, share=0.1)
    {'max_leaf_nodes': 3, 'max_iter': 62, 'min_samples_leaf': 200, 'early_stopping': False}

    """
    effective = records * share
    return {
        "max_leaf_nodes": int(min(31, 3 + effective // 1500)),
        "max_iter": int(min(100, max(15, effective / 5), 60 + effective // 500)),
        "min_samples_leaf": int(max(1, min(20 / max(share, 1e-9), records / 4))),
        "early_stopping": False,
    }


def after_a_line(records: int, share: float) -> dict[str, Any]:
    """Return `boosting_settings` for the residuals of a straight line: down to a third of the trees while labels are worth little."""
    settings = boosting_settings(records, share)
    part = min(1.0, max(1 / 3, share, records * share / 6000))
    return settings | {"max_iter": max(5, int(settings["max_iter"] * part))}
