"""Histogram gradient boosting on tables with text, categories and dates, sized for noisy labels."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.features.columns import ColumnEncoder, ColumnKey
from labeldp.training.learners import LEARNERS, Learner
from labeldp.training.linear_start import LinearStart
from labeldp.training.scikit_words import QuietScore, without_values
from labeldp.training.sizing import after_a_line, boosting_settings

RARE = 1e-4
"""Columns with values in fewer rows than this share are treated as empty. scikit-learn bins a sample of 200,000 rows; at this
share the sample has 20 values on average, and none at all with a chance of 2e-9."""


class Trees(HistGradientBoostingRegressor):  # type: ignore[misc]
    """scikit-learn's gradient boosting, which can also be fitted when a column has no values at all.

    scikit-learn raises an error there. Columns with fewer values than a leaf has rows cannot split anything and are treated
    as constant.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> Self:
        """Fit as scikit-learn does, after setting columns that are nearly empty to 0."""
        return super().fit(self._filled(X, sample_weight), y, sample_weight, **options)  # type: ignore[no-any-return]

    def _filled(self, X: Any, sample_weight: Any) -> Any:
        """`X` with 0 in the columns that are nearly empty. Anything but an array of floats is left to scikit-learn."""
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


class BoostingRegressor(QuietScore, BaseEstimator):  # type: ignore[misc]
    """scikit-learn's gradient boosting for tables with text, categories, dates and missing values.

    Noisy labels need fewer and smaller trees with larger leaves, see `boosting_settings`. Categories are split by code, with
    the most frequent first: sorting them by the mean of their noisy labels would fit the noise.

    Parameters
    ----------
    categorical : sequence of str or int, optional
        Columns, by name or position, to read as categories whatever their type.
    numeric : sequence of str or int, optional
        Columns, by name or position, to read as numbers whatever their type.
    loss : {"squared_error", "poisson"}
        The loss to train with.
    share : float
        The share of a true label that each private one is worth, see `label_share`. It sizes the trees.
    random_state : int, RandomState or None
        The seed of the trees.

    Attributes
    ----------
    encoder_ : ColumnEncoder
        How the columns are turned into numbers and codes.
    trees_ : Trees
        The fitted trees.
    n_features_in_ : int
        The number of columns that the trees are trained on.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from labeldp import BoostingRegressor
    >>> table = pa.table({"shop": ["a", "b"] * 100, "price": range(200)})
    >>> BoostingRegressor(random_state=0).fit(table, [1.0, 3.0] * 100).predict(table)[:2].round(1)
    array([1., 3.])

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
        """Learn how to encode the columns of `X`, then the trees.

        Parameters
        ----------
        X : table or array
            A pandas, polars or Arrow table, or a two-dimensional array.
        y : array-like
            The values to train on.
        sample_weight : array-like, optional
            A weight for each row.

        Returns
        -------
        BoostingRegressor
            The fitted regressor itself.

        """
        self.encoder_ = self.encoder(X)
        matrix = self.encoder_.ordinal(X)
        self.n_features_in_ = matrix.shape[1]
        with without_values("the targets or the sample weights"):
            self.trees_ = self.trees(matrix.shape[0], len(self.encoder_.numeric)).fit(matrix, y, sample_weight)
        return self

    def encoder(self, X: Any) -> ColumnEncoder:
        """Learn how to encode the columns of a table.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        ColumnEncoder
            What makes the matrix that `trees` take.

        """
        return ColumnEncoder.for_trees(X, categorical=self.categorical, numeric=self.numeric)

    def trees(self, rows: int, numeric: int | None = None) -> Any:
        """Unfitted trees of the right size, for callers who encode the columns once and train often.

        Parameters
        ----------
        rows : int
            The number of rows to train on.
        numeric : int, optional
            The first so many columns are numbers. By default all are.

        Returns
        -------
        regressor
            Trees that start from a straight line, which take the matrix of `ColumnEncoder.ordinal`. Poisson trees start
            from the mean.

        """
        if self.loss != "squared_error":
            return Trees(loss=self.loss, random_state=self.random_state, **boosting_settings(rows, self.share))
        return LinearStart(Trees(random_state=self.random_state, **after_a_line(rows, self.share)), numeric)

    def predict(self, X: Any) -> Floats:
        """Predict for a table with the columns that the model was trained on.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        array of float
            A prediction for each row.

        """
        check_is_fitted(self)
        predictions: Floats = self.trees_.predict(self.encoder_.ordinal(X))
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
