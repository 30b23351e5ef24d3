"""The error of a model, estimated from private labels only: the noise is known, so it can be removed from the error.

For a prediction f made without the record's own label, (f − y)² = f² − 2·f·y + y². Numbers t and s for each code with
E[t | y] = y and E[s | y] = y² turn that into f² − 2·f·t + s, an unbiased estimate from one code. Its mean over records
estimates the test error and its spread gives an interval. Both t and s follow from the public mechanism
(`labeldp.evaluate.constraints`).

For a mechanism with few outputs such numbers do not exist: labels with nearly the same output probabilities cannot be
distinguished, even with many records. Then t and s come from least squares, and the interval covers every joint
distribution of predictions and labels that the codes do not contradict (`labeldp.evaluate.intervals`, explained in
`docs/concepts/intervals.md`).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from labeldp.arrays import Floats, label_array, number_array
from labeldp.artifact.reader import Message
from labeldp.errors import InvalidInput, described, expect
from labeldp.evaluate.class_sums import modelled
from labeldp.evaluate.constraints import LabelPieces, Target, usable_counts
from labeldp.evaluate.held_out_sums import fieller, reach_of_sampling
from labeldp.evaluate.intervals import ASSUMPTIONS, BATCHES, PART, TAILS, consistent_range, explained_range
from labeldp.formatting import ReprMixin, plain
from labeldp.mechanisms import PrivateLabels
from labeldp.mechanisms.bias_variance import VISIBLE
from labeldp.mechanisms.decoding import indicator_values


@dataclass(frozen=True, repr=False)
class Estimate(ReprMixin):
    """An estimate of one number from private labels, with its confidence interval.

    The interval assumes nothing about the features or the prior, and only that the labels lie within the bounds (the
    domain's, or else the prior's least and greatest values). Its sampling error is approximate, for many records.

    Attributes
    ----------
    value : float
        The estimate.
    lower, upper : float
        The ends of the interval.
    standard_error : float
        The estimate's standard error, which measures noise and sampling but no bias.
    bias_allowance : float
        How much further the interval reaches to either side, on average, than needed for sampling. The part that
        remains with many records is due to labels that the mechanism's codes cannot distinguish.
    confidence : float
        The probability with which the interval covers the truth.
    records : int
        The number of private labels.

    Examples
    --------
    >>> from labeldp.evaluate import Estimate
    >>> estimate = Estimate(
    ...     value=91.5, lower=88.0, upper=95.0, standard_error=1.5, bias_allowance=0.5, confidence=0.95, records=10_000
    ... )
    >>> print(estimate)
    91.5 (95% interval 88 to 95, 10,000 private labels)
    """

    quantity: ClassVar[str] = ""

    value: float
    lower: float
    upper: float
    standard_error: float
    bias_allowance: float
    confidence: float
    records: int

    def __str__(self) -> str:
        return (
            f"{self.quantity}{plain(self.value)} ({100 * self.confidence:g}% interval {plain(self.lower)} to "
            f"{plain(self.upper)}, {self.records:,} private labels)"
        )

    def _facts(self) -> dict[str, str]:
        facts = {name: f"{getattr(self, name):.6g}" for name in ("value", "lower", "upper", "confidence")}
        return facts | {"records": f"{self.records:,}"}


class ErrorEstimate(Estimate):
    """An estimate of a mean squared test error from private labels, with its confidence interval.

    Attributes
    ----------
    value, mean_squared_error : float
        The estimate.
    lower, upper : float
        The ends of the interval.
    standard_error, bias_allowance, confidence, records
        As in `Estimate`.

    Examples
    --------
    >>> from labeldp.evaluate import ErrorEstimate
    >>> estimate = ErrorEstimate(
    ...     value=4700, lower=4100, upper=5300, standard_error=250, bias_allowance=80, confidence=0.95, records=5000
    ... )
    >>> print(estimate)
    mean squared error 4,700 (95% interval 4,100 to 5,300, 5,000 private labels)
    >>> estimate.mean_squared_error
    4700
    """

    quantity: ClassVar[str] = "mean squared error "

    @property
    def mean_squared_error(self) -> float:
        """The estimate."""
        return self.value


def estimate_error(
    private: PrivateLabels,
    predictions: Any,
    *,
    confidence: float = 0.95,
    visible: float = VISIBLE,
    assume: Collection[str] = (),
) -> ErrorEstimate:
    """Estimate the mean squared error of predictions against the true labels behind private ones.

    The predictions must not depend on these records' own private labels: predict records that were held out of the
    training, or use `cross_validated_error`.

    Parameters
    ----------
    private : PrivateLabels
        The private labels of the records, whose mechanism includes a prior.
    predictions : array of float
        A prediction for each record, in the same order.
    confidence : float
        The probability with which the interval should cover the truth.
    visible : float
        The share of the label's variance that features are assumed to explain, from 0 to 1. It determines which
        estimate has the least error if none is unbiased; the interval is valid in any case.
    assume : collection of {"tails", "part", "batches"}
        Further assumptions, which make the interval narrower. "tails": labels beyond the range where the codes
        distinguish labels have predictions that are on average on the same side of the mean prediction. "part": these
        records are all records that the labels party privatized together, or a random part of them. "batches": later
        batches of the message have the same distribution of labels as the first, whose noisy counts are then used for
        all.

    Returns
    -------
    ErrorEstimate

    Raises
    ------
    InvalidInput
        If the predictions do not match the private labels, there are fewer than two, or the mechanism lacks a prior.

    Privacy
    -------
    Costs nothing: it uses only private labels and public numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import Domain, LabelRandomizer, estimate_error
    >>> feature = np.random.default_rng(0).integers(0, 10, 5000)
    >>> labels = np.minimum(feature + 1, 9)
    >>> private = LabelRandomizer(epsilon=4, domain=Domain.integers(0, 9), mechanism="unbiased").randomize(labels)
    >>> estimate = estimate_error(private, feature)
    >>> abs(estimate.value - 0.9) < 1  # the truth is about 0.9
    True
    """
    predicted = _checked(private, predictions, confidence)
    target = Target.error(private.mechanism, predicted)
    return _estimate(ErrorEstimate, private, target, confidence, visible, assume=assume)


def estimate_mean(private: PrivateLabels, *, confidence: float = 0.95, assume: Collection[str] = ()) -> Estimate:
    """Estimate the mean of the true labels behind private ones.

    Parameters
    ----------
    private : PrivateLabels
        The private labels of the records, whose mechanism includes a prior.
    confidence : float
        The probability with which the interval should cover the truth.
    assume : collection of {"tails", "part", "batches"}
        Further assumptions, see `estimate_error`. "tails" does not matter for the mean.

    Returns
    -------
    Estimate

    Raises
    ------
    InvalidInput
        If there are fewer than two private labels, or the mechanism lacks a prior.

    Privacy
    -------
    Costs nothing: it uses only private labels and public numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import Domain, LabelRandomizer
    >>> from labeldp.evaluate import estimate_mean
    >>> labels = np.random.default_rng(0).binomial(9, 0.5, 5000)
    >>> private = LabelRandomizer(epsilon=4, domain=Domain.integers(0, 9), mechanism="unbiased").randomize(labels)
    >>> estimate = estimate_mean(private)
    >>> abs(estimate.value - 4.5) < 0.5
    True
    """
    _checked(private, np.ones(np.size(getattr(private, "codes", 0))), confidence)
    return _estimate(Estimate, private, Target.mean(private.mechanism, len(private)), confidence, assume=assume)


def estimate_gain(
    private: PrivateLabels, predictions: Any, *, confidence: float = 0.95, assume: Collection[str] = ()
) -> Estimate:
    """Estimate how much lower the squared error of predictions is than the error of always predicting their mean.

    The gain is negative if their error is higher. The squares of the labels cancel in this difference, so its estimate
    is much more precise than that of either error.

    Parameters
    ----------
    private : PrivateLabels
        The private labels of the records, whose mechanism includes a prior.
    predictions : array of float
        A prediction for each record, in the same order, made without the record's own private label.
    confidence : float
        The probability with which the interval should cover the truth.
    assume : collection of {"tails", "part", "batches"}
        Further assumptions, which make the interval narrower. "tails": labels beyond the range where the codes
        distinguish labels have predictions that are on average on the same side of the mean prediction. "part": these
        records are all records that the labels party privatized together, or a random part of them. "batches": later
        batches of the message have the same distribution of labels as the first, whose noisy counts are then used for
        all.

    Returns
    -------
    Estimate

    Raises
    ------
    InvalidInput
        If the predictions do not match the private labels, there are fewer than two, or the mechanism lacks a prior.

    Privacy
    -------
    Costs nothing: it uses only private labels and public numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import Domain, LabelRandomizer
    >>> from labeldp.evaluate import estimate_gain
    >>> feature = np.random.default_rng(0).integers(0, 10, 5000)
    >>> private = LabelRandomizer(epsilon=4, domain=Domain.integers(0, 9), mechanism="unbiased").randomize(feature)
    >>> bool(estimate_gain(private, feature).lower > 0)  # the feature tells something about the labels
    True
    """
    predicted = _checked(private, predictions, confidence)
    return _estimate(Estimate, private, Target.gain(private.mechanism, predicted), confidence, assume=assume)


def estimate_r2(
    private: PrivateLabels, predictions: Any, *, confidence: float = 0.95, assume: Collection[str] = ()
) -> Estimate:
    """Estimate R², the share of the labels' variance that predictions explain.

    It is 1 − E[(prediction − label)²] / Var(label): 1 for perfect predictions, 0 for always predicting the mean label,
    and negative for predictions that are worse than that.

    Parameters
    ----------
    private : PrivateLabels
        The private labels of the records, whose mechanism includes a prior.
    predictions : array of float
        A prediction for each record, in the same order, made without the record's own private label.
    confidence : float
        The probability with which the interval should cover the truth.
    assume : collection of {"tails", "part", "batches"}
        Further assumptions, which make the interval narrower. "tails": labels beyond the range where the codes
        distinguish labels have predictions that are on average on the same side of the mean prediction. "part": these
        records are all records that the labels party privatized together, or a random part of them. "batches": later
        batches of the message have the same distribution of labels as the first, whose noisy counts are then used for
        all.

    Returns
    -------
    Estimate
        `lower` is −inf if the codes do not rule out that all labels are equal. The standard error and the allowance for
        bias are NaN.

    Raises
    ------
    InvalidInput
        If the predictions do not match the private labels, there are fewer than two, or the mechanism lacks a prior.

    Privacy
    -------
    Costs nothing: it uses only private labels and public numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import Domain, LabelRandomizer
    >>> from labeldp.evaluate import estimate_r2
    >>> feature = np.random.default_rng(0).integers(0, 10, 5000)
    >>> private = LabelRandomizer(epsilon=4, domain=Domain.integers(0, 9), mechanism="unbiased").randomize(feature)
    >>> bool(estimate_r2(private, feature).lower > 0.5)  # the feature is the label
    True
    """
    predicted = _checked(private, predictions, confidence)
    risk = (1 - confidence) / 2  # one half for the mean, one for the ratio
    mean = _estimate(Estimate, private, Target.mean(private.mechanism, len(private)), 1 - risk, assume=assume)
    slack = max(mean.upper - mean.value, mean.value - mean.lower)
    lower, upper, value = explained_range(private, predicted, mean.value, slack, risk, assume=assume)
    return Estimate(value, lower, upper, math.nan, math.nan, confidence, len(private))


def estimate_classes(private: PrivateLabels, rates: Any, *, confidence: float = 0.95) -> dict[str, Estimate]:
    """Estimate the quality of class probabilities, from private labels of the same records.

    The probabilities must not depend on these records' own private labels. Log loss, Brier score and rates are linear in the label, so their
    estimates are unbiased; AUC is a ratio of two such estimates.

    Parameters
    ----------
    private : PrivateLabels
        The private labels of the records: randomized classes.
    rates : array of float of shape (records, classes)
        The probability of each class for each record, in the order of the classes; never 0.
    confidence : float
        The probability with which each interval should cover the truth.

    Returns
    -------
    dict of str to Estimate
        "log_loss"; "gain", how much larger the log loss of always predicting the mean probabilities is; "brier"; "auc",
        the area under the ROC curve of the second of two classes, or "auc of a" for each class a of more; "rate of a",
        the share of records of that class.

    Raises
    ------
    InvalidInput
        If the private labels are not classes, or the rates do not fit them.

    Privacy
    -------
    Costs nothing: it uses only private labels and public numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import Domain, LabelRandomizer
    >>> from labeldp.evaluate import estimate_classes
    >>> rate = np.random.default_rng(0).random(20_000)
    >>> bought = (np.random.default_rng(1).random(20_000) < rate).astype(int)
    >>> private = LabelRandomizer(epsilon=2, domain=Domain.of_classes(["no", "yes"])).randomize(bought)
    >>> found = estimate_classes(private, np.column_stack([1 - rate, rate]))
    >>> bool(found["gain"].lower > 0), bool(found["auc"].lower > 0.7)
    (True, True)
    """
    found = estimate_rates(private, confidence=confidence)
    p = number_array(rates, "rates")
    values = indicator_values(private.mechanism)[private.codes]
    if p.shape != values.shape or not (p > 0).all() or not (p <= 1).all():
        raise InvalidInput(
            f"rates must be probabilities above 0, with a row for each of the {len(private):,} private labels and a column for each class"
        )
    logs, share = np.log(p), 2 if p.shape[1] == 2 else 1
    losses = {
        "log_loss": -(values * logs).sum(axis=1),
        "gain": (values * (logs - np.log(p.mean(axis=0)))).sum(axis=1),
        "brier": (np.square(p).sum(axis=1) - 2 * (values * p).sum(axis=1) + 1) / share,
    }
    scored = {
        name: _mean_of(one, confidence, least=-math.inf if name == "gain" else 0.0) for name, one in losses.items()
    }
    for k, name in zip(modelled(p.shape[1]), found, strict=True):
        key = "auc" if share == 2 else f"auc of {name.removeprefix('rate of ')}"
        scored[key] = _area(values[:, k], p[:, k], confidence)
    return scored | found


def estimate_rates(private: PrivateLabels, *, confidence: float = 0.95) -> dict[str, Estimate]:
    """Estimate the share of records of each class (of two, of the second) behind private labels, by names such as "rate of yes"."""
    _checked(private, np.ones(np.size(getattr(private, "codes", 0))), confidence)
    domain = private.mechanism.domain
    if domain is None or domain.classes is None:
        raise InvalidInput("these private labels are not classes: estimate_error and estimate_mean are for numbers")
    values = indicator_values(private.mechanism)[private.codes]
    return {
        f"rate of {domain.classes[k]}": _mean_of(values[:, k], confidence, least=0.0, most=1.0)
        for k in modelled(len(domain.classes))
    }


def _mean_of(values: Floats, confidence: float, least: float, most: float = math.inf) -> Estimate:
    """Return the mean of independent numbers, with the usual interval."""
    error, mean = float(values.std(ddof=1)) / math.sqrt(values.size), float(values.mean())
    reach = reach_of_sampling(1 - confidence) * error
    lower, upper = (min(max(end, least), most) for end in (mean - reach, mean + reach))
    return Estimate(min(max(mean, lower), upper), lower, upper, error, 0.0, confidence, values.size)


def _area(values: Floats, p: Floats, confidence: float) -> Estimate:
    """Return the area under the ROC curve: ½ + mean(c·v)/(π·(1 − π)).

    Here c is the rank from −½ to ½, v estimates the indicator of the class, and π is its mean.

    The influence of each record on the mean of c·v, including the ranks of others, is c·v plus the share of the class
    above it.
    """
    n = p.size
    _, place = np.unique(p, return_inverse=True)
    own = np.bincount(place, values) / n
    above = (own.sum() - np.cumsum(own) + own / 2)[place]
    influence = (rankdata(p) - (n + 1) / 2) / n * values + above
    rate, centred = float(values.mean()), influence - float(above.mean())
    covered = np.cov(centred, values) / n
    slope, spread = 1 - 2 * rate, rate * (1 - rate) + covered[1, 1]
    if spread <= 0:
        return Estimate(math.nan, 0.0, 1.0, math.nan, 0.0, confidence, n)
    value, ratio = float(centred.mean()) / spread, reach_of_sampling(1 - confidence) ** 2
    low, high = fieller(
        value * spread, spread, ratio * covered[0, 0], ratio * slope * covered[0, 1], ratio * slope**2 * covered[1, 1]
    )
    lower, upper = (float(np.clip(0.5 + end, 0, 1)) for end in (low, high))
    parts = covered[0, 0] - 2 * value * slope * covered[0, 1] + (value * slope) ** 2 * covered[1, 1]
    error = math.sqrt(max(0.0, parts)) / spread
    return Estimate(min(max(0.5 + value, lower), upper), lower, upper, error, 0.0, confidence, n)


EstimateType = TypeVar("EstimateType", bound=Estimate)


def _checked(private: PrivateLabels, predictions: Any, confidence: float) -> Floats:
    expect(private, PrivateLabels, "private", "LabelRandomizer(...).randomize(labels) gives one, Message.labels too")
    predicted = label_array(predictions, "predictions")
    if len(private) < 2:
        raise InvalidInput(f"an estimate needs at least two private labels, got {len(private)}")
    if predicted.size != len(private):
        raise InvalidInput(f"one prediction per private label is needed: got {predicted.size:,} for {len(private):,}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {described(confidence)}")
    return predicted


def _estimate(
    kind: type[EstimateType],
    private: PrivateLabels,
    target: Target,
    confidence: float,
    visible: float = 1.0,
    *,
    assume: Collection[str] = (),
) -> EstimateType:
    lower, upper, sample = consistent_range(private, target, 1 - confidence, visible, assume=assume)
    return kind(
        value=float(np.clip(sample.mean, lower, upper)) + target.constant,
        lower=lower + target.constant,
        upper=upper + target.constant,
        standard_error=sample.standard_error,
        bias_allowance=max(0.0, (upper - lower - sample.below - sample.above) / 2),
        confidence=confidence,
        records=len(private),
    )


def cross_validated_error(
    estimator: Any, X: Any, private: PrivateLabels, *, decoder: str = "auto", folds: int = 5, confidence: float = 0.95
) -> ErrorEstimate:
    """Estimate the test error of an estimator trained on private labels.

    Every record is predicted by a model that was trained without it. So the estimate is for models trained on (folds −
    1)/folds of the records.

    Parameters
    ----------
    estimator : scikit-learn regressor
        The estimator to train; it is cloned for each fold.
    X : array or table
        The features, a row for each private label.
    private : PrivateLabels
        The private labels, whose mechanism carries a prior.
    decoder : {"auto", "bins", "debiased", "positive"}
        The values to train on, see `PrivateLabels.values`.
    folds : int
        The number of folds, and of models trained.
    confidence : float
        The probability with which the interval should cover the truth.

    Returns
    -------
    ErrorEstimate

    Raises
    ------
    InvalidInput
        If the mechanism lacks a prior.

    Privacy
    -------
    Costs nothing: it reads private labels and public numbers only.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from labeldp import Domain, LabelRandomizer
    >>> from labeldp.evaluate import cross_validated_error
    >>> feature = np.random.default_rng(0).integers(0, 10, 5000)
    >>> private = LabelRandomizer(epsilon=4, domain=Domain.integers(0, 9), mechanism="unbiased").randomize(feature)
    >>> estimate = cross_validated_error(LinearRegression(), feature[:, None], private)
    >>> bool(estimate.upper < np.var(feature))  # much of the label is explained
    True
    """
    expect(private, PrivateLabels, "private", "LabelRandomizer(...).randomize(labels) gives one, Message.labels too")
    predictions = out_of_fold_predictions(estimator, X, private.values(decoder), folds)
    return estimate_error(private, predictions, confidence=confidence)


def out_of_fold_predictions(estimator: Any, X: Any, targets: Floats, folds: int) -> Floats:
    """Return a prediction for every record by a clone of `estimator` that was trained without the record's fold."""
    from sklearn.model_selection import KFold, cross_val_predict

    # A fixed shuffle: which record falls into which fold must not depend on the order of labels.
    predictions: Floats = cross_val_predict(estimator, X, targets, cv=KFold(folds, shuffle=True, random_state=0))
    return predictions


