"""The learners of `labeldp train` for tables of any kind, by name. The default is a stack of models.

To add a learner, write a module in this folder that ends with `LEARNERS.add(Learner(...))`. The catalogue finds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.catalogue import Catalogue
from labeldp.learn.boosting import Trees, boosting_settings, fixed_rule
from labeldp.learn.estimator_checks import QuietScore, without_values
from labeldp.learn.feature_columns import ColumnEncoder, ColumnKey
from labeldp.learn.stack import Member, Stack


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
        Columns to read as categories or as numbers regardless of their type.
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
        Columns, by name or position, to read as categories regardless of their type.
    numeric : sequence of str or int, optional
        Columns, by name or position, to read as numbers regardless of their type.
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
    model_ : regressor
        The fitted model of the encoded columns.
    n_features_in_ : int
        The number of columns that the model is trained on.

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
            self.model_ = self.model(rows, len(self.encoder_.numeric)).fit(encoded.matrix, y, sample_weight)
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
            The encoder, and the matrix that `model` takes.

        """
        if isinstance(X, EncodedFeatures):
            return X
        encoder = ColumnEncoder.for_trees(X, categorical=self.categorical, numeric=self.numeric)
        return EncodedFeatures(encoder, encoder.ordinal(X))

    def model(self, rows: int, numeric: int | None = None) -> Any:
        """Return an unfitted model of the right size, for callers who encode the columns once and train often.

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
        return fixed_rule(rows, self.share, numeric, self.random_state)

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
        predictions: Floats = self.model_.predict(self.encoder_.ordinal(X))
        return predictions


class StackedRegressor(BoostingRegressor):
    """A learner for private labels that sizes itself: a stack of models, weighted by validation on the private values.

    The models go from a straight line with small trees, the fixed rule of `BoostingRegressor`, to lines that bend, smooth functions of
    all columns, and large trees. Validation on private values is post-processing and costs no privacy. It takes about 70 times as
    long as the rule alone.

    Parameters
    ----------
    categorical : sequence of str or int, optional
        Columns, by name or position, to read as categories regardless of their type.
    numeric : sequence of str or int, optional
        Columns, by name or position, to read as numbers regardless of their type.
    share : float
        The share of a true label that each private one is worth, see `label_share`.
    random_state : int, RandomState or None
        The seed of the folds and of the trees.

    Attributes
    ----------
    encoder_ : ColumnEncoder
        How the columns are turned into numbers and codes.
    model_ : Stack
        The fitted stack.
    n_features_in_ : int
        The number of columns that the model is trained on.

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from labeldp.learn import StackedRegressor
    >>> generator = np.random.default_rng(0)
    >>> price, shop = generator.uniform(0, 9, 1000), generator.choice(["a", "b"], 1000)
    >>> amounts = np.square(price) + 20 * (shop == "b")
    >>> model = StackedRegressor(random_state=0).fit(pa.table({"price": price, "shop": shop}), amounts)
    >>> model.predict(pa.table({"price": [3.0, 3.0], "shop": ["a", "b"]})).round()
    array([ 9., 29.])
    >>> model.members[0].weight > 0.1
    True
    """

    def __init__(
        self,
        *,
        categorical: Sequence[ColumnKey] | None = None,
        numeric: Sequence[ColumnKey] | None = None,
        share: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.share = share
        self.random_state = random_state

    def fit_out_of_fold(
        self, X: Any, y: Any, sample_weight: Any = None, advance: Callable[[int], object] | None = None
    ) -> tuple[NDArray[np.int64], Floats]:
        """Fit, and predict for rows by models that were trained without them.

        Parameters
        ----------
        X, y, sample_weight : array
            As in `fit`.
        advance : callable, optional
            Called with 1 after each of the `steps(len(y))` steps.

        Returns
        -------
        rows : array of int
            The rows that were validated: all, or 100,000 if there are more.
        predictions : array of float
            A prediction for each of them.
        """
        encoded = self.encode(X)
        self.encoder_, (rows, self.n_features_in_) = encoded.encoder, encoded.matrix.shape
        self.model_ = self.model(rows, len(self.encoder_.numeric))
        with without_values("the targets or the sample weights"):
            return self.model_.fit_out_of_fold(encoded.matrix, y, sample_weight, advance)  # type: ignore[no-any-return]

    def model(self, rows: int, numeric: int | None = None) -> Stack:  # noqa: ARG002
        """Return an unfitted stack, for callers who encode the columns once and train often.

        Parameters
        ----------
        rows : int
            Not used.
        numeric : int, optional
            The first `numeric` columns are numbers. By default all are.

        Returns
        -------
        Stack
            It takes the matrix of `ColumnEncoder.ordinal`.
        """
        return Stack(numeric, share=self.share, random_state=self.random_state)

    def steps(self, rows: int) -> int:
        """Return the maximum number of models trained on this number of rows.

        Parameters
        ----------
        rows : int
            The number of rows.

        Returns
        -------
        int
        """
        return self.model(rows).steps(rows)

    @property
    def members(self) -> tuple[Member, ...]:
        """What was chosen, and why: the largest weight first."""
        check_is_fitted(self)
        return self.model_.members  # type: ignore[no-any-return]


LEARNERS.add(
    Learner(
        "stack",
        help="several models, weighted by validation on the private labels",
        make=lambda r: StackedRegressor(
            categorical=r.categorical, numeric=r.numeric, share=r.share, random_state=r.seed
        ),
        rank=0,
    )
)
LEARNERS.add(
    Learner(
        "boosting",
        help="a line and small trees, sized by what the private labels are worth: fast",
        make=lambda r: BoostingRegressor(
            categorical=r.categorical,
            numeric=r.numeric,
            loss={"squared": "squared_error", "poisson": "poisson"}[r.loss],
            share=r.share,
            random_state=r.seed,
        ),
        losses=("squared", "poisson"),
        rank=1,
    )
)
