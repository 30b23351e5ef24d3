"""Every mechanism side by side under one prior: expected loss, bias and variance against ε, exact and never sampled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labeldp.budget import Epsilon, exact
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms import (
    ContinuousExponential,
    DiscreteLaplace,
    DiscreteStaircase,
    Exponential,
    Laplace,
    Mechanism,
    RandomizedResponse,
    RROnBins,
    RRWithPrior,
    Staircase,
)
from labeldp.prior import Prior

if TYPE_CHECKING:
    from labeldp.mechanisms.base import LossLike

Maker = Callable[[Prior, Domain, Epsilon, "LossLike"], Mechanism]

MAKERS: dict[str, Maker] = {
    "rr-on-bins": lambda prior, domain, epsilon, loss: RROnBins.optimal(prior, epsilon, loss, domain=domain),
    "randomized-response": lambda prior, domain, epsilon, loss: RandomizedResponse(domain, epsilon),  # noqa: ARG005
    "rr-with-prior": lambda prior, domain, epsilon, loss: RRWithPrior(prior, epsilon),  # noqa: ARG005
    "discrete-laplace": lambda prior, domain, epsilon, loss: DiscreteLaplace(domain, epsilon),  # noqa: ARG005
    "discrete-staircase": lambda prior, domain, epsilon, loss: DiscreteStaircase.optimal(
        prior, epsilon, loss, domain=domain
    ),
    "exponential": lambda prior, domain, epsilon, loss: Exponential(domain, epsilon),  # noqa: ARG005
    "laplace": lambda prior, domain, epsilon, loss: Laplace(domain, epsilon),  # noqa: ARG005
    "staircase": lambda prior, domain, epsilon, loss: Staircase.optimal(prior, epsilon, loss, domain=domain),
    "continuous-exponential": lambda prior, domain, epsilon, loss: ContinuousExponential(domain, epsilon),  # noqa: ARG005
}
"""How each mechanism is designed for a prior on a domain with a grid."""


@dataclass(frozen=True)
class Comparison:
    """One mechanism at one ε. `bias` is the root of E[bias(y)²], `variance` is E[Var(ŷ | y)]."""

    mechanism: str
    epsilon: float
    expected_loss: float
    bias: float
    variance: float
    outputs: int | None
    exact: bool


def compare(
    prior: Prior,
    epsilons: Iterable[Epsilon],
    loss: LossLike = "squared",
    *,
    mechanisms: Iterable[str] = tuple(MAKERS),
    domain: Domain | None = None,
) -> Iterator[Comparison]:
    """Each mechanism at each ε, in this order of nesting. The grid is the domain's, or the prior's own even one."""
    frame = grid_of(prior) if domain is None else domain
    points, masses = prior.values[prior.masses > 0], prior.masses[prior.masses > 0]
    for name in mechanisms:
        if name not in MAKERS:
            raise InvalidInput(f"unknown mechanism {name!r}; known: {', '.join(MAKERS)}")
        for epsilon in epsilons:
            mechanism = MAKERS[name](prior, frame, epsilon, loss)
            mean, variance = mechanism.conditional_moments(points)
            yield Comparison(
                mechanism=name,
                epsilon=float(exact(epsilon)),
                expected_loss=mechanism.expected_loss(prior, loss),
                bias=math.sqrt(float(masses @ (mean - points) ** 2)),
                variance=float(masses @ variance),
                outputs=mechanism.outputs.size if mechanism.exact else None,
                exact=mechanism.exact,
            )


def grid_of(prior: Prior) -> Domain:
    """The domain whose grid the prior's values are, or at least one that covers them with as many cells (at most 1,001)."""
    values = prior.values
    if values.size < 2:
        raise InvalidInput("comparing needs a prior with at least two values")
    step = float(np.diff(values).min())
    cells = round((values[-1] - values[0]) / step) + 1
    return Domain(float(values[0]), float(values[-1]), int(min(max(cells, 2), 1001)))