Figures = dict[str, dict[str, float | None]]
"""For each figure, by name, its `value` and the ends of its 95 % interval, `lower` and `upper`; None for no end at all."""


def estimates_of_mean(private: PrivateLabels, assume: Collection[str] = ()) -> Figures:
    """Return the labels' `mean`, and `error_of_mean`: the mean squared error of always predicting it.

    Empty if the mechanism lacks a prior or has too many outputs, or if there are fewer than two labels.
    """
    try:
        mean = estimate_mean(private, assume=assume)
        error = estimate_error(private, np.full(len(private), mean.value), visible=1.0, assume=assume)
    except InvalidInput:
        return {}
    return _figures(mean=mean, error_of_mean=error)


def estimates_of_model(private: PrivateLabels, predictions: Floats, assume: Collection[str] = ()) -> Figures:
    """Return a model's mean squared test `error`, its `gain` over predicting the mean, and its `r2`, from out-of-fold predictions.

    Predictions are clipped into the bounds, as in a saved model.
    """
    domain = private.mechanism.domain
    predictions = predictions if domain is None else np.clip(predictions, domain.lower, domain.upper)
    return _figures(
        error=estimate_error(private, predictions, visible=1.0, assume=assume),
        gain=estimate_gain(private, predictions, assume=assume),
        r2=estimate_r2(private, predictions, assume=assume),
    )


