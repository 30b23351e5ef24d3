"""Figures about held-out records: values with the noise of sums and the sampling of records in their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from labeldp.arrays import Floats
from labeldp.formatting import ReprMixin, plain

WIDEST = 0.8
"""An interval that covers more than this share of what is possible says nothing: its figure is shown as not known."""
RISK = 0.05
"""How often an interval may miss."""


def reach_of_sampling(risk: float = RISK) -> float:
    """Return how many standard deviations of sampling an interval reaches to each side. For many records sampling is normal."""
    return NormalDist().inv_cdf(1 - risk / 2)


def reach_of_noise(risk: float = RISK) -> float:
    """Return how many standard deviations of noise it reaches: those of Laplace noise. Sums of numbers of a cube need fewer."""
    return math.log(1 / risk) / math.sqrt(2)


SAMPLING, NOISE = reach_of_sampling(), reach_of_noise()


@dataclass(frozen=True, repr=False)
class HeldOutFigure(ReprMixin):
    """One figure about held-out records with its uncertainty.

    Attributes
    ----------
    value : float
        The estimate.
    standard_error : float
        Its standard deviation, by noise and by sampling.
    lower, upper : float
        The ends of its 95 % interval.
    """

    value: float
    standard_error: float
    lower: float
    upper: float

    def __float__(self) -> float:
        return self.value

    def times(self, factor: float) -> HeldOutFigure:
        """The same figure in another unit: `factor` of the new unit make one of the present unit.

        Parameters
        ----------
        factor : float
            A positive number.

        Returns
        -------
        HeldOutFigure
        """
        return HeldOutFigure(*(factor * one for one in (self.value, self.standard_error, self.lower, self.upper)))

    def __str__(self) -> str:
        return f"{plain(self.value)} (95% interval {plain(self.lower)} to {plain(self.upper)})"

    def _facts(self) -> dict[str, str]:
        return {name: plain(getattr(self, name)) for name in ("value", "standard_error", "lower", "upper")}


@dataclass(frozen=True, eq=False)
class Linear:
    """A value that is linear in noisy means with this covariance, with `own` as the variance of noise that no other value has."""

    value: float
    factors: Floats
    noise: Floats
    own: float = 0.0

    def with_noise(self, variance: float) -> Linear:
        """The same figure with additional independent noise."""
        return replace(self, own=self.own + variance)

    def less(self, other: Linear) -> Linear:
        """The difference to another value of the same means."""
        return Linear(self.value - other.value, self.factors - other.factors, self.noise, self.own + other.own)

    def covariance(self, other: Linear) -> float:
        """Of the noise of two such values."""
        shared = float(self.factors @ self.noise @ other.factors)
        return max(0.0, shared) + self.own if other is self else shared


@dataclass(frozen=True)
class Spread:
    """Variances over records: of squared errors, of squares about the mean, and of error − ratio·square."""

    error: float
    variance: float
    mixed: float
    ratio: float

    @property
    def covariance(self) -> float:
        """Of squared errors and squares about the mean."""
        if not self.ratio:
            return 0.0
        found = (self.error + self.ratio**2 * self.variance - self.mixed) / (2 * self.ratio)
        most = math.sqrt(self.error * self.variance)
        return min(max(found, -most), most)

    @property
    def gain(self) -> float:
        """Of square − error."""
        return max(0.0, self.error + self.variance - 2 * self.covariance)


def figure(found: Linear, sampling: float, *, least: float = -math.inf, risk: float = RISK) -> HeldOutFigure:
    """A figure with an interval for noise and sampling of these variances."""
    noise = found.covariance(found)
    reach = math.sqrt(reach_of_sampling(risk) ** 2 * sampling + reach_of_noise(risk) ** 2 * noise)
    lower, upper = max(least, found.value - reach), max(least, found.value + reach)
    return HeldOutFigure(min(max(found.value, lower), upper), math.sqrt(sampling + noise), lower, upper)


def ratio_figure(error: Linear, variance: Linear, spread: Spread, records: float) -> HeldOutFigure:
    """R² = 1 − error/variance, with Fieller's interval: all ratios at which error − ratio·variance may well be zero."""
    a, b = error.value, variance.value
    sampled = {"aa": spread.error / records, "ab": spread.covariance / records, "bb": spread.variance / records}
    noisy = {
        "aa": error.covariance(error),
        "ab": error.covariance(variance),
        "bb": variance.covariance(variance),
    }
    wide = {key: SAMPLING**2 * sampled[key] + NOISE**2 * noisy[key] for key in sampled}
    if b <= 0:
        return HeldOutFigure(math.nan, math.nan, -math.inf, 1.0)
    ratio = a / b
    value = min(1.0, 1 - ratio)  # noise can make an error negative
    both = {key: sampled[key] + noisy[key] for key in sampled}
    deviation = math.sqrt(max(0.0, both["aa"] - 2 * ratio * both["ab"] + ratio**2 * both["bb"])) / b
    low, high = (max(0.0, end) for end in fieller(a, b, wide["aa"], wide["ab"], wide["bb"]))
    return HeldOutFigure(value, deviation, 1 - high, 1 - low)


def fieller(a: float, b: float, aa: float, ab: float, bb: float) -> tuple[float, float]:
    """Return the least and the largest ratio r at which a − r·b may well be zero, for b > 0 and the squares of their reaches. Infinite if b may be zero."""
    lead = b**2 - bb
    if lead <= 0:
        return -math.inf, math.inf
    middle = a * b - ab
    root = math.sqrt(max(0.0, middle**2 - lead * (a**2 - aa)))
    return (middle - root) / lead, (middle + root) / lead
