"""A learner for private labels that sizes itself: a stack of models, weighted by validation on the private values themselves.

Validation on private values costs no privacy, and the noise of a held-out value adds the same constant to every candidate's squared
error. So several candidates, from a small fixed rule to large trees, are trained on folds, and weights that are not negative
combine their out-of-fold predictions so that they fit the private values best. What is not weighted falls to the mean. Where labels
are few or worth little, the weights stay near the fixed rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp.arrays import Floats
from labeldp.learn.boosting import LinearStart, Trees, fixed_rule
from labeldp.learn.smooth_ridge import SmoothRidge
from labeldp.linear_algebra import cholesky

FEWEST = 200
"""With fewer records there is nothing to validate with, and the rule alone is used."""
MOST_VALIDATED = 100_000
"""More records than this are not validated; the chosen models are then trained on all."""
MANY = 30_000
"""More records than this are validated in three folds instead of five."""
TRUSTED = 3000.0
"""The worth in true labels below which the rule is trusted more than validation."""
LEAST_WEIGHT = 0.01
"""Models with a smaller weight are left out."""


@dataclass(frozen=True)
class Candidate:
    """One model of the stack.

    Attributes
    ----------
    name : str
        What it is called in `members`.
    line : dict or None
        Settings of the `SmoothRidge` that it starts from.
    leaves : int
        The most leaves of a tree; 0 for no trees.
    stages : tuple of int
        Numbers of trees after which it makes a prediction; 0 for a model that is used whole.
    native : bool
        Whether trees split categories by sets. Otherwise they split their codes, with the most frequent first.
    columns : float
        The share of the columns that each split may use.
    rate : float
        The learning rate.
    """

    name: str
    line: dict[str, Any] | None = None
    leaves: int = 0
    stages: tuple[int, ...] = (0,)
    native: bool = True
    columns: float = 1.0
    rate: float = 0.1


RULE = Candidate("small trees after a line")
LINES = (Candidate("bent line", {"bends": 6}), Candidate("smooth function", {"bumps": 200}))
TREES = (
    Candidate("trees after a bent line", {"bends": 6}, 10, (10, 30, 100), native=False, columns=0.5),
    Candidate("trees", None, 10, (10, 30, 100)),
    Candidate("slow trees", None, 10, (100, 200), native=False, columns=0.5, rate=0.03),
)
LARGE = Candidate("large trees", None, 31, (30, 100, 300), columns=0.5)


def candidates(effective: float) -> list[Candidate]:
    """Return the models to try where all labels together are worth this number of true ones: none with more trees than those can feed."""
    most = effective if effective > 5000 else min(effective, 100)
    sized = [replace(one, stages=tuple(s for s in one.stages if s <= max(30, most))) for one in (*TREES, LARGE)]
    return [RULE, *LINES, *(one for one in sized if one.stages and (one.leaves < LARGE.leaves or effective > 1000))]


@dataclass(frozen=True)
class Member:
    """A model of a fitted stack.

    Attributes
    ----------
    name : str
        Which kind of model it is.
    weight : float
        Its part in the prediction. What all weights lack to 1 is the mean.
    trees : int
        How many trees it has.
    r2 : float
        The share of the private values' variance that it explains out of fold. Most of that variance is noise, so even the best model
        explains little; compare the members with each other.
    """

    name: str
    weight: float
    trees: int
    r2: float


class Stack(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Models from a straight line to large trees, with weights chosen by validation on the values to train on.

    Parameters
    ----------
    numeric : int, optional
        The first `numeric` columns are numbers and the others codes of categories. By default all are numbers.
    share : float
        The share of a true label that each value is worth, see `label_share`.
    random_state : int, RandomState or None
        The seed of the folds and of the trees.

    Attributes
    ----------
    members : tuple of Member
        What was chosen, and why.
    models_ : list of (regressor, array of float, list of int)
        The fitted models, the weight of each after each number of trees, and these numbers.
    base_ : float
        What is added to their weighted predictions.
    """

    def __init__(self, numeric: int | None = None, *, share: float = 1.0, random_state: Any = None) -> None:
        self.numeric = numeric
        self.share = share
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the weights, then train what has a weight on all rows.

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
        Stack
            The fitted regressor itself.
        """
        with threads(len(y)):
            self._fit(X, y, sample_weight, None)
        return self

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
            A prediction for each of them. The weights come from the other folds, too.
        """
        with threads(len(y)):
            rows, predictions = self._fit(X, y, sample_weight, advance)
            if 2 * folds_for(len(y)) <= len(y) < FEWEST:  # weights are not needed, but a model is evaluated
                folds = KFold(folds_for(len(y)), shuffle=True, random_state=0)
                given = None if sample_weight is None else {"sample_weight": sample_weight}
                rule = self._model(RULE, len(y), self.random_state)
                predictions = np.asarray(cross_val_predict(rule, X, y, cv=folds, params=given), np.float64)
        return rows, predictions

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, advance: Callable[[int], object] | None
    ) -> tuple[NDArray[np.int64], Floats]:
        # The rule comes first: it checks the features, in scikit-learn's own words.
        rule = self._model(RULE, len(y), self.random_state).fit(X, y, sample_weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(rule, name):
                setattr(self, name, getattr(rule, name))
        matrix, values = np.asarray(X, np.float64), np.asarray(y, np.float64)
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        mean = float(np.average(values, weights=weights))
        if len(values) < FEWEST:
            self.models_, self.facts_, self.base_ = [(rule, np.ones(1), [0])], [(RULE.name, 1.0, 0, 0.0)], 0.0
            return np.arange(len(values)), np.full(len(values), mean)
        seed = check_random_state(self.random_state).randint(2**31)
        generator = np.random.default_rng(seed)
        rows = np.sort(generator.permutation(len(values))[:MOST_VALIDATED])
        tried, folds = candidates(len(values) * self.share), folds_for(len(rows))
        fold = generator.permutation(len(rows)) % folds
        fit = partial(self._fitted, (matrix, values, weights), seed, advance)
        fitted = fit(tried, [rows[fold != j] for j in range(folds)])
        outside = np.empty((sum(len(one.stages) for one in tried), len(rows)))
        for j, models in enumerate(fitted):
            held = matrix[rows[fold == j]]
            found = [staged(model, held, one.stages) for model, one in zip(models, tried, strict=True)]
            outside[:, fold == j] = np.vstack([prediction for each in found for prediction in each])
        start = np.array([one is RULE for one in tried for _ in one.stages], np.float64)
        each = np.ones(len(rows)) if weights is None else weights[rows]
        chosen = Validation(outside, values[rows], each, mean, start, len(values) * self.share)
        ends = np.cumsum([len(one.stages) for one in tried])[:-1]
        parts = np.split(chosen.weights, ends)
        kept = [place for place, part in enumerate(parts) if part.sum() >= LEAST_WEIGHT] or [0]
        if len(rows) < len(values):
            fitted = fit([tried[place] for place in kept], [np.arange(len(values))])
        else:
            fitted = [[models[place] for place in kept] for models in fitted]
        self.models_, self.facts_ = [], []
        for at, place in enumerate(kept):
            one, last = tried[place], int(np.max(np.flatnonzero(parts[place]), initial=0)) + 1
            stages, part = list(one.stages[:last]), parts[place][:last]
            self.models_ += [(shortened(models[at], stages[-1]), part / len(fitted), stages) for models in fitted]
            r2 = float(np.split(chosen.r2, ends)[place][:last].max())
            self.facts_.append((one.name, float(part.sum()), stages[-1], r2))
        self.base_ = mean * (1 - sum(float(parts[place].sum()) for place in kept))
        return rows, chosen.without_own_fold(fold)

    def steps(self, rows: int) -> int:
        """Return the maximum number of models trained on this number of rows."""
        if rows < FEWEST:
            return 0
        return (folds_for(min(rows, MOST_VALIDATED)) + (rows > MOST_VALIDATED)) * len(candidates(rows * self.share))

    @property
    def members(self) -> tuple[Member, ...]:
        """What was chosen, and why: the largest weight first."""
        check_is_fitted(self)
        return tuple(sorted((Member(*facts) for facts in self.facts_), key=lambda member: -member.weight))

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
        with threads(_num_samples(X)):
            found = [(part, staged(model, X, stages)) for model, part, stages in self.models_]
            weighted = [w * each for part, predictions in found for w, each in zip(part, predictions, strict=True)]
        return np.asarray(self.base_ + sum(weighted))

    def _fitted(
        self,
        data: tuple[Floats, Floats, Floats | None],
        seed: int,
        advance: Callable[[int], object] | None,
        tried: Sequence[Candidate],
        folds: Sequence[NDArray[np.int64]],
    ) -> list[list[Any]]:
        """Return all candidates, fitted to the rows of each fold."""
        found: list[list[Any]] = []
        for rows in folds:
            matrix, values, weights = (None if part is None else part[rows] for part in data)
            found.append([])
            for one in tried:
                found[-1].append(self._model(one, len(rows), seed).fit(matrix, values, weights))
                if advance is not None:
                    advance(1)
        return found

    def _model(self, one: Candidate, rows: int, seed: Any) -> Any:
        """Return the unfitted model of a candidate."""
        if one is RULE:
            return fixed_rule(rows, self.share, self.numeric, seed)
        line = None if one.line is None else SmoothRidge(self.numeric, **one.line)
        if not one.leaves:
            return line
        codes = range(self.n_features_in_)[self.numeric :] if one.native and self.numeric is not None else ()
        trees = Trees(
            max_leaf_nodes=one.leaves,
            max_iter=one.stages[-1],
            min_samples_leaf=int(max(5, min(20 / max(self.share, 1e-9) ** 0.5, rows / 8))),
            max_features=one.columns,
            learning_rate=one.rate,
            early_stopping=False,
            categorical_features=list(codes) or None,
            random_state=seed,
        )
        return trees if line is None else LinearStart(trees, line)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def folds_for(rows: int) -> int:
    """Return the number of folds of a validation."""
    return 5 if rows <= MANY else 3


def threads(rows: int) -> AbstractContextManager[object]:
    """Use one thread for few rows: the steps of growing trees are then so short that more threads mostly wait for each other."""
    return threadpool_limits(1) if rows <= MANY else nullcontext()


def shortened(model: Any, trees: int) -> Any:
    """Return the model with this number of trees; unchanged for 0."""
    if trees:
        (model.trees_ if isinstance(model, LinearStart) else model).shorten(trees)
    return model


def staged(model: Any, X: Any, stages: Sequence[int]) -> Iterator[Floats]:
    """Yield predictions after each of these numbers of trees; one prediction for a model that is used whole."""
    if stages[-1] == 0:
        yield model.predict(X)
        return
    for trees, prediction in enumerate(model.staged_predict(X), 1):
        if trees in stages:
            yield prediction


class Validation:
    """Weights of models by their out-of-fold predictions, as differences from the mean.

    Minimises Σ (value − mean − Σ w·(prediction − mean))² + var(value)·(TRUSTED / effective)·Σ (w − start)² over w ≥ 0: these are the
    most likely weights if they are normal around `start` with variance effective/TRUSTED.
    """

    def __init__(
        self, predictions: Floats, values: Floats, weights: Floats, mean: float, start: Floats, effective: float
    ) -> None:
        self._columns, self._rest, self._mean, self._start = predictions - mean, values - mean, mean, start
        self._each = weights * (len(weights) / weights.sum())
        self._penalty = float(self._each @ np.square(self._rest)) / len(values) * TRUSTED / max(effective, 1.0)
        self.weights = self._solved(np.ones(len(values), np.bool_))

    @property
    def r2(self) -> Floats:
        """The share of the values' variance that each model explains."""
        whole = float(self._each @ np.square(self._rest))
        left = np.array([self._each @ np.square(self._rest - column) for column in self._columns])
        return np.asarray(1 - left / whole if whole > 0 else np.zeros(len(left)))

    def without_own_fold(self, fold: NDArray[np.int64]) -> Floats:
        """Return the weighted prediction for each record, with weights that were found without its fold."""
        predictions = np.empty(len(fold))
        for j in np.unique(fold):
            own = fold == j
            predictions[own] = self._mean + self._solved(~own) @ self._columns[:, own]
        return predictions

    def _solved(self, used: NDArray[np.bool_]) -> Floats:
        columns, each = self._columns[:, used], self._each[used]
        gram = (each * columns) @ columns.T
        target = columns @ (each * self._rest[used]) + self._penalty * self._start
        gram += (self._penalty + 1e-9 * np.trace(gram) / len(gram) + 1e-300) * np.eye(len(gram))
        lower = cholesky(gram)
        return np.asarray(nnls(lower.T, solve_triangular(lower, target, lower=True))[0])
