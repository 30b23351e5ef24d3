"""Error, bias and variance of several mechanisms against ε, quickly enough for a page."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.explore.designed import check_speed, loss_of, merged, moments
from labeldp.explore.question import KEPT, Question
from labeldp.losses import get_loss
from labeldp.mechanisms.auto import choose
from labeldp.mechanisms.bias_variance import VISIBLE, BiasVariance, Unbiased, weight_of_variance
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.model_error import ModelErrors
from labeldp.mechanisms.registry import MECHANISMS, Request
from labeldp.priors import Prior

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Where the lines are computed."""
COARSE = 101
"""Mechanisms that a program designs see the labels merged into at most so many. With few anchors their figures are off by up to 5 % at ε = 8, and 2 % below."""
ANCHORS = {4.0: 31, 8.0: 41}
"""Of designs that are only judged and never released, by ε; `FEW_ANCHORS` at every other. All of them would take seconds."""
FEW_ANCHORS = 21
GRID_DECIDES = ("rp-with-prior",)
"""Mechanisms whose error of a model depends on the grid, so that merged labels do not give it."""


@dataclass(frozen=True)
class Point:
    """One mechanism at one ε, by exact expectations under the distribution, with all of ε spent on the labels.

    Attributes
    ----------
    mechanism : str
        Its name in the catalogue.
    epsilon : float
        What a label costs.
    model_error : float or None
        The squared test error that the rule of `auto` expects of a model; None for losses other than squared and for `GRID_DECIDES`.
    label_error : float
        The expected loss of a private label; infinite where outputs leave the range of the loss.
    bias : float
        The root of the mean squared bias.
    variance : float
        The mean variance of a private label.
    """

    mechanism: str
    epsilon: float
    model_error: float | None
    label_error: float
    bias: float
    variance: float


def offered() -> list[str]:
    """The mechanisms that can be released, and so be compared here."""
    return [entry.name for entry in MECHANISMS if entry.exact]


def line(question: Question, name: str) -> tuple[Point, ...]:
    """One mechanism over a fixed list of ε. It does not depend on the current ε."""
    domain = question.domain
    for epsilon in EPSILONS:
        check_speed(name, domain.resolve(question.records, epsilon).count)
    return _line(name, domain, question.labels, question.loss, question.records)


def compared(question: Question, names: tuple[str, ...]) -> tuple[tuple[Point, ...], dict[str, str]]:
    """The lines of several mechanisms; and, by name, why others have none."""
    points: list[Point] = []
    refused: dict[str, str] = {}
    for name in names:
        try:
            points += line(question, name)
        except InvalidInput as error:
            refused[name] = str(error)
    return tuple(points), refused


@lru_cache(maxsize=4 * KEPT)
def _line(name: str, domain: Domain, prior: Prior, loss: str, records: int) -> tuple[Point, ...]:
    judged = merged(prior, COARSE)
    get_loss(loss).valid_labels.check(judged.values, f"labels under {loss} loss")
    models = ModelErrors(judged, records) if loss == "squared" else None

    def point(epsilon: float) -> Point:
        grid = domain.resolve(records, epsilon)  # as a release takes it
        mechanism = _made(name, grid, prior, judged, loss, records, epsilon)
        bias, variance = moments(mechanism, judged)
        return Point(
            mechanism=name,
            epsilon=epsilon,
            model_error=None if models is None or name in GRID_DECIDES else models.of(mechanism),
            label_error=loss_of(mechanism, judged, loss),
            bias=bias,
            variance=variance,
        )

    with ThreadPoolExecutor(2) as threads:  # a program is solved without Python's lock
        return tuple(threads.map(point, EPSILONS))


def _made(
    name: str, grid: Domain, prior: Prior, coarse: Prior, loss: str, records: int, epsilon: float
) -> FiniteMechanism:
    """The mechanism at one ε. Those that a program designs are designed on the merged labels."""
    made: FiniteMechanism
    anchors = ANCHORS.get(epsilon, FEW_ANCHORS)
    if name == "auto" and loss == "squared":
        return BiasVariance.optimal(coarse, epsilon, weight_of_variance(records), visible=VISIBLE, anchors=anchors)
    if name == "auto":
        return choose(coarse, epsilon, records, loss).mechanism
    if name == "bias-variance":
        return BiasVariance.optimal(coarse, epsilon, weight_of_variance(records), anchors=anchors)
    if name == "unbiased" and loss == "squared":
        return Unbiased.optimal(coarse, epsilon, anchors=anchors)
    made = MECHANISMS[name].make(Request(grid, epsilon, loss, prior, records))
    return made
