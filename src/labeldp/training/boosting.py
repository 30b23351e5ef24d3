"""Histogram gradient boosting on a table of features, categories and all, sized for noisy labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.training.columns import ColumnKey, Design
from labeldp.training.learners import LEARNERS, Learner
from labeldp.training.sizing import boosting_settings

RARE = 1e-4  # scikit-learn bins 200,000 rows at most: 20 values among them, so that none at all has chance 2e-9


class Trees(HistGradientBoostingRegressor):  # type: ignore[misc]
    """scikit-learn's gradient boosting that can also be fitted where a column has no value, on which it fails.

    Columns with fewer values than a leaf has rows cannot split anything, and count as constant.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> Self:
        """Fit as scikit-learn does, nearly empty columns aside."""
        return super().fit(self._filled(X, sample_weight), y, sample_weight, **options)  # type: ignore[no-any-return]

    def _filled(self, X: Any, sample_weight: Any) -> Any:
        """`X` with 0 in the columns that are nearly empty; what is no array of floats is left to scikit-learn."""
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


class BoostingRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """scikit-learn's gradient boosting behind `labeldp.training.columns`: text categories, dates and missing values work.

    `share` is how much of a true label each private one is worth (`labeldp.training.sizing.label_share`). It sizes the trees: noisy labels want fewer and smaller trees with larger leaves, and categories as ordinary codes, for
    sorting categories by their noisy means fits the noise. `loss` is "squared_error" or "poisson".
    """

    def __init__(
        self,
        *,
        categorical: Sequence[ColumnKey] | None = None,
        numeric: Sequence[ColumnKey] | None = None,
        loss: str = "squared_error",
        share: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.loss = loss
        self.share = share
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the columns' design from `X`, then the trees."""
        self.design_ = Design.for_trees(X, categorical=self.categorical, numeric=self.numeric)
        matrix = self.design_.ordinal(X)
        self.n_features_in_ = matrix.shape[1]
        self.trees_ = self.trees(matrix.shape[0]).fit(matrix, y, sample_weight)
        return self

    def trees(self, rows: int) -> Trees:
        """The unfitted trees for so many rows, for those who encode the columns once and train often."""
        return Trees(loss=self.loss, random_state=self.random_state, **boosting_settings(rows, self.share))

    def predict(self, X: Any) -> Floats:
        """Predictions for a table with the columns that the model was trained on."""
        check_is_fitted(self)
        predictions: Floats = self.trees_.predict(self.design_.ordinal(X))
        return predictions


LEARNERS.add(
    Learner(
        "boosting",
        help="gradient boosted trees, sized by what the private labels are worth",
        make=lambda r: BoostingRegressor(
            categorical=r.categorical,
            numeric=r.numeric,
            loss={"squared": "squared_error", "poisson": "poisson"}[r.loss],
            share=r.share,
            random_state=r.seed,
        ),
        losses=("squared", "poisson"),
        rank=0,
    )
)
