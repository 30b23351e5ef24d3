"""The continuous staircase mechanism (Geng and Viswanath 2014), for comparison only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.losses import LossLike
from labeldp.mechanisms.catalogue import Request, mechanism
from labeldp.mechanisms.continuous import ContinuousMechanism
from labeldp.priors import Prior

_GOLDEN = (math.sqrt(5) - 1) / 2
_WIDTH = 1e-6
"""Golden sections end when the minimum is known to this."""


@mechanism(
    "staircase",
    title="staircase",
    help="continuous staircase noise, its step best for the prior where there is one",
    make=lambda r: _made(r),  # noqa: PLW0108 - it is defined below
    colour="#41794b",
    rank=90,
)
class Staircase(ContinuousMechanism):
    """The staircase mechanism: noise whose density has steps of width γΔ and (1 − γ)Δ in turn, each e^−ε of the last.

    Comparison only: a float mechanism. Its ε holds for real numbers, not for the floats that a computer draws.
    `DiscreteStaircase` is the exact one.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds of the labels.
    epsilon : float, str, Decimal or Fraction
        What each label would cost.
    gamma : float, optional
        The share of the first step, in (0, 1]. By default the one that minimises the variance of the noise.
    clip : bool
        Whether outputs are clipped into the bounds, as in the paper.

    Examples
    --------
    >>> from labeldp import Staircase
    >>> round(Staircase((0, 400), epsilon=2).gamma, 3)
    0.335
    """

    gamma: float

    def __init__(
        self,
        domain: Domain | tuple[float, float],
        epsilon: Epsilon,
        *,
        gamma: float | None = None,
        clip: bool = True,
    ) -> None:
        width = _least_variance(float(exact_epsilon(epsilon))) if gamma is None else float(gamma)
        if not 0 < width <= 1:
            raise InvalidInput(f"gamma must lie in (0, 1], got {described(gamma)}")
        super().__init__(domain, epsilon, clip=clip, gamma=width)

    @classmethod
    def optimal(
        cls,
        prior: Prior,
        epsilon: Epsilon,
        loss: LossLike = "squared",
        *,
        domain: Domain | tuple[float, float] | None = None,
    ) -> Staircase:
        """Find the γ of least expected loss after clipping: a scan, then a bounded search around the best.

        Parameters
        ----------
        prior : Prior
            The distribution of the labels.
        epsilon : float, str, Decimal or Fraction
            What each label would cost.
        loss : str, Loss or callable
            What is minimised.
        domain : Domain or (lower, upper), optional
            The public bounds of the labels; the prior's range by default.

        Returns
        -------
        Staircase
        """
        frame = Domain(prior.values[0], prior.values[-1]) if domain is None else Domain.of(domain)

        def cost(gamma: float) -> float:
            return cls(frame, epsilon, gamma=gamma).expected_loss(prior, loss)

        scan = np.linspace(0.04, 1, 25)
        best = float(scan[np.argmin([cost(gamma) for gamma in scan])])
        found = _least(cost, max(1e-6, best - 0.04), min(1.0, best + 0.04))
        return cls(frame, epsilon, gamma=min((best, found), key=cost))

    @property
    def _step(self) -> float:
        return math.exp(-float(self.epsilon_exact))

    @property
    def _height(self) -> float:
        """The height of the first step."""
        step = self._step
        return -math.expm1(-float(self.epsilon_exact)) / (2 * self.sensitivity * (self.gamma + step * (1 - self.gamma)))

    def _density(self, noise: Floats) -> Floats:
        periods, place = _periods(np.abs(noise) / self.sensitivity)
        return self._height * self._powers(periods + (place >= self.gamma))

    def _powers(self, exponents: NDArray[np.intp]) -> Floats:
        """e^(−ε·k) for each of some whole k. Where few of them differ, a table is faster."""
        most = int(exponents.max(initial=0))
        if most > exponents.size:
            return np.power(self._step, exponents, dtype=np.float64)
        return np.power(self._step, np.arange(most + 1), dtype=np.float64)[exponents]

    def _tail(self, distance: Floats) -> Floats:
        periods, place = _periods(distance / self.sensitivity)
        step, gamma = self._step, self.gamma
        whole = self._height * self.sensitivity * (gamma + step * (1 - gamma))
        left = np.where(place < gamma, gamma - place + step * (1 - gamma), step * (1 - place))
        return self._powers(periods) * (self._height * self.sensitivity * left + whole * step / (1 - step))

    def _breaks(self, reach: float) -> Floats:
        periods = np.arange(math.ceil(reach / self.sensitivity) + 1)
        return self.sensitivity * np.sort(np.concatenate([periods, periods + self.gamma]))

    def _reach(self) -> float:
        return self.sensitivity * math.ceil(45 / float(self.epsilon_exact) + 1)

    def _sample(self, labels: Floats, generator: np.random.Generator) -> Floats:
        n, step, gamma = labels.size, self._step, self.gamma
        period = generator.geometric(1 - step, n) - 1
        inner = generator.random(n) < gamma / (gamma + step * (1 - gamma))
        place = np.where(inner, gamma * generator.random(n), gamma + (1 - gamma) * generator.random(n))
        sign = generator.integers(0, 2, n) * 2 - 1
        return np.clip(labels + sign * self.sensitivity * (period + place), *self.outputs)

    def _parameters(self) -> dict[str, Any]:
        return {"clip": self.clip, "gamma": self.gamma}


def _made(request: Request) -> Staircase:
    if request.prior is None:
        return Staircase(request.domain, request.epsilon)
    return Staircase.optimal(request.prior, request.epsilon, request.loss, domain=request.domain)


def _periods(distance: Floats) -> tuple[NDArray[np.intp], Floats]:
    """The whole part and the rest of each distance, both exact."""
    whole = np.floor(distance)
    return whole.astype(np.intp), distance - whole


def _least_variance(epsilon: float) -> float:
    """The γ that minimises E[noise²]."""
    return _least(lambda gamma: noise_variance(gamma, epsilon), 1e-9, 1.0)


def _least(cost: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one minimum between two bounds has it, by golden sections.

    `scipy.optimize.minimize_scalar` gives the same, and a test compares them. Its import takes longer than all searches of `compare`.
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = cost(left), cost(right)
    while high - low > _WIDTH:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = cost(right)
    return (low + high) / 2


def noise_variance(gamma: float, epsilon: float) -> float:
    """E[noise²] for Δ = 1, from the sums of b^k, k·b^k and k²·b^k."""
    b = math.exp(-epsilon)
    c = -math.expm1(-epsilon)
    s0, s1, s2 = 1 / c, b / c**2, b * (1 + b) / c**3
    inner = s2 * gamma + s1 * gamma**2 + s0 * gamma**3 / 3
    outer = s2 * (1 - gamma) + s1 * (1 - gamma**2) + s0 * (1 - gamma**3) / 3
    return c / (gamma + b * (1 - gamma)) * (inner + b * outer)
