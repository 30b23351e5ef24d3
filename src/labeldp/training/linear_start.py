"""Trees that start from a straight line: what many noisy labels say clearly is told first, in few numbers."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.features.columns import standardizer

LEAST_ROWS = 50
"""A column with fewer numbers has no part in the line."""
PENALTIES = 10.0 ** np.arange(-3, 1.5, 0.5)
"""Ridge penalties to choose from, per record."""


class LinearStart(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A ridge regression on the numeric columns, and trees on what it leaves.

    A straight line has one number a column to learn, so noise moves it little; trees need many labels for every step. With
    private labels the line saves much of the error wherever features act in one direction, and the trees add the rest.

    Parameters
    ----------
    trees : HistGradientBoostingRegressor
        What learns the rest; cloned.
    numeric : int, optional
        The first so many columns are numbers. By default all are.

    Attributes
    ----------
    line_ : Pipeline or None
        The scaled ridge regression.
    trees_ : HistGradientBoostingRegressor
        The fitted trees.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from labeldp.training.linear_start import LinearStart
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> model = LinearStart(HistGradientBoostingRegressor()).fit(X, 5 * X[:, 0])
    >>> model.predict([[1.0]]).round(1)
    array([5.])
    """

    def __init__(self, trees: Any, numeric: int | None = None) -> None:
        self.trees = trees
        self.numeric = numeric

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
        numbers = self._numbers(X)
        if numbers is not None:
            self.used_ = _varied(numbers)
            if self.used_.any():
                values = np.asarray(y, np.float64)
                line = make_pipeline(standardizer(largest=3.0), RidgeCV(len(values) * PENALTIES))
                self.line_ = line.fit(numbers[:, self.used_], values, ridgecv__sample_weight=sample_weight)
                rest = values - self.line_.predict(numbers[:, self.used_])
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
        if self.line_ is None:
            return predictions
        scaled = self.line_[:-1].transform(np.asarray(X, np.float64)[:, : self.numeric][:, self.used_])
        ridge = self.line_[-1]
        predictions = predictions + ridge.intercept_
        for slope, column in zip(
            ridge.coef_, scaled.T, strict=True
        ):  # in this order in every batch, unlike a matrix product
            predictions += slope * column
        return np.asarray(predictions)

    def _numbers(self, X: Any) -> Floats | None:
        """The numeric columns; None where there are none, or where scikit-learn will refuse the features."""
        try:
            numbers = np.asarray(X, np.float64)[:, : self.numeric]
        except (TypeError, ValueError, IndexError):
            return None
        return numbers if numbers.ndim == 2 and numbers.size and not np.isinf(numbers).any() else None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _varied(numbers: Floats) -> NDArray[np.bool_]:
    """The columns with enough numbers, and with different ones."""
    present = ~np.isnan(numbers)
    low, high = np.where(present, numbers, np.inf).min(axis=0), np.where(present, numbers, -np.inf).max(axis=0)
    return np.asarray((present.sum(axis=0) >= LEAST_ROWS) & (low < high))
