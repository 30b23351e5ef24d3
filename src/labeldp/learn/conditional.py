"""Models for losses other than squared: the conditional distribution of the label first, then its best answer.

A private value is not a label. A median or a quantile of private values estimates nothing, and a deviance cannot take
their negative values. Private values only allow learning a mean, and a mean of any function of the label
(`best_values`). So two means are learned: of the label's normal score z, and of its square. They give each record a
normal distribution of z, with a location and a spread, and hence a distribution of the label. The prediction is the
answer that loses least under it (`Loss.best_answers`): the median, a quantile, a mean.

The spread is learned from squared residuals of out-of-fold predictions (cross-fitting), and is shrunk towards a common
spread by the share that other folds show to be noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import truncnorm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput, described, expect
from labeldp.evaluate.scoring import estimate_loss
from labeldp.learn.class_rates import ClassRates
from labeldp.learn.cross_fitting import checked_codes, encoded, out_of_fold, prepared, steps_of
from labeldp.learn.estimator_checks import check_fit_parameters, check_learns_means, without_values
from labeldp.learn.score_model import LEAST_SPREAD, best_answers, least_answer
from labeldp.learn.sums.sums_model import SumsModel
from labeldp.losses import Loss, LossLike, Squared, get_loss, seeks_mean
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.mechanisms.bias_variance import NormalScores
from labeldp.mechanisms.decoding import DECODERS, code_values, learnable_values, prior_of
from labeldp.mechanisms.label_cells import coarse_prior
from labeldp.mechanisms.prediction import label_share, value_share
from labeldp.priors import BudgetWarning
from labeldp.release.randomizer import check_bounds

SPREADS = (0.1, 5.0)
"""How far a record's squared spread may lie from the common one, as factors."""
LEAST_KNOWN = 0.25
"""A standard error of the labels' mean above this share of it causes a warning."""
FACTORS = (0.5, 2.0)
"""How far a mean model may be moved to the labels' mean, as factors."""
MOST_STACKS = 4
"""The most classes that have a stack each by default, which takes about 70 times as long as a small model."""


class ConditionalRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts the best answer for any loss, from the codes of private labels.

    Parameters
    ----------
    estimator : regressor or None
        What learns means: squared loss, any sign of targets. It is cloned. None means the default of
        `LabelDPRegressor`, a `StackedRegressor`.
    mechanism : FiniteMechanism
        What randomized the labels; it carries a prior.
    loss : str, Loss or callable
        The loss that predictions should keep small.
    first : SumsModel, optional
        A model from noisy sums. Its predictions are one more column for the default estimator.
    scores : NormalScores, optional
        If given, `first` predicts these scores of the labels, and the mechanism randomized scores minus its predictions.

    Attributes
    ----------
    location_, spread_ : regressor
        Models of the label's normal score, and of its squared distance from the location.
    level_ : float
        The common squared spread.
    weight_ : float
        How much of `spread_` is taken, from 0 (the common spread for all) to 1.
    factor_ : float
        For Poisson and gamma loss: what brings the mean prediction to the labels' mean; else 1.

    Notes
    -----
    Costs no privacy: it reads private labels and public numbers only.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import LabelRandomizer
    >>> from labeldp.learn import ConditionalRegressor
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(2000, 1))
    >>> private = LabelRandomizer(4, (0, 400), loss="pinball(0.9)").randomize(np.exp(4 + X[:, 0]))
    >>> model = ConditionalRegressor(LinearRegression(), private.mechanism, "pinball(0.9)").fit(X, private)
    >>> bool(model.predict([[1.0]])[0] > model.predict([[0.0]])[0])
    True
    """

    def __init__(
        self,
        estimator: Any,
        mechanism: FiniteMechanism,
        loss: LossLike,
        *,
        first: SumsModel | None = None,
        scores: NormalScores | None = None,
    ) -> None:
        self.estimator = estimator
        self.mechanism = mechanism
        self.loss = loss
        self.first = first
        self.scores = scores

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Learn location and spread from features and codes.

        Parameters
        ----------
        X : table or array
            The features.
        y : PrivateLabels or array of int
            The private labels, or their codes.
        **fit_params : dict
            More parameters for the `fit` of every clone, such as `sample_weight`. Parameters that could carry labels are refused.

        Returns
        -------
        ConditionalRegressor
            The fitted regressor itself.
        """
        self.fit_out_of_fold(X, y, **fit_params)
        return self

    def fit_out_of_fold(
        self, X: Any, y: Any, *, advance: Callable[[int], object] | None = None, **fit_params: Any
    ) -> tuple[NDArray[np.int64], Floats]:
        """Fit, and predict for rows by models of location and spread that were trained without them.

        Parameters
        ----------
        X, y : array
            As in `fit`.
        advance : callable, optional
            Called with the number of models whenever some are trained, `steps(len(y))` in all.
        **fit_params : dict
            As in `fit`.

        Returns
        -------
        rows : array of int
            The rows that were predicted: all, unless there are very many.
        predictions : array of float
            A prediction for each of them.
        """
        expect(self.mechanism, FiniteMechanism, "mechanism", "take that of the private labels: private.mechanism")
        check_fit_parameters(fit_params)
        if self.estimator is not None:
            check_learns_means(self.estimator, get_loss(self.loss))
        codes = checked_codes(y, self.mechanism)
        if self.first is not None and self.estimator is not None:
            raise InvalidInput("a model after sums has no estimator of your own: give estimator=None")
        prior, _ = coarse_prior(prior_of(self.mechanism))
        if self.scores is None:
            self.scores_ = NormalScores.under(prior)
            functions = np.stack([self.scores_.scores, self.scores_.squares], axis=1)
        else:
            self.scores_ = self.scores
            functions = np.stack([prior.values, np.square(prior.values)], axis=1)
        values = learnable_values(self.mechanism, lambda _: functions, codes.size)
        shares = [value_share(self.mechanism, values[:, j], prior, functions[:, j]) for j in range(2)]
        self.floor_ = least_answer(self.loss, self.scores_)
        self.encoder_, make, X = prepared(self.estimator, X, codes.size, self.first)
        score, square = values[codes].T
        with without_values():
            self.location_, rows, seen = out_of_fold(make(shares[0]), X, score, fit_params, advance)
        score, square = score[rows], square[rows]
        squares = square - 2 * seen * score + np.square(seen)
        self.level_ = _common_spread(squares)
        if rows.size < codes.size:
            X = _safe_indexing(X, rows)
            fit_params = {name: _safe_indexing(value, rows) for name, value in fit_params.items() if value is not None}
        spread_model, some, spread = out_of_fold(make(shares[1]), X, squares, fit_params, advance)
        rows, seen, squares = rows[some], seen[some], squares[some]
        moving = float(np.var(spread))
        explained = float(np.mean((squares - squares.mean()) * (spread - spread.mean())))
        self.weight_ = float(np.clip(explained / moving, 0, 1)) if moving > 0 else 0.0
        self.spread_ = spread_model if self.weight_ > 0 else None
        self.factor_ = 1.0
        if seeks_mean(self.loss) and self.scores is None:
            # The labels' mean is known well, and the model's distributions need not have it.
            means = code_values(self.mechanism)[codes]
            mean, error = float(means.mean()), float(means.std()) / np.sqrt(codes.size)
            if error > LEAST_KNOWN * max(mean, 0.0):
                warnings.warn(
                    f"the noise hides the mean of the labels: {codes.size:,} private labels at epsilon = {self.mechanism.epsilon:.3g} give "
                    f"{mean:.3g} ± {2 * error:.2g}, and predictions can be off by as much. Narrower bounds, more records or a larger epsilon help.",
                    BudgetWarning,
                    stacklevel=2,
                )
            answered = float(self._answers(*self._scores(X)).mean())
            if mean > 2 * error and answered > 0:
                self.factor_ = float(np.clip(mean / answered, *FACTORS))
        return rows, self._answers(self._added(seen, X, some), self._spreads(spread))

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
        return 2 * steps_of(self.estimator, rows)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return how little the predictions lose, estimated from private labels of other records: the negative mean loss.

        Parameters
        ----------
        X : table or array
            The features of records that were not trained on.
        y : PrivateLabels or array of int
            Their private labels, or the codes of these.
        sample_weight : None
            Not used.

        Returns
        -------
        float
            The higher the better; see `estimate_loss`.
        """
        private = PrivateLabels(checked_codes(y, self.mechanism).astype(np.uint32), self.mechanism)
        return -estimate_loss(private, self.predict(X), self.loss).model

    def predict(self, X: Any) -> Floats:
        """Return the best answer for each row.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        array of float
            A prediction for each row.
        """
        location, spread = self.predict_scores(X)
        return self._answers(location, spread)

    def _answers(self, location: Floats, spread: Floats) -> Floats:
        """Return the best answers for these distributions of scores."""
        return np.maximum(self.factor_ * best_answers(self.loss, self.scores_, location, spread), self.floor_)

    def _added(self, seen: Floats, X: Any, rows: Any = slice(None)) -> Floats:
        """Return locations from predictions of what was randomized. For scores minus predictions, these are the first column."""
        return seen if self.scores is None else seen + np.asarray(X)[rows, 0]

    def predict_scores(self, X: Any) -> tuple[Floats, Floats]:
        """Return the location and the spread of each row's normal score.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        location, spread : array of float
        """
        check_is_fitted(self)
        return self._scores(encoded(X, self.encoder_, self.first))

    def _scores(self, X: Any) -> tuple[Floats, Floats]:
        """Return `predict_scores` of encoded features."""
        with without_values("the features"):
            location = self._added(np.asarray(self.location_.predict(X), np.float64), X)
        if self.spread_ is None:
            return location, np.full(location.size, np.sqrt(self.level_))
        return location, self._spreads(np.asarray(self.spread_.predict(X), np.float64))

    def _spreads(self, predicted: Floats) -> Floats:
        """Return the spread of each record's score, from a prediction of its square that is believed in part."""
        squared = self.level_ + self.weight_ * (predicted - self.level_)
        return np.sqrt(np.clip(squared, *(self.level_ * np.asarray(SPREADS))))


