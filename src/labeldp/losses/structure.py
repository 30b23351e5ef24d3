"""What the optimiser may exploit in a loss. A new loss with one of these structures needs no new search.

A structure tells how to minimise `Σ weight·ℓ(ŷ, y)` over an interval of outputs exactly. A loss without one is minimised over a
finite set of candidate outputs.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SquaredDistance:
    """ℓ = (g(ŷ) − g(y))² with g increasing: the minimiser is the weighted mean on the scale of g."""

    scale: Literal["identity", "log1p"] = "identity"


@dataclass(frozen=True)
class Deviance:
    """A Tweedie unit deviance of power 1 (Poisson) or 2 (gamma): the minimiser is the weighted mean."""

    power: Literal[1, 2]


@dataclass(frozen=True)
class PinballDistance:
    """ℓ = under·(y − ŷ) for labels above the output, over·(ŷ − y) below it: the minimiser is a weighted quantile."""

    under: float
    over: float


@dataclass(frozen=True)
class HuberDistance:
    """ℓ = half the squared distance up to `delta`, linear beyond: its derivative is increasing and piecewise linear."""

    delta: float


Structure = SquaredDistance | Deviance | PinballDistance | HuberDistance
