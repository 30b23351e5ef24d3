"""How good a model is, judged by private labels alone: the noise is known, so it can be taken out of the error.

For a prediction f made without looking at the record's own label, (f − y)² = f² − 2·f·y + y². Numbers t and s for each code
with E[t | y] = y and E[s | y] = y² turn that into f² − 2·f·t + s, an unbiased estimate from one code. Its mean over records
estimates the test error and its spread gives the interval; both t and s follow from the public mechanism.

A mechanism with few outputs has no such numbers for every label. Then the least-squares ones are taken, right on average
over the prior, and the interval is widened by the most that the bias left can do: twice the spread of the predictions
times the root mean square of the bias that features can see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.choice import VISIBLE
from labeldp.decode import code_values
from labeldp.errors import InvalidInput
from labeldp.tradeoff.visibility import visible_factor

_UNSURE = 0.01

if TYPE_CHECKING:
    from labeldp.mechanisms.finite import FiniteMechanism
    from labeldp.randomizer import PrivateLabels


@dataclass(frozen=True)
class ErrorEstimate:
    """An estimate of the mean squared test error with a confidence interval, from private labels.

    `bias_allowance` is the part of the interval's half-width that allows for bias and does not fall with more records.
    """

    mean_squared_error: float
    standard_error: float
    bias_allowance: float
    lower: float
    upper: float
    confidence: float
    records: int

    def __str__(self) -> str:
        return (
            f"mean squared error {self.mean_squared_error:,.4g} "
            f"({self.confidence:.0%} interval {self.lower:,.4g} to {self.upper:,.4g}, {self.records:,} private labels)"
        )


def estimate_error(
    mechanism: FiniteMechanism,
    codes: NDArray[np.uint32],
    predictions: Any,
    *,
    confidence: float = 0.95,
    visible: float = VISIBLE,
) -> ErrorEstimate:
    """The mean squared error of `predictions` against the true labels behind `codes`.

    `visible` is the share of the label that features may explain, which decides the allowance for bias; 1 assumes
    nothing and makes the interval valid whatever the features are. Unbiased mechanisms need no allowance.

    The predictions must not depend on these records' own codes: hold them out, or see `cross_validated_error`.
    """
    predicted = np.asarray(predictions, np.float64)
    if predicted.shape != codes.shape or predicted.size < 2:
        raise InvalidInput(f"one prediction per code and two or more are needed: {predicted.shape}, {codes.shape}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence!r}")
    moments = moment_values(mechanism, codes.size, visible)
    center = predicted.mean()
    errors = predicted**2 - 2 * predicted * moments.label[codes] + moments.square[codes]
    estimate = float(errors.mean())
    standard_error = float(errors.std(ddof=1) / np.sqrt(errors.size))
    allowance = 2 * float(np.sqrt(np.mean((predicted - center) ** 2))) * moments.visible_bias
    half = NormalDist().inv_cdf((1 + confidence) / 2) * standard_error + allowance
    return ErrorEstimate(
        mean_squared_error=max(0.0, estimate),
        standard_error=standard_error,
        bias_allowance=allowance,
        lower=max(0.0, estimate - half),
        upper=max(0.0, estimate + half),
        confidence=confidence,
        records=errors.size,
    )


def cross_validated_error(
    estimator: Any, X: Any, private: PrivateLabels, *, decoder: str = "bins", folds: int = 5, confidence: float = 0.95
) -> ErrorEstimate:
    """The test error of `estimator` trained on the private labels: every record is predicted by a model without it.

    Costs `folds` fits and no privacy. It speaks of models trained on (folds − 1)/folds of the records.
    """
    from sklearn.model_selection import KFold, cross_val_predict

    values = code_values(private.mechanism, decoder)[private.codes]
    # A fixed shuffle: which record falls into which fold must not depend on the order of labels.
    cv = KFold(folds, shuffle=True, random_state=0)
    predictions = cross_val_predict(estimator, X, values, cv=cv)
    return estimate_error(private.mechanism, private.codes, predictions, confidence=confidence)


def noise_corrected_scorer(mechanism: FiniteMechanism, decoder: str = "bins") -> Callable[[Any, Any, Any], float]:
    """A scikit-learn scorer for models trained on `code_values(mechanism, decoder)`: minus the corrected squared error.

    Use it as `scoring=` in `cross_val_score` or `GridSearchCV` on private values. The values stand for codes, so `y`
    must hold exactly those numbers.
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
        return -estimate_error(mechanism, codes, estimator.predict(X)).mean_squared_error

    return score


@dataclass(frozen=True, eq=False)
class MomentValues:
    """For each code a number that estimates the label and one that estimates its square, and the first one's bias."""

    label: Floats
    square: Floats
    visible_bias: float


def moment_values(mechanism: FiniteMechanism, records: int, visible: float = VISIBLE) -> MomentValues:
    """Values whose means are y and y²; where the mechanism has none, the best ones to average over `records` codes."""
    prior = mechanism.prior
    if prior is None:
        raise InvalidInput("a noise-corrected error needs the mechanism's prior, and this mechanism carries none")
    labels = prior.values
    # A private prior may miss labels that are there: every one counts a little.
    masses = (1 - _UNSURE) * prior.masses + _UNSURE / labels.size
    channel = mechanism.matrix(labels)
    unit = max(float(np.abs(labels).max()), 1e-300)
    if mechanism.kind == "unbiased":
        factor = visible_factor(masses, 1.0)
        return MomentValues(
            mechanism.outputs, _decoded(channel, (labels / unit) ** 2, masses, factor, 0) * unit**2, 0.0
        )
    factor = visible_factor(masses, visible)
    label = _decoded(channel, labels / unit, masses, factor, 1 / records) * unit
    square = _decoded(channel, (labels / unit) ** 2, masses, factor, 1 / records) * unit**2
    return MomentValues(label, square, float(np.linalg.norm(factor @ (channel @ label - labels))))


def _decoded(channel: Floats, target: Floats, masses: Floats, factor: Floats, ridge: float) -> Floats:
    """Values v of least |F·(E[v | y] − target)|² + ridge·Var(v), with E[v] = E[target] under the prior."""
    share = masses @ channel
    root = np.sqrt(share)
    center = float(masses @ target)
    # In values less their mean, times √share, the variance is a plain norm and the mean a direction, √share itself.
    system = factor @ (channel / root - root)
    left, strength, right = np.linalg.svd(system, full_matrices=False)
    kept = strength > 1e-7 * strength[0]
    weight = strength[kept] / (strength[kept] ** 2 + ridge)
    solved = right[kept].T @ (weight * (left[:, kept].T @ (factor @ (target - center))))
    solved -= root * (root @ solved)
    return np.asarray(center + solved / root)
