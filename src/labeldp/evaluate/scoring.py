"""Scores of predictions: against true labels, against private ones for any loss, and as a scikit-learn scorer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit
from scipy.stats import rankdata

from labeldp.arrays import Floats, label_array, number_array
from labeldp.errors import InvalidInput, described, expect
from labeldp.evaluate.constraints import Target, moment_values
from labeldp.losses import Loss, LossLike, Poisson, get_loss
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.mechanisms.decoding import code_values, learnable_values, prior_of


def metrics(predictions: Floats, labels: Floats, loss: str = "squared") -> dict[str, float | None]:
    """Squared and absolute error, R², bias, and the Poisson deviance, by name; None where one is not defined.

    A model for another loss has that one first.
    """
    error = predictions - labels
    variance = float(np.var(labels))
    squared = float(np.mean(error**2))
    has_deviance = labels.min() >= 0 and predictions.min() > 0
    return _own(predictions, labels, loss) | {
        "mean squared error": squared,
        "root mean squared error": squared**0.5,
        "mean absolute error": float(np.mean(np.abs(error))),
        "R squared": None if variance == 0 else 1 - squared / variance,
        "mean bias": float(np.mean(error)),
        "mean Poisson deviance": float(np.mean(Poisson()(predictions, labels))) if has_deviance else None,
    }


def class_metrics(rates: Floats, positions: NDArray[np.int64]) -> dict[str, float | None]:
    """Log loss, Brier score, AUC, accuracy and calibration of the rates of classes, by name; None where one is not defined.

    Rates are probabilities of the last class. With more than two, AUC is the mean over the classes, each against all
    others. The calibration slope is that of a logistic regression of the last class on the logarithm of its odds: 1 is
    calibrated, and less than 1 is overconfident.
    """
    truth = np.eye(rates.shape[1])[positions]
    inside = np.clip(rates, 1e-15, 1.0)
    areas = [_area(truth[:, k], rates[:, k]) for k in ([1] if rates.shape[1] == 2 else range(rates.shape[1]))]
    known = [area for area in areas if area is not None]
    return {
        "log loss": float(-np.mean((truth * np.log(inside)).sum(axis=1))),
        "Brier score": float(np.mean(np.square(rates - truth).sum(axis=1))) / (2 if rates.shape[1] == 2 else 1),
        "AUC": float(np.mean(known)) if known else None,
        "accuracy": float(np.mean(rates.argmax(axis=1) == positions)),
        "calibration slope": _slope(truth[:, -1], inside[:, -1]),
        "mean predicted rate": float(rates[:, -1].mean()),
        "observed rate": float(truth[:, -1].mean()),
    }


def calibration(rates: Floats, positions: NDArray[np.int64], groups: int = 10) -> list[dict[str, float]]:
    """For groups of equal size by the rate of the last class: the number of records, the mean rate and the share of the class."""
    last = rates[:, -1]
    parts = np.array_split(np.argsort(last, kind="stable"), min(groups, last.size))
    hit = positions == rates.shape[1] - 1
    return [
        {"records": part.size, "rate": float(last[part].mean()), "share": float(hit[part].mean())} for part in parts
    ]


def _area(truth: Floats, rates: Floats) -> float | None:
    """Return the probability that a record of the class has a higher rate than another; None if one of the two does not exist."""
    hits = float(truth.sum())
    if hits in (0, truth.size):
        return None
    return (float(rankdata(rates) @ truth) - hits * (hits + 1) / 2) / (hits * (truth.size - hits))


def _slope(truth: Floats, rates: Floats) -> float | None:
    """Return the slope of a logistic regression on the logarithm of the odds, or None if it does not exist."""
    odds = logit(np.clip(rates, 1e-12, 1 - 1e-12))
    centre, scale = float(odds.mean()), float(odds.std())
    if truth.min() == truth.max() or scale < 1e-9:
        return None
    design = np.column_stack([np.ones_like(odds), (odds - centre) / scale])

    def loss(found: Floats) -> tuple[float, Floats]:
        score = design @ found
        return float(np.mean(-log_expit(-score) - truth * score)), design.T @ (expit(score) - truth) / truth.size

    found = minimize(loss, [0.0, scale], jac=True, method="BFGS", options={"gtol": 1e-8}).x
    return float(found[1] / scale)


def _own(predictions: Floats, labels: Floats, loss: str) -> dict[str, float | None]:
    try:
        measure = get_loss(loss)
    except InvalidInput:  # a function that was only defined where the model was trained
        return {}
    if measure.name in ("squared", "absolute", "poisson"):
        return {}
    with np.errstate(all="ignore"):
        mean = float(np.mean(measure(predictions, labels)))
    return {f"mean {measure.name} loss, which it was trained for": mean if np.isfinite(mean) else None}


GROUPS = 64
"""The number of groups of predictions."""
CONSTANTS = 99
"""The number of quantiles of the prior that are tried as single answers."""


@dataclass(frozen=True)
class LossEstimate:
    """The mean loss of a model, and of the best single answer.

    Attributes
    ----------
    model, constant : float
        The mean loss of the predictions, and of the best single answer.
    chance : float
        Two standard errors of their difference: noise and sampling, not what the mechanism hides.

    Examples
    --------
    >>> from labeldp.evaluate import LossEstimate
    >>> LossEstimate(model=13.0, constant=48.0, chance=2.0).better
    True
    """

    model: float
    constant: float
    chance: float

    @property
    def better(self) -> bool | None:
        """Whether the model loses less than the best single answer; None if chance could explain the difference."""
        gain = self.constant - self.model
        return None if abs(gain) <= self.chance else gain > 0


def estimate_loss(private: PrivateLabels, predictions: Any, loss: LossLike) -> LossEstimate:
    """Estimate the mean loss of predictions that were made without the records' own labels.

    Predictions are taken together in groups of nearly the same value, and every group's loss is a function of the label.

    Parameters
    ----------
    private : PrivateLabels
        The private labels, whose mechanism carries a prior.
    predictions : array-like of float
        A prediction for each of them, by a model that was trained on other records.
    loss : str, Loss or callable
        The loss.

    Returns
    -------
    LossEstimate
        A number and its chance error, without an interval: the part of the loss that the mechanism hides is unknown.

    Privacy
    -------
    Costs nothing: it reads private labels and public numbers only.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import LabelRandomizer
    >>> from labeldp.evaluate import estimate_loss
    >>> labels = np.random.default_rng(0).uniform(0, 100, 20_000)
    >>> private = LabelRandomizer(epsilon=4, domain=(0, 100)).randomize(labels)
    >>> estimate_loss(private, labels, "absolute").better  # than one answer for all records
    True
    """
    expect(private, PrivateLabels, "private", "LabelRandomizer(...).randomize(labels) gives one, Message.labels too")
    predictions = label_array(predictions, "predictions")
    if len(predictions) != len(private) or not len(private):
        raise InvalidInput(f"one prediction per private label is needed: got {len(predictions)} for {len(private)}")
    measure, codes = get_loss(loss), private.codes.astype(np.intp)
    order = np.argsort(predictions, kind="stable")
    groups = np.empty(len(private), np.intp)
    groups[order] = np.arange(len(private)) * min(GROUPS, len(private)) // max(len(private), 1)
    answers = np.bincount(groups, predictions) / np.bincount(groups)
    levels = (np.arange(CONSTANTS) + 0.5) / CONSTANTS
    prior = prior_of(private.mechanism)
    constants = np.unique(np.interp(levels, np.cumsum(prior.masses) - prior.masses / 2, prior.values))
    with np.errstate(all="ignore"):  # a single answer must have a finite loss for all labels, unlike 0 for a deviance
        constants = constants[np.isfinite(measure(constants[:, None], prior.values[None, :])).all(axis=1)]
    lost = _losses(private, measure, answers)[codes, groups]
    single = _losses(private, measure, constants)
    best = int(np.argmin(np.bincount(codes, minlength=len(single)) @ single))
    gain = single[codes, best] - lost
    return LossEstimate(
        float(lost.mean()), float(single[codes, best].mean()), float(2 * gain.std() / np.sqrt(max(len(private), 1)))
    )


def _losses(private: PrivateLabels, loss: Loss, answers: Floats) -> Floats:
    """Return the decoded loss of each answer (column) for each code (row)."""
    return learnable_values(private.mechanism, lambda labels: loss(answers[None, :], labels[:, None]), len(private))


def noise_corrected_scorer(mechanism: FiniteMechanism, decoder: str = "auto") -> Callable[[Any, Any, Any], float]:
    """Make a scikit-learn scorer for private labels: minus the mean squared error against the true labels, estimated.

    Use it as `scoring=` in `cross_val_score` or `GridSearchCV`. With few records noise can take a score above zero. It
    is the same noise for all models, so they can still be compared.

    Parameters
    ----------
    mechanism : FiniteMechanism
        The mechanism that randomized the labels, `private.mechanism`. It must include a prior.
    decoder : {"auto", "bins", "debiased", "positive"}
        The values that models are trained on and scored against, see `PrivateLabels.values`.

    Returns
    -------
    callable
        `score(estimator, X, y)`, where y are some of `private.values(decoder)`.

    Privacy
    -------
    Costs nothing: it reads private labels and public numbers only.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GridSearchCV
    >>> from labeldp import Domain, LabelRandomizer
    >>> from labeldp.evaluate import noise_corrected_scorer
    >>> feature = np.random.default_rng(0).integers(0, 10, 5000)
    >>> private = LabelRandomizer(epsilon=4, domain=Domain.integers(0, 9), mechanism="unbiased").randomize(feature)
    >>> search = GridSearchCV(Ridge(), {"alpha": [1, 1e9]}, scoring=noise_corrected_scorer(private.mechanism))
    >>> search.fit(feature[:, None], private.values()).best_params_
    {'alpha': 1}
    """
    expect(mechanism, FiniteMechanism, "mechanism", "give the mechanism of private labels or of a message")
    values = code_values(mechanism, decoder)
    order = np.argsort(values, kind="stable")

    def score(estimator: Any, X: Any, y: Any) -> float:
        targets = number_array(y, "y")
        codes = order[np.searchsorted(values, targets, sorter=order).clip(max=values.size - 1)]
        if not np.array_equal(values[codes], targets):
            raise InvalidInput(
                "y holds numbers that are not this mechanism's values. Score against private.values(decoder), with the "
                f"decoder of the scorer, {described(decoder)}."
            )
        squared = Target.error(mechanism, np.asarray(estimator.predict(X), np.float64))
        moments = moment_values(mechanism, codes.size, origin=squared.origin)
        return -float(squared.values(moments, PrivateLabels(codes, mechanism)).mean())

    return score
