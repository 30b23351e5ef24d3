"""The learners that `labeldp train` offers, by name, and the default one: a ridge regression followed by gradient boosting.

To add a learner, write a module in this folder that ends with `LEARNERS.add(Learner(...))`. The catalogue finds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.catalogue import Catalogue
from labeldp.learn.estimator_checks import QuietScore, without_values
from labeldp.learn.feature_columns import ColumnEncoder, ColumnKey, standardizer
from labeldp.learn.sizing import after_a_line, boosting_settings


@dataclass(frozen=True)
class LearnerRequest:
    """What a learner is to be made for.

    Attributes
    ----------
    records : int
        The number of private values to train on.
    share : float
        The share of a true label that each is worth, see `label_share`.
    loss : str
        The loss to train with.
    categorical, numeric : sequence of str or int, optional
        Columns to read as categories or as numbers whatever their type.
    seed : int, optional
        The seed of the learner.
    epochs : int, optional
        The number of passes over the data, for learners that count them.
    progress : bool
        Whether to show progress while training.
    """

    records: int
    share: float = 1.0
    loss: str = "squared"
    categorical: Sequence[str | int] | None = None
    numeric: Sequence[str | int] | None = None
    seed: int | None = None
    epochs: int | None = None
    progress: bool = False


@dataclass(frozen=True)
class Learner:
    """One learner by name.

    Parameters
    ----------
    name : str
        Its name on the command line.
    help : str
        One line for `--help`.
    make : callable
        Makes an unfitted scikit-learn regressor from a `LearnerRequest`.
    losses : tuple of str
        The losses that it can train with.
    rank : int
        Its place in lists: a lower rank comes first.
    own_progress : bool
        Whether it shows its own progress bar while it trains, if `LearnerRequest.progress` is set.
    """

    name: str
    help: str
    make: Callable[[LearnerRequest], Any]
    losses: tuple[str, ...] = ("squared",)
    rank: int = 50
    own_progress: bool = False


LEARNERS: Catalogue[Learner] = Catalogue("model", "labeldp.learn")
"""The learners of this room by name. `learners()` has all."""


def learners() -> Catalogue[Learner]:
    """Return every learner by name.

    The paper's network is in a room above this one and enters itself when it is imported, so it is imported by name.
    """
    import_module("labeldp.paper.network")
    return LEARNERS


LEAST_ROWS = 50
"""A column with fewer numbers is not used for the line."""
PENALTIES = 10.0 ** np.arange(-3, 1.5, 0.5)
"""Ridge penalties to choose from, per record."""


class LinearStart(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A ridge regression on the numeric columns, and trees on what it leaves.

    A straight line has one number a column to learn, so noise moves it little; trees need many labels for every step. With
    private labels the line removes much of the error where features act in one direction, and the trees add the rest.

    Parameters
    ----------
    trees : HistGradientBoostingRegressor
        What learns the rest; cloned.
    numeric : int, optional
        The first `numeric` columns are numbers. By default all are.

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
    >>> from labeldp.learn.learners import LinearStart
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


@dataclass(frozen=True, eq=False)
class EncodedFeatures:
    """A table as the matrix that trees take, with its encoder. `BoostingRegressor` accepts it in place of the table."""

    encoder: ColumnEncoder
    matrix: Floats


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
    >>> from labeldp.learn import BoostingRegressor
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
        encoded = self.encode(X)
        self.encoder_, (rows, self.n_features_in_) = encoded.encoder, encoded.matrix.shape
        with without_values("the targets or the sample weights"):
            self.trees_ = self.trees(rows, len(self.encoder_.numeric)).fit(encoded.matrix, y, sample_weight)
        return self

    def encode(self, X: Any) -> EncodedFeatures:
        """Learn how to encode the columns of a table, and encode it. Encoded features are returned unchanged.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        EncodedFeatures
            The encoder, and the matrix that `trees` take.

        """
        if isinstance(X, EncodedFeatures):
            return X
        encoder = ColumnEncoder.for_trees(X, categorical=self.categorical, numeric=self.numeric)
        return EncodedFeatures(encoder, encoder.ordinal(X))

    def trees(self, rows: int, numeric: int | None = None) -> Any:
        """Unfitted trees of the right size, for callers who encode the columns once and train often.

        Parameters
        ----------
        rows : int
            The number of rows to train on.
        numeric : int, optional
            The first `numeric` columns are numbers. By default all are.

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
