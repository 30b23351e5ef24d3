"""Histogram gradient boosting on a table of features, categories and all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.learn.columns import ColumnKey, Design


class BoostingRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """scikit-learn's gradient boosting behind `labeldp.learn.columns`: text categories, dates and missing values work.

    A category's code is one of at most 255; rare ones share a code. `loss` is "squared_error" or "poisson".

    The defaults are smaller trees with larger leaves than scikit-learn's: private labels are noisy, and a leaf of twenty
    of them is mostly noise. `min_samples_leaf` left out is a 320th of the rows, at least 20 and at most 1,000.
    """

    def __init__(
        self,
        *,
        categorical: Sequence[ColumnKey] | None = None,
        numeric: Sequence[ColumnKey] | None = None,
        loss: str = "squared_error",
        max_iter: int = 80,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.loss = loss
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the columns' design from `X`, then the trees."""
        self.design_ = Design.for_trees(X, categorical=self.categorical, numeric=self.numeric)
        matrix = self.design_.ordinal(X)
        self.n_features_in_ = matrix.shape[1]
        self.trees_ = self.trees(matrix.shape[0], self.design_).fit(matrix, y, sample_weight)
        return self

    def trees(self, rows: int, design: Design) -> HistGradientBoostingRegressor:
        """The unfitted trees for so many rows, for those who encode the columns once and train often."""
        leaf = self.min_samples_leaf
        return HistGradientBoostingRegressor(
            loss=self.loss,
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=min(1000, max(20, rows // 320)) if leaf is None else leaf,
            early_stopping=False,
            categorical_features=design.ordinal_categorical,
            random_state=self.random_state,
        )

    def predict(self, X: Any) -> Floats:
        """Predictions for a table with the columns that the model was trained on."""
        check_is_fitted(self)
        predictions: Floats = self.trees_.predict(self.design_.ordinal(X))
        return predictions
