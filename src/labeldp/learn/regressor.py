"""A scikit-learn meta-estimator whose `fit` is label-private.

An estimator chooses a strategy: `SumsFit`, `LabelsFit` or `BothFit`. Each reads everything first and raises an error for what
cannot work (`prepare`), then releases (`release`), then trains on what was released (`train`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import Bunch, _safe_indexing, check_array, column_or_1d, get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.validation import _check_method_params, check_consistent_length, check_is_fitted, validate_data

from labeldp.arrays import Floats, are_durations, as_numpy, duration_numbers
from labeldp.budget import exact_epsilon, float_up
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, RepeatedRelease, described, expect
from labeldp.learn.conditional import ConditionalRegressor, Recipe, check_target_values
from labeldp.learn.estimator_checks import (
    QuietScore,
    check_fit_parameters,
    check_learns_means,
    check_routing,
    check_weights,
    try_fit,
    without_values,
)
from labeldp.learn.feature_tables import FeatureTable, in_memory
from labeldp.learn.learners import BoostingRegressor, EncodedFeatures, StackedRegressor
from labeldp.learn.method import Method, check_method, choose_method, fits_scores, fits_sums, grid_for_sums
from labeldp.learn.score_model import ScoreModel
from labeldp.learn.sums.classes_model import learn_classes
from labeldp.learn.sums.sums_learner import SumsLearner
from labeldp.learn.sums.sums_model import SumsModel
from labeldp.learn.sums_then_labels import (
    MUCH,
    SumsThenLabels,
    design_for_residuals,
    epsilon_for_sums,
    explained_by,
    plan_for_residuals,
)
from labeldp.losses import LossLike, Squared, get_loss
from labeldp.mechanisms import releasable
from labeldp.mechanisms.bias_variance import NormalScores
from labeldp.mechanisms.private_labels import PrivateLabels
from labeldp.priors import BudgetWarning
from labeldp.release.label_range import LabelRange, score_look
from labeldp.release.ledger import Ledger
from labeldp.release.noisy_sums import SCORES, Weighting
from labeldp.release.randomizer import LabelRandomizer, Plan, chosen_rows, person_words
from labeldp.release.sum_queries import SumQueries
from labeldp.sampling import EntryChoice, OsEntropy, person_sizes

if TYPE_CHECKING:
    from labeldp.priors import Prior

SUMS_ARE_KEPT = "ε is spent. What was released until then is in sums_ of this estimator."
TOO_WIDE = "the bounds are too far apart or too close, or epsilon is too small,"
NEGLIGIBLE_NOISE = 30
"""From this ε on, a label changes with a probability below 1e-12 for each output, so that two fits hardly differ."""


class LabelPrivateEstimator(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """What `LabelDPRegressor` and `LabelDPClassifier` share: one release for each fit, and training on what was released.

    A subclass sets the parameters in its `__init__`, reads labels in `_checked` and predicts.
    """

    estimator: Any
    epsilon: Any
    domain: Any
    loss: Any
    mechanism: str
    method: str
    target_values: str
    prior: Prior | None
    ledger: Ledger | None
    dataset: str | None
    out_of_range: str

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, persons: Any = None, **fit_params: Any) -> Self:
        """Release noisy sums of `y`, or randomize it once, and train on that.

        Parameters
        ----------
        X : table or array
            The features.
        y : array-like
            The true labels: numbers, or durations if the domain has a unit; of a classifier, classes.
        sample_weight : array-like, optional
            Weights for the inner estimator. They must not depend on the labels.
        persons : array-like, optional
            The person of each row, integers or text. ε then covers all labels of a person together. A model from labels
            is trained on a few rows of each person, which are chosen independently of labels. A model from sums is
            trained on all rows, and each row of a person with k rows has a weight of 1/k. Which rows exist, and whom
            they belong to, is not protected.
        **fit_params : dict
            More parameters for the inner estimator's `fit`, such as `groups`. They must not depend on the labels. Parameters
            that could carry true labels (`y_val`, `eval_set`, callbacks and every name that is not known) are refused.

        Returns
        -------
        LabelDPRegressor or LabelDPClassifier
            The fitted estimator itself.

        Raises
        ------
        InvalidInput
            If a setting cannot work or a label is refused. Nothing is charged then.
        InsufficientBudget
            If the ledger has less than ε left for the dataset.

        Privacy
        -------
        Costs ε, every time.

        """
        try:
            self._learn(*self._prepared(in_memory(X), y, self._fit_parameters(sample_weight, fit_params), persons))
        finally:
            self._forget()
        return self

    def _prepared(self, X: Any, y: Any, parameters: dict[str, Any], persons: Any) -> tuple[Method, Any]:
        """Return the method and what releases and trains. Everything that can be refused is refused here."""
        self._check_settings()
        with without_values():
            labels = self._checked(X, y)
        randomizer = self._randomizer()
        people = None if persons is None else People.prepare(randomizer, persons, len(labels))
        method = self._chosen(len(labels), X, parameters, people)
        return method, self._strategy(method, randomizer, X, labels, parameters, people)

    def _learn(self, method: Method, fitting: Any, count: Callable[[Fraction], None] | None = None) -> None:
        """Release and train. `count` counts the cost of the release too, before anything is drawn."""

        def counted(spent: Fraction) -> None:
            self._count(spent)
            if count is not None:
                count(spent)

        private = fitting.release(counted)
        self._drop_release()
        self.method_ = method
        fitting.train(self, private)
        self._trained()

    def _drop_release(self) -> None:
        """Drop what an earlier fit released: the object and its pickle hold what comes from one fit."""
        for name in ("estimator_", "estimators_", "method_", "mechanism_", "sums_", "private_labels_", "first_"):
            self.__dict__.pop(name, None)

    def _strategy(
        self,
        method: Method,
        randomizer: LabelRandomizer,
        X: Any,
        labels: NDArray[Any],
        parameters: dict[str, Any],
        people: People | None,
    ) -> Any:
        """Return what releases and trains with this method."""
        if method.name == "sums":
            return SumsFit.prepare(self, X, labels, people)
        if method.name == "both":
            return BothFit.prepare(self, randomizer, X, labels, people)
        return LabelsFit.prepare(self, randomizer, X, labels, parameters, people)

    def _trained(self) -> None:
        """Take note of what the labels were, after training."""

    def _forget(self) -> None:
        """Drop what only a fit needs, also after one that failed."""

    def plot_effects(self, **options: Any) -> Any:
        """Draw what each column does to the prediction, with the known uncertainty. Only models from sums can be shown so.

        Parameters
        ----------
        **options : dict
            As `SumsModel.plot_effects` takes them.

        Returns
        -------
        matplotlib.figure.Figure

        """
        check_is_fitted(self, "estimator_")
        if self.method_.name != "sums":
            raise InvalidInput(
                "effects with a known uncertainty can be drawn for a model from noisy sums only, and this one was trained on noisy "
                f'labels ({self.method_.why}). Fit with method="sums"'
            )
        return self.estimator_.plot_effects(**options)

    @property
    def _bounds(self) -> Domain:
        return Domain.of(self.domain)

    def _check_settings(self) -> None:
        """Raise an error for settings that cannot work, before a label is read."""
        self._randomizer()
        self._check_ledger()

    def _randomizer(self) -> LabelRandomizer:
        return LabelRandomizer(
            self.epsilon,
            self.domain,  # None is refused there, with the reason
            self.loss,
            self.mechanism,
            self.prior,
            self.out_of_range,  # type: ignore[arg-type]
        )

    def _check_ledger(self) -> None:
        if self.ledger is None:
            if self.dataset is not None:
                raise InvalidInput("dataset names a dataset in a ledger: give ledger=Ledger(path) too")
            return
        expect(self.ledger, Ledger, "ledger", "make one with Ledger(path), or Ledger.create(path) for a new one")
        if self.dataset is None:
            raise InvalidInput("a ledger needs the name of the dataset to charge: give dataset=…")
        if not isinstance(self.dataset, str):
            raise InvalidInput(f"dataset must be the name of a dataset in the ledger, got {described(self.dataset)}")

    def _checked(self, X: Any, y: Any) -> NDArray[Any]:
        """Return the labels as a column as long as the features. Their values are checked when they are read."""
        given = self._given(X, y)
        if given.dtype.kind == "c":
            raise InvalidInput("Complex data not supported: y must be real numbers")
        plain = given.dtype.kind in "fiub"
        # The errors of scikit-learn would show text; the randomizer reads durations and Decimal, and refuses the rest.
        flat = self._column(X, given if plain else np.zeros(given.shape))
        return np.asarray(flat, np.float64) if plain else given.ravel() if given.ndim == 2 else given

    def _given(self, X: Any, y: Any) -> NDArray[Any]:
        """Return the labels unchanged, and record the columns of the features."""
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        validate_data(self, X, skip_check_array=True)
        return as_numpy(y, "y")

    def _column(self, X: Any, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return numbers as one column as long as the features."""
        flat = column_or_1d(numbers, warn=True)
        least = 1 if self.prior is not None else 2  # no histogram of one record is private
        found = check_array(flat, ensure_2d=False, dtype="numeric", input_name="y", ensure_min_samples=least)
        check_consistent_length(X, found)
        return np.asarray(found)

    def _fit_parameters(self, sample_weight: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        parameters = weights | fit_params
        if _routing_enabled():
            routed: Bunch = process_routing(self, "fit", **parameters)
            parameters = dict(routed.estimator.fit)
            if parameters:
                check_routing(get_routing_for_object(self._estimator()))
        check_fit_parameters(parameters)  # after routing, which renames parameters
        return parameters

    def _chosen(self, records: int, X: Any, parameters: dict[str, Any], people: People | None) -> Method:
        """Return sums or labels. What only labels can do is refused for sums, before anything is drawn."""
        check_method(self.method)
        check_target_values(self.target_values)
        only_labels = {
            "an estimator of your own": self.estimator is not None,
            f"the mechanism {self.mechanism!r}": self.mechanism != "auto",
            "target values": self.target_values != "auto",
            "a prior": self.prior is not None,
            "sample weights or other parameters of fit": any(value is not None for value in parameters.values()),
        }
        given = next((what for what, there in only_labels.items() if there), None)
        if self.method == "labels":
            return Method("labels", "as asked for")
        sizes = None if people is None else people.sizes
        own = epsilon_for_sums(exact_epsilon(self.epsilon), records if sizes is None else int(sizes.sum()))
        fits = fits_sums(self._bounds) and (
            isinstance(get_loss(self.loss), Squared) or fits_scores(own, 1 if people is None else people.weight)
        )
        if self.method != "auto":
            if given is not None:
                raise InvalidInput(f'noisy sums learn means without {given}: leave it out, or use method="labels"')
            if not fits:
                raise InvalidInput(f"{TOO_WIDE} for sums: give the labels in another unit")
            return Method(self.method, "as asked for")
        if given is not None:
            return Method("labels", f"only labels can be used with {given}")
        if records < 2:
            return Method("labels", "there is one record only")
        if not fits:
            return Method("labels", f"{TOO_WIDE} for sums")
        columns = getattr(X, "shape", (0, 1))[-1]
        return choose_method(records, float(exact_epsilon(self.epsilon)), columns, self._bounds, sizes)

    def _count(self, spent: Fraction) -> None:
        """Add up what this object has spent, and warn at the first repeat among it and its clones."""
        self._spent = getattr(self, "_spent", Fraction(0)) + spent
        self.epsilon_spent_ = float_up(self._spent)
        family = self._family()
        family["fits"] += 1
        if family["fits"] == 2:
            warnings.warn(
                f"this is the second fit of this {type(self).__name__} or a clone of it, and every fit releases its labels again. "
                "A record that is in two fits costs twice epsilon. To try several models, folds or settings, "
                "randomize once with LabelRandomizer and use ordinary scikit-learn on private.values(), or for a loss other than "
                "squared ConditionalRegressor on the private labels. This warning is shown once.",
                RepeatedRelease,
                stacklevel=4,
            )

    def _family(self) -> dict[str, int]:
        """Return the number of fits, which clones share, so that a grid search is noticed."""
        return self.__dict__.setdefault("_fits", {"fits": 0})  # type: ignore[no-any-return]

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        copy.__dict__["_fits"] = self._family()
        return copy

    def _estimator(self) -> Any:
        return HistGradientBoostingRegressor() if self.estimator is None else self.estimator

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing of scikit-learn: parameters of `fit` that cannot carry labels go to the inner estimator.

        Returns
        -------
        MetadataRouter
            The router.

        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add(estimator=self._estimator(), method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._estimator())
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.target_tags.required = True
        try:
            noisy = exact_epsilon(self.epsilon) < NEGLIGIBLE_NOISE
        except InvalidInput:
            noisy = True
        tags.non_deterministic = noisy
        return tags


class LabelDPRegressor(QuietScore, LabelPrivateEstimator):
    """A regressor whose `fit` is label-private: it learns from noisy sums of `y`, or from labels that are randomized one by one.

    Parameters
    ----------
    estimator : regressor, optional
        What learns means from randomized labels, with squared loss. Without one, `method` decides; labels are then learned by a stack
        of models that sizes itself by validation on the private labels (`StackedRegressor`). In a pandas, polars or Arrow table text,
        categories and dates are read too. Size your own estimator for noisy labels: large leaves, few steps. `BoostingRegressor()`
        is 70 times as fast as the stack and less accurate.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of one fit.
    domain : Domain or (lower, upper), or a list of them
        The public bounds of the labels. They must be given and are never read off `y`. A list has the bounds of each column, if `y` has
        several; otherwise all have the same.
    loss : str, Loss or callable
        The loss that predictions should keep small. For squared loss the model learns the mean. For any other it learns the
        label's conditional distribution and predicts the answer that loses least: a median, a quantile, a positive mean. A
        callable is called as loss(output, label).
    mechanism : str
        The name of an exact mechanism. "auto" is designed for training, "rr-on-bins" is the paper's.
    method : {"auto", "labels", "sums", "both"}
        "labels" randomizes each label and trains on the result. "sums" adds noise to sums of labels over groups of records that
        the features define, which needs far less noise while ε is small, and learns effects of columns and of pairs of columns.
        "both" spends at most a fifth of ε on sums. Where these explain much, it randomizes labels minus their predictions, which
        need less noise than labels; elsewhere it randomizes labels. For losses other than squared, labels are replaced by their normal
        scores in sums and in residuals. "auto" takes sums or both, from ε and the number of records, or labels if something is given
        that only they have: an estimator, a mechanism, a prior, values, sample weights.
    target_values : {"auto", "bins", "debiased", "positive"}
        The values that represent private labels in training. "auto" is the best recipe for the loss. The others are single
        numbers for each code, see `code_values`; "bins" is the paper's choice.
    prior : Prior, optional
        A public prior. By default a private one is drawn, which takes a part of ε.
    ledger : Ledger, optional
        Charge every fit to `dataset` in this ledger, before anything is drawn. Even before that, features, weights and
        settings are checked, and your own estimator is fitted once to 500 rows with synthetic targets as extreme as
        private values can be, so that a setup that cannot work costs nothing.
    dataset : str, optional
        The dataset in `ledger` to charge.
    clip_predictions : bool
        Clip predictions into the public bounds.
    out_of_range : {"clip", "clip-all", "error"}
        What to do with labels outside the bounds, as in `LabelRandomizer`.

    Attributes
    ----------
    estimator_ : regressor
        The regressor, fitted on private labels, the `SumsModel` (a `ScoreModel` for losses other than squared), or both of them. It is
        public.
    method_ : Method
        Which method was used, and why.
    mechanism_ : FiniteMechanism
        The public mechanism that randomized the labels, or labels minus predictions; not there for sums.
    sums_ : PrivateSums
        The noisy sums with their proof, and their part of ε; not set for labels. If training failed, these are the sums that were released
        until then.
    estimators_ : list of LabelDPRegressor
        The fitted regressor of each column, if `y` had several. The attributes above are theirs then.
    epsilon_spent_ : float
        The total cost of all fits of this object, rounded up, including fits that failed after the charge.
    private_labels_ : PrivateLabels
        Set only if training failed: the labels that were released for it, to train on again. There is no `estimator_` then. The
        next fit that releases labels drops them. If `first_` is set too, they are labels minus `first_.predict(X)`.

    Notes
    -----
    Privacy: one `fit` is ε-label-DP with respect to `y`, for replacing one label. The fitted object and its pickle contain no
    labels and no keys, and nothing of earlier fits. **Every `fit` is a new release.** A grid search of ten candidates on five folds releases each label 41 times, and its scores against raw labels are
    not private at all. The first repeat among an object and its clones gives a `RepeatedRelease` warning (worker processes
    count for themselves). To try several models, randomize once with `LabelRandomizer` and use ordinary scikit-learn on
    `private.values()`.

    There is no `random_state`: secure randomness cannot be seeded, so two fits differ. Sample weights reach the inner
    estimator and must not depend on the labels. The same holds for what `estimator` contains before `fit`, such as a
    frozen step, a callback or validation data.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import LabelDPRegressor
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> model = LabelDPRegressor(epsilon=2, domain=(0, 400)).fit(X, 200 + 50 * X[:, 0])
    >>> model.predict(X).shape
    (1000,)
    >>> model.epsilon_spent_
    2.0

    Two labels of each row for one ε:

    >>> y = np.column_stack([200 + 50 * X[:, 0], 10 + 2 * X[:, 1]])
    >>> both = LabelDPRegressor(epsilon=2, domain=[(0, 400), (0, 20)]).fit(X, y)
    >>> both.predict(X).shape, both.epsilon_spent_
    ((1000, 2), 2.0)

    Several models from one release:

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GridSearchCV
    >>> from labeldp import LabelRandomizer
    >>> private = LabelRandomizer(2, (0, 400)).randomize(200 + 50 * X[:, 0])
    >>> search = GridSearchCV(Ridge(), {"alpha": [0.1, 10]}).fit(X, private.values())
    >>> search.predict(X).shape
    (1000,)

    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        epsilon: float = 1.0,
        domain: Domain | tuple[float, float] | None = None,
        loss: Any = "squared",
        mechanism: str = "auto",
        method: str = "auto",
        target_values: str = "auto",
        prior: Prior | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        clip_predictions: bool = True,
        out_of_range: str = "clip",
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.domain = domain
        self.loss = loss
        self.mechanism = mechanism
        self.method = method
        self.target_values = target_values
        self.prior = prior
        self.ledger = ledger
        self.dataset = dataset
        self.clip_predictions = clip_predictions
        self.out_of_range = out_of_range

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, persons: Any = None, **fit_params: Any) -> Self:
        """Release noisy sums of `y`, or randomize it once, and train on that.

        Parameters
        ----------
        X : table or array
            The features.
        y : array-like
            The true labels: numbers, or durations if the domain has a unit. An array with several columns has several labels of each
            row. Then ε covers all labels of a row together, or of a person: every row, or every person, is used for one of the
            columns, chosen independently of labels.
        sample_weight : array-like, optional
            Weights for the inner estimator. They must not depend on the labels.
        persons : array-like, optional
            The person whom each row belongs to, integers or text. ε then covers all labels of a person together. A model from labels is
            trained on a few rows of each person, which are chosen independently of labels. A model from sums is trained on all rows,
            where each row of a person with k rows has the weight 1/k. Which rows exist, and whom they belong to, is not protected.
        **fit_params : dict
            More parameters for the inner estimator's `fit`, such as `groups`. They must not depend on the labels. Parameters
            that could carry true labels (`y_val`, `eval_set`, callbacks and every name that is not known) are refused.

        Returns
        -------
        LabelDPRegressor
            The fitted estimator itself.

        Raises
        ------
        InvalidInput
            If a setting cannot work or a label is refused. Nothing is charged then.
        InsufficientBudget
            If the ledger has less than ε left for the dataset.

        Privacy
        -------
        Costs ε, every time.

        """
        labels = as_numpy(y, "y") if isinstance(y, Sized) else None
        if labels is None or labels.ndim != 2 or labels.shape[1] < 2:
            if isinstance(self.domain, list):
                raise InvalidInput("domain is a list, which is for several columns of labels: give the bounds of one")
            return super().fit(X, y, sample_weight, persons=persons, **fit_params)
        X, parameters = in_memory(X), self._fit_parameters(sample_weight, fit_params)
        check_consistent_length(X, labels)
        validate_data(self, X, skip_check_array=True)
        models = self._of_columns(labels.shape[1])
        words = person_words(
            EntryChoice.of(OsEntropy()), np.arange(len(labels)) if persons is None else persons, len(labels)
        )
        column_of = np.unique(words, return_inverse=True)[1] % len(models)
        prepared = []
        for number, model in enumerate(models):
            rows = np.flatnonzero(column_of == number)
            own = None if persons is None else words[rows]
            given = _check_method_params(X, parameters, indices=rows)
            prepared.append(model._prepared(_safe_indexing(X, rows), labels[rows, number], given, own))  # noqa: SLF001
        self._drop_release()
        self.estimators_ = models
        for number, (model, fitting) in enumerate(zip(models, prepared, strict=True)):
            # The first one charges ε, which covers the others.
            model._learn(*fitting, None if number else self._count)  # noqa: SLF001
        return self

    def _of_columns(self, columns: int) -> list[LabelDPRegressor]:
        """Return an estimator for each column of labels. They learn from other persons each, so the charge of the first covers all."""
        domains = self.domain if isinstance(self.domain, list) else [self.domain] * columns
        if len(domains) != columns:
            raise InvalidInput(
                f"y has {columns} columns and domain has {len(domains)} entries: give one for each column, or one pair of bounds for all"
            )
        settings = self.get_params(deep=False)
        free = {"ledger": None, "dataset": None}
        self._check_ledger()
        return [
            type(self)(**settings | {"domain": domain} | (free if number else {}))
            for number, domain in enumerate(domains)
        ]

    def predict(self, X: Any) -> Floats:
        """Predict with the inner estimator and clip into the public bounds, unless `clip_predictions` is off.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        array of float
            A prediction for each row, or a row of predictions if `y` had several columns.

        """
        if hasattr(self, "estimators_"):
            return np.column_stack([model.predict(X) for model in self.estimators_])
        check_is_fitted(self, "estimator_")
        X = in_memory(X)
        if getattr(X, "ndim", 2) == 2:  # anything else the inner estimator refuses
            validate_data(self, X, reset=False, skip_check_array=True)
        with without_values("the features"):
            predict = getattr(self.estimator_, "unbounded", self.estimator_.predict)  # a model from sums clips its own
            predictions = np.asarray(predict(X))
        if not self.clip_predictions:
            return predictions
        domain = self._bounds
        return np.asarray(np.clip(predictions, domain.lower, domain.upper))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of the predictions.

        Parameters
        ----------
        X : table or array
            The features.
        y : array-like
            The labels to compare with: numbers, or durations if the domain has a unit. What comes out depends on them and is not
            private.
        sample_weight : array-like, optional
            A weight for each row.

        Returns
        -------
        float
            At most 1; 0 is as good as always answering the mean of `y`.

        """
        if isinstance(y, Sized):  # anything else is not a column of labels, and is refused below
            given = as_numpy(y, "labels")
            if are_durations(given):  # as plain numbers they would be in another unit
                y = duration_numbers(given, self._bounds.unit, "labels")
        return super().score(X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = tags.non_deterministic
        tags.target_tags.multi_output = True
        return tags


@dataclass(frozen=True, eq=False)
class Unit:
    """What ε is for: a record, or a person of whose rows those with the numbers `rows` were chosen, at most `entries` of each."""

    rows: NDArray[np.int64] | None = None
    entries: int = 1

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return "record" if self.rows is None else "person"


@dataclass(frozen=True, eq=False)
class People:
    """Persons as the unit of privacy: the word of each row's person, and the plan for labels of these persons."""

    choice: EntryChoice
    words: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    plan: Plan

    @classmethod
    def prepare(cls, randomizer: LabelRandomizer, persons: Any, records: int) -> Self:
        choice = EntryChoice.of(OsEntropy())
        words = person_words(choice, persons, records)
        sizes = person_sizes(words)
        plan = randomizer.plan(records, sizes)
        plan.warn(stacklevel=3)
        return cls(choice, words, sizes, plan)

    @property
    def weight(self) -> int:
        """The weight of a person in sums."""
        return Weighting.weight_for(int(np.unique(self.words, return_counts=True)[1].max()))

    def unit(self) -> Unit:
        """Choose the rows whose labels are randomized."""
        return Unit(chosen_rows(self.choice, self.words, self.plan.entries), self.plan.entries)


@dataclass(frozen=True, eq=False)
class SumsFit:
    """A model from noisy sums of the labels, or for losses other than squared of their normal scores."""

    learner: SumsLearner
    queries: SumQueries
    features: Any
    scored: bool

    @classmethod
    def prepare(
        cls,
        model: LabelPrivateEstimator,
        X: Any,
        labels: NDArray[Any],
        people: People | None,
        reserved: Fraction = Fraction(0),
    ) -> Self:
        """Read everything. `reserved` is a part of ε that is charged and left to something else."""
        with without_values("the features"):
            if not FeatureTable.is_frame(X):
                check_array(X, dtype=np.float64, ensure_all_finite=False)
            learner = SumsLearner(X)
        domain = Domain.of(model.domain)
        epsilon = exact_epsilon(model.epsilon) - reserved
        weight = 1 if people is None else people.weight
        grid = replace(grid_for_sums(domain, epsilon, weight), unit=domain.unit)
        loss = get_loss(model.loss)
        loss.check_assumption([domain.lower, domain.upper])
        queries = SumQueries(
            labels,
            epsilon,
            grid,
            out_of_range=model.out_of_range,  # type: ignore[arg-type]
            ledger=model.ledger,
            dataset=model.dataset,
            persons=None if people is None else people.words,
            reserved=reserved,
        )
        return cls(learner, queries, X, not isinstance(loss, Squared))

    def release(self, count: Callable[[Fraction], None]) -> None:
        """Charge ε. Sums are drawn while the model is trained, because later ones depend on earlier ones."""
        self.queries.charge()
        count(self.queries.epsilon_exact + self.queries.reserved)

    def learn(
        self, model: LabelPrivateEstimator, found: tuple[LabelRange, ...] | None = None
    ) -> tuple[Any, NormalScores | None]:
        """Ask for the sums. Return a model of means or rates, or a model of scores and the scores.

        `found` is the first look, if it was taken already: one range, or one for each of several classes.
        """
        try:
            with noting(SUMS_ARE_KEPT):
                if len(self.queries.domain.classes or ()) > 2:
                    return learn_classes(self.learner, self.queries, found), None
                one, scores = score_look(self.queries) if self.scored else (None if found is None else found[0], None)
                return self.learner.learn(self.queries, one), scores
        finally:
            model.sums_ = self.queries.released

    def train(
        self, model: LabelPrivateEstimator, _: PrivateLabels | None, found: tuple[LabelRange, ...] | None = None
    ) -> None:
        first, scores = self.learn(model, found)
        model.estimator_ = first if scores is None else ScoreModel.of(first, scores, model.loss, self.features)


@dataclass(frozen=True, eq=False)
class BothFit:
    """A model from noisy sums of the labels, then one from labels, or labels minus its predictions, that are randomized one by one."""

    sums: SumsFit
    plan: Plan
    plan_of_residuals: Plan
    features: Any
    labels: Floats
    unit: Unit

    @classmethod
    def prepare(
        cls,
        model: LabelPrivateEstimator,
        randomizer: LabelRandomizer,
        X: Any,
        labels: NDArray[Any],
        people: People | None,
    ) -> Self:
        epsilon, unit = exact_epsilon(model.epsilon), Unit() if people is None else people.unit()
        size = len(labels) if people is None else int(people.sizes.sum())
        later = epsilon - epsilon_for_sums(epsilon, size)
        sums = SumsFit.prepare(model, X, labels, people, later)
        values = replace(randomizer, out_of_range="clip-all").checked(labels)  # the sums have checked what is allowed
        if unit.rows is not None:
            X, values = _safe_indexing(X, unit.rows), values[unit.rows]
        each, domain = later / unit.entries, SCORES if sums.scored else sums.queries.domain
        plan = replace(randomizer, epsilon=each).plan(values.size)
        plan.warn(stacklevel=3)
        return cls(sums, plan, plan_for_residuals(domain.upper - domain.lower, each, values.size), X, values, unit)

    def release(self, count: Callable[[Fraction], None]) -> None:
        """Charge ε. Everything is drawn while the model is trained, because later steps depend on earlier ones."""
        self.sums.release(count)

    def train(self, model: LabelPrivateEstimator, _: None) -> None:
        first, scores = self.sums.learn(model)
        with noting(SUMS_ARE_KEPT):
            predictions = first.predict(self.features)
            explained = explained_by(first, predictions)
            residuals = explained >= MUCH
            private = self._randomized(predictions if residuals else None, scores)
        model.mechanism_ = private.mechanism
        what = "labels" if scores is None else "scores of labels"
        try:
            with keeping(model, private):
                model.estimator_ = self._fitted(first, private, model.loss, scores, residuals=residuals)
        except BaseException as error:
            if residuals:
                model.first_ = first
                error.add_note(f"These are not labels, but {what} minus first_.predict(X).")
            raise
        what = "residuals" if residuals else "labels"
        model.method_ = Method(
            "both", f"{model.method_.why}; sums explain about {100 * explained:.0f} %, so {what} were randomized"
        )

    def _fitted(
        self,
        first: SumsModel,
        private: PrivateLabels,
        loss: LossLike,
        scores: NormalScores | None,
        *,
        residuals: bool,
    ) -> Any:
        """Train on what was randomized, with the predictions of the sums as one more column."""
        if scores is not None:
            own = scores if residuals else None
            return ConditionalRegressor(None, private.mechanism, loss, first=first, scores=own).fit(
                self.features, private
            )
        recipe = Recipe.of(private.mechanism, "squared")
        fitted = SumsThenLabels(first, residuals=residuals, share=recipe.share)
        return fitted.fit(self.features, recipe.targets(private.codes))

    def _randomized(self, predictions: Floats | None, scores: NormalScores | None) -> PrivateLabels:
        """Spend the rest of ε on the labels, or on labels or their scores minus predictions."""
        values = self.labels
        if predictions is None:
            mechanism = self.plan.fit(values)
        else:
            values = values if scores is None else np.clip(scores.at(values), SCORES.lower, SCORES.upper)
            values = values - predictions
            narrow, mechanism = design_for_residuals(values, self.plan_of_residuals)
            values = np.clip(values, narrow.lower, narrow.upper)
        return PrivateLabels(mechanism.codes(values), mechanism, self.unit.rows, self.unit.entries)


@dataclass(frozen=True, eq=False)
class LabelsFit:
    """A model from labels that are randomized one by one: all, or the chosen ones of persons."""

    plan: Plan
    features: Any
    labels: Floats
    parameters: dict[str, Any]
    ledger: Ledger | None
    dataset: str
    unit: Unit

    @classmethod
    def prepare(
        cls,
        model: LabelPrivateEstimator,
        randomizer: LabelRandomizer,
        X: Any,
        labels: Any,
        parameters: dict[str, Any],
        people: People | None,
    ) -> Self:
        check_weights(X, parameters)
        unit = Unit()
        if people is not None:
            unit = people.unit()
            parameters = _check_method_params(X, parameters, indices=unit.rows)
            X, labels = _safe_indexing(X, unit.rows), labels[unit.rows]
            randomizer = replace(randomizer, epsilon=exact_epsilon(model.epsilon) / unit.entries)
        values = randomizer.checked(labels)
        loss, default = get_loss(model.loss), model.estimator is None
        if not default and model.target_values == "auto":
            check_learns_means(model.estimator, loss)
        features = _encoded(X, parameters) if default else X
        # With a private prior, the default estimator works for every named loss. Otherwise a design without labels is tried.
        own_loss = model.ledger is not None and not isinstance(model.loss, str)
        if not default or own_loss or model.target_values != "auto" or not releasable(model.mechanism).needs_prior:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BudgetWarning)
                mechanism = randomizer.rehearse(values.size)
            recipe = Recipe.of(mechanism, loss, model.target_values)
            if not default:
                extremes = [recipe.values.min(), recipe.values.max()]
                targets = np.resize(extremes, values.size)
                try_fit(model.estimator, X, targets, parameters, loss)
        plan = randomizer.plan(values.size)
        plan.warn(stacklevel=3)
        return cls(plan, features, values, parameters, model.ledger, str(model.dataset), unit)

    def release(self, count: Callable[[Fraction], None]) -> PrivateLabels:
        """Charge ε and draw. The cost is counted before anything is drawn."""
        unit, release = self.unit, ""
        cost = unit.entries * self.plan.epsilon
        if self.ledger is not None:
            release = self.ledger.reserve(self.dataset, cost, unit=unit.name, entries=unit.entries).id
        count(cost)
        mechanism = self.plan.fit(self.labels)
        if self.ledger is not None:
            self.ledger.fix(release, mechanism)
        private = PrivateLabels(mechanism.codes(self.labels), mechanism, unit.rows, unit.entries)
        if self.ledger is not None:
            self.ledger.commit(release)
        return private

    def train(self, model: LabelPrivateEstimator, private: Any) -> None:
        model.mechanism_ = private.mechanism
        with keeping(model, private):
            recipe = Recipe.of(private.mechanism, model.loss, model.target_values)
            fitted = recipe.model(self._learner(model.estimator, recipe))
            with without_values():
                fitted.fit(self.features, recipe.targets(private.codes), **self.parameters)
        model.estimator_ = fitted

    def _learner(self, estimator: Any, recipe: Recipe) -> Any:
        """Return a clone of the user's estimator, or a stack for values of that worth. Arrays are not encoded."""
        if isinstance(estimator, BoostingRegressor):  # which a user cannot size: the share is known here
            return clone(estimator).set_params(share=recipe.share)
        if estimator is not None:
            return clone(estimator)
        if recipe.many_classes:
            return BoostingRegressor(share=recipe.share)
        stack = StackedRegressor(share=recipe.share)
        encoded = recipe.conditional or isinstance(self.features, EncodedFeatures)
        return stack if encoded else stack.model(self.labels.size)


@contextmanager
def noting(note: str) -> Iterator[None]:
    """Add a note to any error, also to an interrupt."""
    try:
        yield
    except BaseException as error:
        error.add_note(note)
        raise


@contextmanager
def keeping(model: LabelPrivateEstimator, private: PrivateLabels) -> Iterator[None]:
    """Keep the released labels if training on them fails or is interrupted."""
    rows = "." if private.rows is None else ", and on the rows private_labels_.rows of the features."
    with noting(
        "ε is spent, but the released labels are kept: train on private_labels_.values() of this estimator, at no "
        f"further cost{rows}"
    ):
        try:
            yield
        except BaseException:
            model.private_labels_ = private
            raise


def _encoded(X: Any, parameters: dict[str, Any]) -> Any:
    """Return features that the default estimator can read: a table is encoded, an array only checked."""
    if others := sorted(parameters.keys() - {"sample_weight"}):
        raise InvalidInput(
            f"the default estimator takes sample_weight and no {others[0]}: leave it out, or give an estimator"
        )
    if FeatureTable.is_frame(X):
        return StackedRegressor().encode(X)
    with without_values("the features"):
        check_array(X, dtype=np.float64, ensure_all_finite=False)
    return X