def estimates_of_classes(private: PrivateLabels, rates: Floats) -> Figures:
    """Return the log loss of probabilities of classes, its gain, the Brier score, AUC and rates, from out-of-fold predictions."""
    return _figures(**estimate_classes(private, rates))


def _figures(**estimates: Estimate) -> Figures:
    return {
        name: {
            key: end if math.isfinite(end := getattr(estimate, key)) else None for key in ("value", "lower", "upper")
        }
        for name, estimate in estimates.items()
    }


DRIFT = 0.01
"""The significance level at which batches are considered different."""


def evaluated_labels(message: Message, codes: NDArray[Any], assume: Collection[str] = ()) -> tuple[PrivateLabels, bool]:
    """Return the private labels of some records of a message, and whether its later batches are seen to differ from the first.

    The noisy counts are from the first batch. If there are other batches, the counts are left out unless "batches" and
    "part" are assumed and the codes do not contradict this.
    """
    mechanism = message.mechanism
    counts = None if mechanism.prior is None else mechanism.prior.counts
    differ = False
    if counts is not None and message.records > counts.records:
        assumed = {BATCHES, PART} <= set(assume)
        differ = assumed and _drifted(message.labels.codes, counts.records, mechanism.outputs.size)
        mechanism = mechanism if assumed and not differ else mechanism.without_counts()
    return PrivateLabels(codes, mechanism), differ


def _drifted(codes: NDArray[Any], first: int, outputs: int) -> bool:
    """Return whether the first codes and all others differ by more than chance: Pearson's χ² test of homogeneity."""
    from scipy.special import chdtrc

    table = np.array([np.bincount(part, minlength=outputs) for part in (codes[:first], codes[first:])])
    sizes = table.sum(axis=1)
    table = table[:, table.sum(axis=0) * sizes.min() >= 5 * codes.size]  # rarer codes would make the test inaccurate
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(table.sum(), 1)
    statistic = float((np.square(table - expected) / expected).sum())
    return table.shape[1] > 1 and bool(chdtrc(table.shape[1] - 1, statistic) < DRIFT)


def made_assumptions(private: PrivateLabels, assume: Collection[str], records: int | None = None) -> list[str]:
    """Return the names of the accepted assumptions that matter for these labels of a message with this number of records."""
    counts = usable_counts(private.mechanism, len(private), uncounted=True)
    matters = {
        TAILS: bool(LabelPieces.of(private.mechanism).tails()),
        PART: counts is not None and counts.records > len(private),
        BATCHES: counts is not None and counts.records < max(len(private), records or 0),
    }
    return [name for name in ASSUMPTIONS if name in assume and matters[name]]
