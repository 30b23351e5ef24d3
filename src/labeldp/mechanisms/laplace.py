"""The continuous Laplace mechanism (Dwork et al. 2006), for comparison only."""

import math

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon
from labeldp.domain import Domain
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.continuous import ContinuousMechanism


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
        What each label would cost.
    clip : bool
        Whether outputs are clipped into the bounds, as in the paper.

    Examples
    --------
    >>> from labeldp import Laplace
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
        What each label would cost.

    Examples
    --------
    >>> from labeldp import ContinuousExponential
    >>> ContinuousExponential((0, 400), epsilon=2).scale
    400.0
    """

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon) -> None:
        super().__init__(domain, epsilon, clip=True)

    @property
    def scale(self) -> float:
        """Twice that of Laplace noise: the normalising constant depends on the label and costs as much again."""
        return 2 * super().scale

    def _parameters(self) -> dict[str, object]:
        return {}

    def _tail(self, distance: Floats) -> Floats:
        return np.zeros_like(distance)  # nothing falls outside: the density is conditioned on the bounds

    def _sample(self, labels: Floats, generator: np.random.Generator) -> Floats:
        below = -np.expm1(-(labels - self.domain.lower) / self.scale) / 2
        above = -np.expm1(-(self.domain.upper - labels) / self.scale) / 2
        place = generator.random(labels.size) * (below + above) - below  # signed mass from the label outwards
        distance = -self.scale * np.log1p(-2 * np.abs(place))
        return np.asarray(np.clip(labels + np.sign(place) * distance, *self.outputs))
