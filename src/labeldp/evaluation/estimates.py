"""How good a model is, judged by private labels alone: the noise is known, so it can be taken out of the error.

For a prediction f made without looking at the record's own label, (f − y)² = f² − 2·f·y + y². Numbers t and s for each code
with E[t | y] = y and E[s | y] = y² turn that into f² − 2·f·t + s, an unbiased estimate from one code. Its mean over records
estimates the test error and its spread gives the interval; both t and s follow from the public mechanism.

A mechanism with few outputs has no such numbers for every label: labels with nearly the same output probabilities cannot
be told apart, however many records there are. Then the least-squares numbers are taken for the estimate, and the interval
runs over every joint distribution of predictions and labels that the codes do not contradict (`labeldp.evaluation.intervals`).
It assumes nothing about the features or the prior, and of the labels that they lie within the bounds (the domain's, else the
prior's least and greatest values). A label is known only up to its cell or bin, except for the whole numbers of
`Domain.integers`, which are the cells.
The estimate's own sampling error is approximate, for many records (`labeldp.evaluation.intervals.Sampling`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.evaluation.intervals import Sampling, Target, consistent_range
from labeldp.evaluation.moments import moment_values
from labeldp.mechanisms.auto import VISIBLE
from labeldp.mechanisms.decoding import code_values

if TYPE_CHECKING:
    from labeldp.mechanisms.finite import FiniteMechanism
    from labeldp.mechanisms.private_labels import PrivateLabels


@dataclass(frozen=True)
class ErrorEstimate:
    """An estimate of the mean squared test error with a confidence interval, from private labels.

    `bias_allowance` is how much further the interval reaches than sampling alone asks for: what is left of it with many
    records is what the mechanism's codes cannot tell.
    """

    mean_squared_error: float
    standard_error: float
    bias_allowance: float
    lower: float
    upper: float
    confidence: float
    records: int

    @property
    def value(self) -> float:
        """The estimate, by the name that every `Estimate` has for it."""
        return self.mean_squared_error

    def __str__(self) -> str:
        return (
            f"mean squared error {self.mean_squared_error:,.4g} "
            f"({self.confidence:.0%} interval {self.lower:,.4g} to {self.upper:,.4g}, {self.records:,} private labels)"
        )


@dataclass(frozen=True)
class Estimate:
    """An estimate of one number with its confidence interval, from private labels."""

    value: float
    standard_error: float
    lower: float
    upper: float


def estimate_error(
    mechanism: FiniteMechanism,
    codes: NDArray[np.uint32],
    predictions: Any,
    *,
    confidence: float = 0.95,
    visible: float = VISIBLE,
) -> ErrorEstimate:
    """The mean squared error of `predictions` against the true labels behind `codes`.

    `visible` is the share of the label that features are taken to explain when the estimate is made as good as can be;
    the interval is valid whatever they explain.

    The predictions must not depend on these records' own codes: hold them out, or see `cross_validated_error`.
    """
    predicted = _checked(codes, predictions, confidence)
    target = Target.error(mechanism, predicted)
    found, sampling = _estimate(mechanism, codes, target, visible, confidence)
    return ErrorEstimate(
        mean_squared_error=found.value,
        standard_error=found.standard_error,
        bias_allowance=max(0.0, (found.upper - found.lower - sampling.below - sampling.above) / 2),
        lower=found.lower,
        upper=found.upper,
        confidence=confidence,
        records=codes.size,
    )


def estimate_mean(mechanism: FiniteMechanism, codes: NDArray[np.uint32], *, confidence: float = 0.95) -> Estimate:
    """The mean of the true labels behind `codes`."""
    _checked(codes, np.ones(codes.shape), confidence)
    target = Target.mean(mechanism, codes.size)
    found, _ = _estimate(mechanism, codes, target, 1.0, confidence)
    zero = target.zero
    return Estimate(found.value + zero, found.standard_error, found.lower + zero, found.upper + zero)


def estimate_gain(
    mechanism: FiniteMechanism,
    codes: NDArray[np.uint32],
    predictions: Any,
    *,
    confidence: float = 0.95,
) -> Estimate:
    """How much lower the error of `predictions` is than the error of always answering their mean; below zero if higher.

    The squares of the labels drop out of this difference, so it is known much better than either error.
    """
    target = Target.gain(mechanism, _checked(codes, predictions, confidence))
    return _estimate(mechanism, codes, target, 1.0, confidence)[0]


def _checked(codes: NDArray[np.uint32], predictions: Any, confidence: float) -> Floats:
    predicted = np.asarray(predictions, np.float64)
    if predicted.shape != codes.shape or predicted.size < 2:
        raise InvalidInput(f"one prediction per code and two or more are needed: {predicted.shape}, {codes.shape}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence!r}")
    return predicted


def cross_validated_error(
    estimator: Any,
    X: Any,
    private: PrivateLabels,
    *,
    decoder: str = "bins",
    folds: int = 5,
    confidence: float = 0.95,
) -> ErrorEstimate:
    """The test error of `estimator` trained on the private labels: every record is predicted by a model without it.

    Costs `folds` fits and no privacy. It speaks of models trained on (folds − 1)/folds of the records.
    """
    values = code_values(private.mechanism, decoder)[private.codes]
    predictions = out_of_fold_predictions(estimator, X, values, folds)
    return estimate_error(private.mechanism, private.codes, predictions, confidence=confidence)


def out_of_fold_predictions(estimator: Any, X: Any, targets: Floats, folds: int) -> Floats:
    """Every record predicted by a clone of `estimator` trained without its fold."""
    from sklearn.model_selection import KFold, cross_val_predict

    # A fixed shuffle: which record falls into which fold must not depend on the order of labels.
    predictions: Floats = cross_val_predict(estimator, X, targets, cv=KFold(folds, shuffle=True, random_state=0))
    return predictions


def noise_corrected_scorer(mechanism: FiniteMechanism, decoder: str = "bins") -> Callable[[Any, Any, Any], float]:
    """A scikit-learn scorer for models trained on `code_values(mechanism, decoder)`: minus the corrected squared error.

    Use it as `scoring=` in `cross_val_score` or `GridSearchCV` on private values. The values stand for codes, so `y`
    must hold exactly those numbers. On few records noise can take a score above zero; it is the same noise for all
    models, so they are still told apart.
    """
    values = code_values(mechanism, decoder)
    order = np.argsort(values, kind="stable")

    def score(estimator: Any, X: Any, y: Any) -> float:
        target = np.asarray(y, np.float64)
        place = np.minimum(np.searchsorted(values[order], target), values.size - 1)
        codes = order[place].astype(np.uint32)
        if not np.array_equal(values[codes], target):
            raise InvalidInput(
                "the labels to score against are not this mechanism's values: pass code_values(...)[codes]"
            )
        predicted = np.asarray(estimator.predict(X), np.float64)
        squared = Target.error(mechanism, predicted)
        moments = moment_values(mechanism, codes.size, zero=squared.zero)
        return -float(squared.values(moments, codes).mean())

    return score


def _estimate(
    mechanism: FiniteMechanism,
    codes: NDArray[np.uint32],
    target: Target,
    visible: float,
    confidence: float,
) -> tuple[Estimate, Sampling]:
    moments = moment_values(mechanism, codes.size, visible, target.zero)
    lower, upper, sampling = consistent_range(mechanism, codes, target, moments, 1 - confidence)
    return Estimate(float(np.clip(sampling.mean, lower, upper)), sampling.error, lower, upper), sampling
