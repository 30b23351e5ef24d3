"""The loss of a model in any loss, estimated from private labels: a number and its chance error, but no proven interval.

Squared error has intervals (`labeldp.evaluation.estimates`) because it needs only two moments of the label. Any other loss
is a function of the label for each prediction, decoded from codes as in training (`learnable_values`). What the mechanism
hides of that function is missing from the estimate, and no bound on it is computed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp.arrays import Floats, label_array
from labeldp.errors import InvalidInput, expect
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.mechanisms import PrivateLabels
from labeldp.mechanisms.decoding import learnable_values, prior_of

GROUPS = 64
"""Predictions are taken together in so many groups."""
CONSTANTS = 99
"""So many quantiles of the prior are tried as single answers."""


@dataclass(frozen=True)
class LossEstimate:
    """How much a model loses on average, and how much the best single answer does.

    Attributes
    ----------
    model, constant : float
        The mean loss of the predictions, and of the best single answer.
    chance : float
        Two standard errors of their difference: noise and sampling, not what the mechanism hides.

    Examples
    --------
    >>> from labeldp import LossEstimate
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
        A number and its chance error. There is no interval: what the mechanism hides of the loss is not known.

    Privacy
    -------
    Costs nothing: it reads private labels and public numbers only.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import LabelRandomizer, estimate_loss
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
    with np.errstate(all="ignore"):  # one answer for all must be finite for all: 0 is none for a deviance
        constants = constants[np.isfinite(measure(constants[:, None], prior.values[None, :])).all(axis=1)]
    lost = _losses(private, measure, answers)[codes, groups]
    single = _losses(private, measure, constants)
    best = int(np.argmin(np.bincount(codes, minlength=len(single)) @ single))
    gain = single[codes, best] - lost
    return LossEstimate(
        float(lost.mean()), float(single[codes, best].mean()), float(2 * gain.std() / np.sqrt(max(len(private), 1)))
    )


def _losses(private: PrivateLabels, loss: Loss, answers: Floats) -> Floats:
    """The decoded loss of each answer (column) for each code (row)."""
    return learnable_values(private.mechanism, lambda labels: loss(answers[None, :], labels[:, None]), len(private))
