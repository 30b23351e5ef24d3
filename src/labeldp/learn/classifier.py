"""A scikit-learn meta-estimator for classes whose `fit` is label-private."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.arrays import Floats
from labeldp.budget import exact_epsilon
from labeldp.domain import MOST_CLASSES, Domain, named_classes
from labeldp.errors import ClassesWarning, InvalidInput, described
from labeldp.learn.estimator_checks import without_values
from labeldp.learn.feature_tables import in_memory
from labeldp.learn.method import Method, check_method, labels_pay
from labeldp.learn.regressor import LabelPrivateEstimator, LabelsFit, People, SumsFit
from labeldp.learn.sums.sums_model import SumsModel
from labeldp.mechanisms import PrivateLabels
from labeldp.release.label_range import LabelRange, class_looks, first_look
from labeldp.release.ledger import Ledger
from labeldp.release.randomizer import LabelRandomizer


class LabelDPClassifier(ClassifierMixin, LabelPrivateEstimator):  # type: ignore[misc]
    """A classifier whose `fit` is label-private: it learns from noisy sums of `y`, or from classes that are randomized one by one.

    Parameters
    ----------
    estimator : regressor, optional
        What learns rates from randomized classes: a *regressor* of squared loss. Without one, `method` decides; randomized classes are
        then learned by a stack of models that sizes itself (`StackedRegressor`), more than four classes by small models. In a pandas, polars or Arrow table text, categories
        and dates are read too.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of one fit.
    classes : sequence, optional
        The 2 to 20 classes, which are public: text, numbers or booleans. `predict_proba` has a column for each, in sorted order. Booleans
        and the numbers 0 and 1 need not be named. If others are not named, the classes that occur in `y` are taken, with a
        `ClassesWarning`, since a class that only one record has would be revealed.
    method : {"auto", "labels", "sums"}
        "labels" randomizes each class and trains on the result. "sums" adds noise to sums over groups of records that the features
        define, and learns the effects of columns and of pairs of columns on the odds. "auto" takes
        sums where a smaller log loss is expected of them, from ε, the number of records and noisy counts of the classes.
    ledger : Ledger, optional
        Charge every fit to `dataset` in this ledger, before anything is drawn, and after everything that can be checked was checked.
    dataset : str, optional
        The dataset in `ledger` to charge.

    Attributes
    ----------
    classes_ : array
        The classes, sorted.
    estimator_ : ClassRates, SumsModel, or ClassesModel for three or more classes from sums
        The model. It is public.
    method_ : Method
        Which method was used, and why.
    mechanism_ : FiniteMechanism
        The randomized response; not there for sums.
    sums_ : PrivateSums
        The noisy sums with their proof. For labels these are the noisy counts of the classes, if they decided between the methods; the
        cost of the two adds up to ε.
    epsilon_spent_ : float
        The total cost of all fits of this object, rounded up, including fits that failed after the charge.
    private_labels_ : PrivateLabels
        Set only if training failed: the classes that were released for it.

    Notes
    -----
    Privacy: one `fit` is ε-label-DP with respect to `y`, for replacing the class of one record by another. Every `fit` is a new
    release. What `LabelDPRegressor` says about repeated fits, weights and pickles holds here too.

    Probabilities are calibrated on what was released: they are never 0 or 1, and over the training records their mean is the private
    estimate of the rate of each class.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import LabelDPClassifier
    >>> generator = np.random.default_rng(0)
    >>> X = generator.normal(size=(5000, 2))
    >>> bought = np.where(X[:, 0] + generator.logistic(size=5000) > 1, "yes", "no")
    >>> model = LabelDPClassifier(epsilon=1, classes=["no", "yes"]).fit(X, bought)
    >>> model.predict_proba([[-3, 0], [3, 0]])[:, 1].round()
    array([0., 1.])
    >>> model.predict([[3, 0]]).tolist()
    ['yes']
    """

    loss = "squared"
    mechanism = target_values = "auto"
    prior = None
    out_of_range = "error"

    def __init__(
        self,
        estimator: Any = None,
        *,
        epsilon: float = 1.0,
        classes: Sequence[Any] | None = None,
        method: str = "auto",
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.classes = classes
        self.method = method
        self.ledger = ledger
        self.dataset = dataset

    @property
    def domain(self) -> Domain:
        """The positions of the classes that a fit has found."""
        return named_classes(self._found)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        array of float of shape (rows, classes)
            In the order of `classes_`; never 0 or 1.
        """
        check_is_fitted(self, "estimator_")
        X = in_memory(X)
        if getattr(X, "ndim", 2) == 2:  # anything else the inner estimator refuses
            validate_data(self, X, reset=False, skip_check_array=True)
        with without_values("the features"):
            if not isinstance(self.estimator_, SumsModel):
                return np.asarray(self.estimator_.predict_proba(X))
            rates = self.estimator_.predict(X)
        return np.column_stack([1 - rates, rates])

    def decision_function(self, X: Any) -> Floats:
        """Return the logarithm of the odds of the second class, or the logarithm of the probability of each of more classes.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        array of float of shape (rows,) or (rows, classes)
        """
        rates = self.predict_proba(X)
        return np.asarray(logit(rates[:, 1]) if rates.shape[1] == 2 else np.log(rates))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class for each row. Where one class is rare that is often the other one: see `predict_proba`.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        array
            A class for each row.
        """
        rates = self.predict_proba(X)
        return np.asarray(self.classes_[rates.argmax(axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose most probable class is right.

        Parameters
        ----------
        X : table or array
            The features.
        y : array-like
            The classes to compare with. The result depends on them and is not private.
        sample_weight : array-like, optional
            A weight for each row.

        Returns
        -------
        float
            From 0 to 1.
        """
        with without_values():
            return float(super().score(X, y, sample_weight))

    def _check_settings(self) -> None:
        exact_epsilon(self.epsilon)
        if self.classes is not None:
            named_classes(_named(self.classes))
        self._check_ledger()

    def _checked(self, X: Any, y: Any) -> NDArray[Any]:
        """Return the name of each record's class. Labels that cannot be classes are refused here, before anything is charged."""
        given = self._given(X, y)
        if given.dtype.kind == "c":
            raise InvalidInput("Complex data not supported: y must be classes")
        numbers = given.dtype.kind in "fiub"
        self._column(X, given if numbers else np.zeros(given.shape))
        flat = given.ravel()
        if flat.dtype.kind == "f" and type_of_target(flat).startswith("continuous"):
            raise InvalidInput(
                "Unknown label type: y has numbers that are not whole. Give the class of each record, not probabilities; "
                "LabelDPRegressor learns numbers"
            )
        named = _named(self.classes) if self.classes is not None else _occurring(flat)
        domain = named_classes(named)  # in the order of the user, for whom True may be the second
        places = domain.check(flat).astype(np.int64)
        domain.require_every_class(np.bincount(places, minlength=len(named)))
        self._found = np.sort(named)
        return np.array(domain.classes)[places]

    def _chosen(self, records: int, X: Any, parameters: dict[str, Any], people: Any) -> Method:
        check_method(self.method)
        if self.method == "both":
            raise InvalidInput('method="both" is for numbers: classes are learned from labels or from sums')
        return super()._chosen(records, X, parameters, people)

    def _strategy(
        self,
        method: Method,
        randomizer: LabelRandomizer,
        X: Any,
        labels: NDArray[Any],
        parameters: dict[str, Any],
        people: People | None,
    ) -> Any:
        if method.name != "either":
            return super()._strategy(method, randomizer, X, labels, parameters, people)
        sums = SumsFit.prepare(self, X, labels, people)
        return _FitByRate(sums, LabelsFit.prepare(self, randomizer, X, labels, parameters, people), randomizer)

    def _trained(self) -> None:
        self.classes_ = self._found

    def _forget(self) -> None:
        self.__dict__.pop("_found", None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = tags.non_deterministic
        return tags


@dataclass(eq=False)
class _FitByRate:
    """A model from sums or from labels, whichever the rates of the classes are better for.

    Both begin with the noisy counts of the classes, and the rest of ε is spent on the one or the other.
    """

    sums: SumsFit
    labels: LabelsFit
    randomizer: LabelRandomizer
    found: tuple[LabelRange, ...] | None = None

    def release(self, count: Callable[[Fraction], None]) -> PrivateLabels | None:
        """Charge ε and count the classes. Draw labels with the rest of ε, if they are better."""
        queries = self.sums.queries
        self.sums.release(count)
        two = queries.domain.count == 2
        self.found = (first_look(queries),) if two else class_looks(queries)
        rates = np.array([look.mean for look in self.found])
        unit, labels = self.labels.unit, self.labels.labels
        epsilon = queries.remaining / unit.entries
        if not labels_pay(labels.size, float(epsilon), np.append(1 - rates, rates) if two else rates):
            return None
        mechanism = replace(self.randomizer, epsilon=epsilon).plan(labels.size).design()
        return PrivateLabels(mechanism.codes(labels), mechanism, unit.rows, unit.entries)

    def train(self, model: LabelPrivateEstimator, private: PrivateLabels | None) -> None:
        rate = ""
        if self.found is not None:
            which = "second" if len(self.found) == 1 else "rarest"
            least = min(look.mean for look in self.found)
            rate = f"with {self.sums.queries.records:,} records, about {least:.1%} of the {which} class"
        if private is None:
            model.method_ = Method("sums", f"{rate}, sums are expected to give the smaller log loss")
            self.sums.train(model, private, self.found)
        else:
            model.method_ = Method("labels", f"{rate}, labels are expected to give the smaller log loss")
            queries = self.sums.queries
            spent = queries.epsilon_exact - queries.remaining
            model.sums_ = replace(queries.released, epsilon_exact=spent)
            self.labels.train(model, private)


def _named(classes: Any) -> NDArray[Any]:
    """Return the classes that a user names, in that order."""
    if isinstance(classes, str) or not isinstance(classes, (Sequence, np.ndarray)):
        raise InvalidInput(f'classes must be a list, such as ["no", "yes"], got {described(classes)}')
    found = np.array(list(classes))
    if found.ndim != 1 or found.dtype.kind not in "biufU" or len({type(each) for each in found.tolist()}) > 1:
        raise InvalidInput("classes must be a list of text, of numbers or of booleans")
    if len(np.unique(found)) < len(found):
        raise InvalidInput("two classes are the same: name each class once")
    return found


def _occurring(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes of labels without named classes: booleans, 0 and 1, or else the classes that occur."""
    if labels.dtype.kind == "b":
        return np.array([False, True])
    if labels.dtype.kind == "O" and any(not isinstance(label, str) for label in labels):
        kinds = {type(label) for label in labels}
        if len(kinds) > 1:
            raise InvalidInput("y must be all text, all numbers or all booleans: it is a mixture, or some are missing")
        return _occurring(np.array(labels.tolist()))
    found = np.unique(labels.astype(str) if labels.dtype.kind == "O" else labels)
    if labels.dtype.kind in "iuf" and set(found.tolist()) <= {0, 1}:
        return np.array([0, 1], labels.dtype)
    if not 2 <= len(found) <= MOST_CLASSES:
        raise InvalidInput(
            "all labels are of one class, and a model needs two"
            if len(found) == 1
            else f"y has more than {MOST_CLASSES} classes: group them, or use LabelDPRegressor if they are numbers"
        )
    warnings.warn(
        "the classes were read off the labels, so the model reveals which classes occur, and a misspelt one becomes a class. "
        'They should be public: name them, as in classes=["no", "yes"]',
        ClassesWarning,
        stacklevel=5,
    )
    return found
