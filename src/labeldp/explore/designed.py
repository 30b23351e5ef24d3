"""The mechanism at the current ε: how ε is divided, what is designed, and what its private labels are worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.explore.question import KEPT, Question
from labeldp.losses import get_loss
from labeldp.mechanisms import design, releasable
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.registry import Request
from labeldp.message.description import prior_epsilon
from labeldp.priors import BudgetSplit, Prior

LABELS = 401
"""Expectations are taken over at most so many labels; finer ones are merged at their mean."""
SLOW = {"discrete-staircase": 5001, "exponential": 2001}
"""Mechanisms whose design takes longer than a page can wait on more cells than this, or is refused."""

NO_BIAS = 1e-12
"""A squared bias of less than this share of the variance is rounding of numbers."""


@dataclass(frozen=True, eq=False)
class Designed:
    """A mechanism and what it costs and gives.

    Attributes
    ----------
    mechanism : FiniteMechanism
        What randomizes the labels.
    epsilon_prior, epsilon_labels : float
        How ε is divided.
    expected_loss : float
        Of one private label, under the assumed distribution; infinite if outputs leave the range of the loss.
    bias : float
        The root of the mean squared bias.
    deviation : float
        The standard deviation of a private label around its mean.
    advice : str or None
        What `privatize` would warn about.
    """

    mechanism: FiniteMechanism
    epsilon_prior: float
    epsilon_labels: float
    expected_loss: float
    bias: float
    deviation: float
    advice: str | None


def designed(question: Question) -> Designed:
    """The mechanism that a release would use if its labels were distributed as assumed."""
    return _designed(question.without(explained=0.5))


def split_of(question: Question) -> BudgetSplit | None:
    """How a release divides ε; None where it spends nothing on a prior."""
    known = question.assumed if question.public else None
    request = Request(question.grid, question.epsilon, question.loss, known, question.records)
    return releasable(question.mechanism).split_for(request)


def merged(prior: Prior, most: int = LABELS) -> Prior:
    """The distribution on at most so many labels: neighbours are merged at their mean. The first and the last stay, since they are bounds."""
    held = prior.masses > 0
    values, masses = prior.values[held], prior.masses[held]
    if values.size <= most:
        return Prior(values, masses)
    place = (values - values[0]) / (values[-1] - values[0]) + np.cumsum(masses) - masses / 2
    coarse = 1 + (place / 2 * (most - 2)).astype(np.int64)
    coarse[0], coarse[-1] = 0, most
    groups = np.unique(coarse, return_inverse=True)[1]
    together: Floats = np.bincount(groups, masses).astype(np.float64)
    return Prior(values[0] + np.bincount(groups, masses * (values - values[0])) / together, together)


def check_speed(name: str, cells: int) -> None:
    """Refuse mechanisms whose design takes minutes on so many cells, and say what to do."""
    most = SLOW.get(name)
    if most is not None and cells > most:
        raise InvalidInput(
            f"{name} on {cells:,} cells takes longer than a page can wait, or is refused: choose at most {most:,} cells here, or another mechanism"
        )


def moments(mechanism: FiniteMechanism, prior: Prior) -> tuple[float, float]:
    """The root of the mean squared bias, 0 where only rounding is left of it, and the mean variance, under a distribution."""
    means, variances = mechanism.conditional_moments(prior.values)
    squared, variance = float(prior.masses @ np.square(means - prior.values)), float(prior.masses @ variances)
    return math.sqrt(squared) if squared > NO_BIAS * variance else 0.0, variance


def _on_grid(prior: Prior, mechanism: FiniteMechanism) -> Prior:
    """The distribution on labels that the mechanism tells apart. Between them rounding would look like bias."""
    domain = mechanism.domain
    if domain is None or domain.cells is None:
        return prior
    cells, place = np.unique(domain.cell(prior.values), return_inverse=True)
    return Prior(domain.grid[cells], np.bincount(place, prior.masses))


def loss_of(mechanism: FiniteMechanism, prior: Prior, loss: str) -> float:
    """The expected loss of a private label; infinite where outputs leave the range that the loss is defined on."""
    if not get_loss(loss).valid_outputs.contains(mechanism.outputs).all():
        return math.inf
    return mechanism.expected_loss(prior, loss)


@lru_cache(maxsize=KEPT)
def _designed(question: Question) -> Designed:
    prior, advice = question.assumed, None
    received = question.shown_mechanism
    if received is not None:
        mechanism, spent = received, float(prior_epsilon(received))
    else:
        question.check()
        split = split_of(question)
        check_speed(question.mechanism, question.grid.count)
        left = question.epsilon if split is None else split.epsilon_labels
        mechanism = design(question.mechanism, Request(question.grid, left, question.loss, prior, question.records))
        spent, advice = (0.0, None) if split is None else (float(split.epsilon_prior), split.advice)
    judged = merged(question.labels)
    bias, variance = moments(mechanism, _on_grid(judged, mechanism))
    return Designed(
        mechanism=mechanism,
        epsilon_prior=spent,
        epsilon_labels=mechanism.epsilon,
        expected_loss=loss_of(mechanism, judged, question.loss),
        bias=bias,
        deviation=math.sqrt(variance),
        advice=advice,
    )
