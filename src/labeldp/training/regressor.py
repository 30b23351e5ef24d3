"""A scikit-learn meta-estimator whose `fit` is label-private."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import Bunch, check_array, column_or_1d, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from labeldp.arrays import Floats, as_numpy
from labeldp.budget import exact_epsilon, float_up
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, expect
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.private_labels import PrivateLabels
from labeldp.randomizer import LabelRandomizer
from labeldp.release.ledger import Ledger
from labeldp.training.boosting import BoostingRegressor
from labeldp.training.rehearsal import default_trees, rehearse
from labeldp.training.sizing import label_share
from labeldp.training.tables import in_memory

if TYPE_CHECKING:
    from labeldp.priors import Prior


class LabelDPRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor whose `fit` is label-private: it randomizes `y` and trains a clone of `estimator` on the private labels.

    Parameters
    ----------
    estimator : regressor, optional
        By default histogram gradient boosting, sized for noisy labels by `boosting_settings`. In a pandas, polars or Arrow
        table it also reads text, categories and dates. Size your own estimator for noisy labels too: large leaves, few
        steps.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of one fit.
    domain : Domain or (lower, upper)
        The public bounds of the labels. They must be given and are never read off `y`.
    loss : str, Loss or callable
        The loss that the mechanism's bins are optimal for.
    mechanism : str
        The name of an exact mechanism. "auto" is designed for training, "rr-on-bins" is the paper's.
    target_values : {"auto", "bins", "debiased", "positive"}
        The values that stand for private labels in training, see `code_values`. "bins" is the paper's choice, "positive" is
        for Poisson and gamma losses.
    prior : Prior, optional
        A public prior. By default a private one is drawn, which takes a part of ε.
    ledger : Ledger, optional
        Charge every fit to `dataset` in this ledger, before anything is drawn. Even before that, the estimator is fitted
        once to made-up targets (your own estimator on 500 rows), so that features it cannot take cost nothing.
    dataset : str, optional
        The dataset in `ledger` to charge.
    clip_predictions : bool
        Clip predictions into the public bounds.
    out_of_range : {"clip", "clip-all", "error"}
        What to do with labels outside the bounds, as in `LabelRandomizer`.

    Attributes
    ----------
    estimator_ : regressor
        The regressor, fitted on private labels.
    mechanism_ : FiniteMechanism
        The public mechanism that randomized them.
    epsilon_spent_ : float
        What this fit cost, rounded up.
    private_labels_ : PrivateLabels
        Set only if training failed: the labels that were released for it, to train on again.

    Notes
    -----
    Privacy: one `fit` is ε-label-DP with respect to `y`, for replacing one label. The fitted object and its pickle hold no
    label and no key. **Every `fit` is a release of its own.** A grid search of ten candidates on five folds releases each label 41
    times, and its scores against raw labels are not private at all. To try several models, randomize once with
    `LabelRandomizer` and use ordinary scikit-learn on `private.values("auto")`.

    There is no `random_state`: secure randomness has no seed, so two fits differ. Sample weights reach the inner estimator
    and must not depend on the labels.

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

    Several models from one release:

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GridSearchCV
    >>> from labeldp import LabelRandomizer
    >>> private = LabelRandomizer(2, (0, 400), mechanism="auto").randomize(200 + 50 * X[:, 0])
    >>> search = GridSearchCV(Ridge(), {"alpha": [0.1, 10]}).fit(X, private.values("auto"))
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
        self.target_values = target_values
        self.prior = prior
        self.ledger = ledger
        self.dataset = dataset
        self.clip_predictions = clip_predictions
        self.out_of_range = out_of_range

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Randomize `y` once and train on the private labels.

        Parameters
        ----------
        X : table or array
            The features.
        y : array-like
            The true labels: numbers, or durations if the domain has a unit.
        sample_weight : array-like, optional
            Weights for the inner estimator. They must not depend on the labels.
        **fit_params : dict
            More parameters for the inner estimator's `fit`.

        Returns
        -------
        LabelDPRegressor
            The fitted regressor itself.

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
        randomizer = LabelRandomizer(
            self.epsilon,
            self.domain,  # type: ignore[arg-type] # None is refused there, with the reason
            self.loss,
            self.mechanism,
            self.prior,
            self.out_of_range,  # type: ignore[arg-type]
        )
        if self.ledger is not None:
            expect(self.ledger, Ledger, "ledger", "make one with Ledger(path), or Ledger.create(path) for a new one")
        elif self.dataset is not None:
            raise InvalidInput("dataset names a dataset in a ledger: give ledger=Ledger(path) too")
        X = in_memory(X)
        labels = randomizer.checked(self._checked(X, y))
        inner = self._inner_params(sample_weight, fit_params)
        private = self._release(randomizer, labels, X, inner)
        self.mechanism_ = private.mechanism
        self.epsilon_spent_ = float_up(
            exact_epsilon(self.epsilon) if self.ledger is not None else private.epsilon_exact
        )
        values = code_values(private.mechanism, self.target_values)
        self.estimator_ = clone(self._estimator()) if self.estimator is not None else _sized_trees(private, values, X)
        try:
            self.estimator_.fit(X, values[private.codes], **inner)
        except Exception as error:
            self.private_labels_ = private
            error.add_note(
                "ε is spent, but the released labels are kept: train on private_labels_.values('auto') of this regressor, at no "
                "further cost."
            )
            raise
        return self

    def predict(self, X: Any) -> Floats:
        """Predict with the inner estimator and clip into the public bounds, unless `clip_predictions` is off.

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
        X = in_memory(X)
        if getattr(X, "ndim", 2) == 2:  # anything else the inner estimator refuses in its own words
            validate_data(self, X, reset=False, skip_check_array=True)
        predictions = np.asarray(self.estimator_.predict(X))
        if not self.clip_predictions:
            return predictions
        domain = Domain.of(self.domain)  # type: ignore[arg-type]
        return np.asarray(np.clip(predictions, domain.lower, domain.upper))

    def _release(self, randomizer: LabelRandomizer, labels: Floats, X: Any, inner: dict[str, Any]) -> PrivateLabels:
        """With a ledger: rehearse, charge, draw, and note the mechanism. Without: only draw."""
        if self.ledger is None:
            return randomizer.randomize_checked(labels)
        if self.dataset is None:
            raise InvalidInput("a ledger needs the name of the dataset to charge: give dataset=…")
        rehearse(self.estimator, X, labels.size, Domain.of(self.domain), inner)  # type: ignore[arg-type]
        code_values(randomizer.rehearse(labels.size), self.target_values)
        release = self.ledger.reserve(self.dataset, Fraction(exact_epsilon(self.epsilon)))
        mechanism = randomizer.design(randomizer.count(labels), labels.size)
        self.ledger.fix(release.id, mechanism_json=mechanism.to_json(), mechanism_digest=mechanism.digest)
        private = PrivateLabels(mechanism.codes(labels), mechanism)
        self.ledger.commit(release.id)
        return private

    def _checked(self, X: Any, y: Any) -> NDArray[Any]:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        validate_data(self, X, skip_check_array=True)
        given = as_numpy(y, "y")
        if given.dtype.kind == "c":
            raise InvalidInput("Complex data not supported: y must be real numbers")
        plain = given.dtype.kind in "fiub"
        if not plain and given.ndim == 2 and given.shape[1] == 1:
            given = given.ravel()
        # The errors of scikit-learn would show text; the randomizer reads durations and Decimal, and refuses the rest.
        flat = column_or_1d(given if plain else np.zeros(given.shape), warn=True)
        least = 1 if self.prior is not None else 2  # no histogram of one record is private
        labels = check_array(flat, ensure_2d=False, dtype="numeric", input_name="y", ensure_min_samples=least)
        check_consistent_length(X, labels)
        return np.asarray(labels, np.float64) if plain else given

    def _inner_params(self, sample_weight: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        if not _routing_enabled():
            return weights | fit_params
        routed: Bunch = process_routing(self, "fit", **weights, **fit_params)
        return dict(routed.estimator.fit)

    def _estimator(self) -> Any:
        return HistGradientBoostingRegressor() if self.estimator is None else self.estimator

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing of scikit-learn: everything passed to `fit` goes to the inner estimator.

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
        tags.non_deterministic = tags.regressor_tags.poor_score = self._noisy()
        return tags

    def _noisy(self) -> bool:
        """Whether two fits differ in practice. From ε = 30 on, a label changes with a chance below 1e-12 for each output."""
        try:
            return exact_epsilon(self.epsilon) < 30
        except InvalidInput:
            return True


def _sized_trees(private: PrivateLabels, values: Floats, features: Any) -> Any:
    """Gradient boosting sized for labels as noisy as these. Given a table, it also reads text, categories and dates."""
    boosting = BoostingRegressor(share=label_share(private.mechanism, values))
    return default_trees(boosting, features, len(private))
