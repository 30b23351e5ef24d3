"""Float mechanisms on the real line, for comparison only.

Floats leak (Mironov 2012): the low bits of a noisy float can reveal its label. These mechanisms exist for comparison
with the literature and draw from NumPy's generator. They cannot be released. Expectations are integrals, computed by
Gauss-Legendre quadrature between the points where a density or a loss has a kink.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, label_array, number_array
from labeldp.budget import Epsilon, exact_epsilon, parse_amount
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.json_text import read_record, to_record
from labeldp.losses import LossLike, get_loss
from labeldp.mechanisms.mechanism import Mechanism
from labeldp.mechanisms.registry import Request, mechanism
from labeldp.priors import Prior

NODES = 20

_WIDTH = 1e-6
"""The tolerance of the best step of the staircase."""


class ContinuousMechanism(Mechanism):
    """A mechanism with a density on an interval and, if it clips, masses at the interval's ends.

    `outputs` are the two ends of the range of outputs, infinite if outputs are not clipped.
    """

    exact: ClassVar[bool] = False
    stored: ClassVar[tuple[str, ...]] = ("clip",)
    domain: Domain
    clip: bool

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon, *, clip: bool, **more: float) -> None:
        frame = Domain.of(domain)
        ends = np.asarray([frame.lower, frame.upper] if clip else [-math.inf, math.inf])
        ends.flags.writeable = False
        fields = {"domain": frame, "epsilon_exact": exact_epsilon(epsilon), "clip": clip, "outputs": ends, **more}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a mechanism is immutable: cannot set {name!r}; build a new one")

    @property
    def sensitivity(self) -> float:
        """The largest distance between two labels."""
        return self.domain.upper - self.domain.lower

    def randomize(self, labels: Any, ids: Any = None, randomness: Any = None) -> Floats:
        """Draw noisy labels for experiments, never for a release.

        Parameters
        ----------
        labels : array-like
            The labels.
        ids : None
            Not supported by float mechanisms.
        randomness : numpy Generator, optional
            A new one by default.

        Returns
        -------
        array of float64
        """
        if ids is not None:
            raise InvalidInput(f"{self.kind} is for comparison only: keyed randomness over ids is for exact mechanisms")
        generator = np.random.default_rng() if randomness is None else randomness
        if not isinstance(generator, np.random.Generator):
            raise InvalidInput(
                f"{self.kind} is a float mechanism for comparison: it draws from a numpy Generator, not from "
                f"{type(randomness).__name__}. For a release choose an exact mechanism, such as RROnBins."
            )
        return self._sample(self.domain.check(labels), generator)

    def conditional_loss(self, values: Floats, loss: LossLike = "squared") -> Floats:
        measure = get_loss(loss)
        points = label_array(values, "values")
        measure.valid_labels.check(points, "labels")
        if not self.clip and not measure.valid_outputs.contains(-1e300):
            return np.full(points.shape, math.inf)
        measure.valid_outputs.check(self.outputs[np.isfinite(self.outputs)], "outputs")
        nodes, weights = self._quadrature(points, np.asarray(measure.kinks, np.float64))
        losses = np.where(
            weights > 0, measure(nodes, points[:, None]), 0.0
        )  # infinity times a probability of 0 counts as 0
        return np.asarray((weights * losses).sum(axis=1))

    def conditional_moments(self, values: Floats) -> tuple[Floats, Floats]:
        nodes, weights = self._quadrature(np.atleast_1d(number_array(values, "values")), np.empty(0))
        mean = (weights * nodes).sum(axis=1)
        return mean, (weights * (nodes - mean[:, None]) ** 2).sum(axis=1)

    @abstractmethod
    def _sample(self, labels: Floats, generator: np.random.Generator) -> Floats: ...

    @abstractmethod
    def _density(self, noise: Floats) -> Floats:
        """Return the density of ŷ − y, before clipping."""

    @abstractmethod
    def _tail(self, distance: Floats) -> Floats:
        """Return P[noise ≥ distance] for distance ≥ 0."""

    @abstractmethod
    def _breaks(self, reach: float) -> Floats:
        """Return the points from 0 to `reach` where the density has a kink or a jump. It is smooth between them."""

    @abstractmethod
    def _reach(self) -> float:
        """Return the distance beyond which noise is negligible in double precision."""

    def _quadrature(self, values: Floats, kinks: Floats) -> tuple[Floats, Floats]:
        """Return output nodes and probability weights, one row per label; rows of weights sum to one."""
        low = self.domain.lower - values if self.clip else np.full(values.shape, -self._reach())
        high = self.domain.upper - values if self.clip else np.full(values.shape, self._reach())
        reach = self.sensitivity if self.clip else self._reach()
        side = np.concatenate([self._breaks(reach), kinks])
        side = side[side < reach]  # noise does not reach further for any label
        breaks = np.unique(np.concatenate([-side, side]))
        edges = np.clip(breaks[None, :], low[:, None], high[:, None])
        edges = np.concatenate([low[:, None], edges, high[:, None]], axis=1)
        nodes, weights = _legendre()
        half = np.diff(edges, axis=1)[:, :, None] / 2
        middle = (edges[:, :-1] + edges[:, 1:])[:, :, None] / 2
        noise = (middle + half * nodes).reshape(values.size, -1)
        mass = (half * weights).reshape(values.size, -1) * self._density(noise)
        outputs = values[:, None] + noise
        if self.clip:
            ends = np.broadcast_to(self.outputs, (values.size, 2))
            tails = np.stack([self._tail(-low), self._tail(high)], axis=1)
            outputs = np.clip(outputs, *self.outputs)  # rounding may move a label plus noise out of range
            outputs, mass = np.concatenate([outputs, ends], axis=1), np.concatenate([mass, tails], axis=1)
        return outputs, mass / mass.sum(axis=1, keepdims=True)

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.stored}

    def _description(self) -> dict[str, Any]:
        epsilon, domain = to_record(self.epsilon_exact), to_record(self.domain)
        return {"epsilon": epsilon, "domain": domain, "parameters": self._parameters()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        domain = read_record(Domain, record["domain"], "the domain")
        return cls(domain, parse_amount(record["epsilon"]), **record["parameters"])

    def output_rows(self, values: Floats, edges: Floats) -> tuple[Floats, Floats]:
        return self._quadrature(values, edges[1:-1] - edges[0])

    def _facts(self) -> dict[str, str]:
        return super()._facts() | {
            "domain": repr(self.domain),
            **{
                name: f"{value:.4g}" if isinstance(value, float) else str(value)
                for name, value in self._parameters().items()
            },
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContinuousMechanism) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())


@lru_cache(maxsize=1)
def _legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes, weights


@mechanism(
    "laplace",
    title="Laplace",
    help="continuous Laplace noise, clipped into the bounds",
    make=lambda r: Laplace(r.domain, r.epsilon),
    colour="#0e6479",
    rank=90,
)
class Laplace(ContinuousMechanism):
    """The continuous Laplace mechanism: adds Laplace noise of scale (upper − lower)/ε.

    Comparison only: a float mechanism. Its ε holds for real numbers, not for the floats that a computer draws.
    `DiscreteLaplace` is the exact one.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds of the labels.
    epsilon : float, str, Decimal or Fraction
        The nominal privacy budget of each label.
    clip : bool
        Whether to clip outputs into the bounds, as in the paper.

    Examples
    --------
    >>> from labeldp.mechanisms import Laplace
    >>> Laplace((0, 400), epsilon=2).scale
    200.0
    """

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon, *, clip: bool = True) -> None:
        super().__init__(domain, epsilon, clip=clip)

    @property
    def scale(self) -> float:
        """The scale of the noise."""
        return self.sensitivity / float(self.epsilon_exact)

    def _sample(self, labels: Floats, generator: np.random.Generator) -> Floats:
        noisy = labels + generator.laplace(0, self.scale, labels.size)
        return np.clip(noisy, *self.outputs)

    def _density(self, noise: Floats) -> Floats:
        return np.exp(-np.abs(noise) / self.scale) / (2 * self.scale)

    def _tail(self, distance: Floats) -> Floats:
        return np.exp(-distance / self.scale) / 2

    def _breaks(self, reach: float) -> Floats:
        return np.linspace(0, reach, max(2, math.ceil(reach / self.scale) + 1))

    def _reach(self) -> float:
        return 60 * self.scale


@mechanism(
    "continuous-exponential",
    title="exponential, continuous",
    help="near outputs exponentially more often than far ones, on the real line",
    make=lambda r: ContinuousExponential(r.domain, r.epsilon),
    colour="#8a3ea4",
    rank=90,
)
class ContinuousExponential(Laplace):
    """The exponential mechanism with score −|ŷ − y|: Laplace noise of twice the scale, conditioned on the bounds.

    Comparison only: a float mechanism. Its ε holds for real numbers, not for the floats that a computer draws.
    `Exponential` is the exact one, on a grid.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds of the labels.
    epsilon : float, str, Decimal or Fraction
        The nominal privacy budget of each label.

    Examples
    --------
    >>> from labeldp.mechanisms import ContinuousExponential
    >>> ContinuousExponential((0, 400), epsilon=2).scale
    400.0
    """

    stored = ()

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon) -> None:
        super().__init__(domain, epsilon, clip=True)

    @property
    def scale(self) -> float:
        """The scale: twice that of Laplace noise, because the normalising constant depends on the label and doubles the cost."""
        return 2 * super().scale

    def _tail(self, distance: Floats) -> Floats:
        return np.zeros_like(distance)  # the density is conditioned on the bounds

    def _sample(self, labels: Floats, generator: np.random.Generator) -> Floats:
        below = -np.expm1(-(labels - self.domain.lower) / self.scale) / 2
        above = -np.expm1(-(self.domain.upper - labels) / self.scale) / 2
        place = generator.random(labels.size) * (below + above) - below  # signed mass from the label outwards
        distance = -self.scale * np.log1p(-2 * np.abs(place))
        return np.asarray(np.clip(labels + np.sign(place) * distance, *self.outputs))


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
        The nominal privacy budget of each label.
    gamma : float, optional
        The share of the first step, in (0, 1]. By default the one that minimises the variance of the noise.
    clip : bool
        Whether to clip outputs into the bounds, as in the paper.

    Examples
    --------
    >>> from labeldp.mechanisms import Staircase
    >>> round(Staircase((0, 400), epsilon=2).gamma, 3)
    0.335
    """

    stored = ("clip", "gamma")
    gamma: float

    def __init__(
        self,
        domain: Domain | tuple[float, float],
        epsilon: Epsilon,
        *,
        gamma: float | None = None,
        clip: bool = True,
    ) -> None:
        width = (
            _least(lambda g: noise_variance(g, float(exact_epsilon(epsilon))), 1e-9, 1.0)
            if gamma is None
            else float(gamma)
        )
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
            The nominal privacy budget of each label.
        loss : str, Loss or callable
            The loss to minimise.
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
        return self._height * np.power(self._step, periods + (place >= self.gamma), dtype=np.float64)

    def _tail(self, distance: Floats) -> Floats:
        periods, place = _periods(distance / self.sensitivity)
        step, gamma = self._step, self.gamma
        whole = self._height * self.sensitivity * (gamma + step * (1 - gamma))
        left = np.where(place < gamma, gamma - place + step * (1 - gamma), step * (1 - place))
        return np.power(step, periods, dtype=np.float64) * (
            self._height * self.sensitivity * left + whole * step / (1 - step)
        )

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


def _made(request: Request) -> Staircase:
    if request.prior is None:
        return Staircase(request.domain, request.epsilon)
    return Staircase.optimal(request.prior, request.epsilon, request.loss, domain=request.domain)


def _periods(distance: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the whole part and the rest of each distance, both exact."""
    whole = np.floor(distance)
    return whole.astype(np.intp), distance - whole


def _least(cost: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimiser of a unimodal function between two bounds."""
    from scipy.optimize import minimize_scalar

    return float(minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": _WIDTH}).x)


def noise_variance(gamma: float, epsilon: float) -> float:
    """Return E[noise²] for Δ = 1, from the sums of b^k, k·b^k and k²·b^k."""
    b = math.exp(-epsilon)
    c = -math.expm1(-epsilon)
    s0, s1, s2 = 1 / c, b / c**2, b * (1 + b) / c**3
    inner = s2 * gamma + s1 * gamma**2 + s0 * gamma**3 / 3
    outer = s2 * (1 - gamma) + s1 * (1 - gamma**2) + s0 * (1 - gamma**3) / 3
    return c / (gamma + b * (1 - gamma)) * (inner + b * outer)