def _common_spread(squares: Floats) -> float:
    """Return the mean of the squared residuals, given that it lies between `LEAST_SPREAD` and 1, the value without information.

    A noisy mean may be near zero by chance, and an overconfident model then has a large loss. So the estimate is the
    mean of the truncated normal distribution around it, which is nearly unchanged if it is precise.
    """
    mean, error = float(np.mean(squares)), float(np.std(squares)) / np.sqrt(squares.size)
    if error == 0:
        return float(np.clip(mean, LEAST_SPREAD, 1))
    ends = (np.array([LEAST_SPREAD, 1.0]) - mean) / error
    return float(np.clip(truncnorm.mean(*ends, loc=mean, scale=error), LEAST_SPREAD, 1))


@dataclass(frozen=True, eq=False)
class Recipe:
    """Training for one loss on the private labels of one mechanism.

    For squared loss, and if values are named, a learner trains on a number for each code. For every other loss it
    learns the conditional distribution of the label, whose best answer is predicted (`ConditionalRegressor`). For classes it learns the
    rate of each (`ClassRates`) regardless of the loss.

    Attributes
    ----------
    mechanism : FiniteMechanism
        What randomized the labels.
    loss : Loss
        The loss that predictions should keep small.
    decoder : str
        The values of codes, a name for `code_values`; "distribution" if there is more than one number for a code, "classes" for rates.

    Examples
    --------
    >>> from labeldp import LabelRandomizer
    >>> from labeldp.learn.conditional import Recipe
    >>> mechanism = LabelRandomizer(1, (0, 400)).rehearse(records=1000)
    >>> Recipe.of(mechanism, "squared").decoder, Recipe.of(mechanism, "absolute").decoder
    ('auto', 'distribution')
    """

    mechanism: FiniteMechanism
    loss: Loss
    decoder: str

    @classmethod
    def of(cls, mechanism: FiniteMechanism, loss: LossLike, target_values: str | None = None) -> Recipe:
        """Return the recipe for a loss, or for values that the user names; raise `InvalidInput` if it cannot work."""
        measure = get_loss(loss)
        check_target_values(target_values)
        if mechanism.domain is not None and mechanism.domain.classes is not None:
            if target_values not in (None, "auto") or not isinstance(measure, Squared):
                raise InvalidInput(
                    "the labels are classes, whose rates are learned: leave out the loss and the target values (--loss, --target-values)"
                )
            return cls(mechanism, measure, "classes")
        if target_values not in (None, "auto") or isinstance(measure, Squared):
            recipe = cls(mechanism, measure, target_values or "auto")
            _ = recipe.values
            return recipe
        domain = mechanism.domain
        if domain is not None:
            check_bounds(measure, domain)
        if mechanism.prior is None:
            raise InvalidInput(
                f"a model for {measure.name} loss needs to know how the labels are distributed, and the mechanism {mechanism.kind} "
                "carries no prior. Use squared loss, or release the labels with the mechanism auto"
            )
        return cls(mechanism, measure, "distribution")

    @property
    def conditional(self) -> bool:
        """Whether the conditional distribution or the rates of classes are learned, from codes."""
        return self.decoder in ("distribution", "classes")

    @cached_property
    def values(self) -> Floats:
        """A number for each code: the training values, or for a conditional recipe the values from which a mean is learned."""
        return code_values(self.mechanism, "auto" if self.conditional else self.decoder)

    @property
    def share(self) -> float:
        """The worth of a private value as a share of a true label, which sizes the learner."""
        return label_share(self.mechanism, self.values)

    @property
    def many_classes(self) -> bool:
        """Whether the default model is a small one, because every one of many classes needs its own."""
        return self.decoder == "classes" and self.mechanism.outputs.size > MOST_STACKS

    def targets(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the y for the model's `fit`."""
        return codes if self.conditional else self.values[codes]

    def model(self, learner: Any) -> Any:
        """Return the unfitted model, from a regressor that learns means."""
        if self.decoder == "classes":
            return ClassRates(learner, self.mechanism)
        return ConditionalRegressor(learner, self.mechanism, self.loss) if self.conditional else learner


def check_target_values(target_values: object) -> None:
    """Raise `InvalidInput` unless this names values to train on."""
    if target_values is not None and not (isinstance(target_values, str) and target_values in DECODERS):
        raise InvalidInput(f"unknown target values {described(target_values)}; choose from {', '.join(DECODERS)}")
