"""What the optimiser may exploit in a loss. A loss *has* a structure; a new loss with a known one needs no new search.

Every structure says how to minimise `Σ weight·ℓ(ŷ, y)` over an interval of outputs exactly. A loss without one is
minimised over a finite set of candidate outputs.
"""

from __future__ import annotations

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
class TiltedDistance:
    """ℓ = under·(y − ŷ) above the output and over·(ŷ − y) below it: the minimiser is a weighted quantile."""

    under: float
    over: float


@dataclass(frozen=True)
class ClippedSquare:
    """Huber: half the square up to `delta`, linear beyond. The derivative is piecewise linear and increasing."""

    delta: float


Structure = SquaredDistance | Deviance | TiltedDistance | ClippedSquare
