"""Cross-validation on private labels, and the figures that `labeldp train` prints."""

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.artifact.reader import Message
from labeldp.errors import InvalidInput, expect
from labeldp.evaluate.constraints import LabelPieces, usable_counts
from labeldp.evaluate.estimates import (
    ErrorEstimate,
    Estimate,
    estimate_classes,
    estimate_error,
    estimate_gain,
    estimate_mean,
    estimate_r2,
)
from labeldp.evaluate.intervals import ASSUMPTIONS, BATCHES, PART, TAILS
from labeldp.mechanisms import PrivateLabels


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
