"""Figures about held-out records: values with the noise of sums and the sampling of records in their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from labeldp.arrays import Floats
from labeldp.formatting import ReprMixin, plain

WIDEST = 0.8
"""An interval that covers more than this share of the possible range is uninformative: its figure is shown as unknown."""
RISK = 0.05
"""The probability that an interval misses the truth."""


def reach_of_sampling(risk: float = RISK) -> float:
    """Return the half-width of an interval in standard deviations of sampling, which is normal for many records."""
    return NormalDist().inv_cdf(1 - risk / 2)


def reach_of_noise(risk: float = RISK) -> float:
    """Return the half-width in standard deviations of Laplace noise. Sums with cube noise need fewer."""
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
        """Return the same figure in another unit: one current unit is `factor` new units.

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
    """A value that is linear in noisy means with this covariance, with `own` as the variance of its independent noise."""

    value: float
    factors: Floats
    noise: Floats
    own: float = 0.0

    def with_noise(self, variance: float) -> Linear:
        """Return the same figure with additional independent noise."""
        return replace(self, own=self.own + variance)

    def less(self, other: Linear) -> Linear:
        """Return the difference to another value of the same means."""
        return Linear(self.value - other.value, self.factors - other.factors, self.noise, self.own + other.own)

    def covariance(self, other: Linear) -> float:
        """The covariance of the noise of two such values."""
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
        """Variances of squared errors and squares about the mean."""
        if not self.ratio:
            return 0.0
        found = (self.error + self.ratio**2 * self.variance - self.mixed) / (2 * self.ratio)
        most = math.sqrt(self.error * self.variance)
        return min(max(found, -most), most)

    @property
    def gain(self) -> float:
        """The variance of square − error."""
        return max(0.0, self.error + self.variance - 2 * self.covariance)


def figure(found: Linear, sampling: float, *, least: float = -math.inf, risk: float = RISK) -> HeldOutFigure:
    """Return a figure with an interval for noise and sampling of these variances."""
    noise = found.covariance(found)
    reach = math.sqrt(reach_of_sampling(risk) ** 2 * sampling + reach_of_noise(risk) ** 2 * noise)
    lower, upper = max(least, found.value - reach), max(least, found.value + reach)
    return HeldOutFigure(min(max(found.value, lower), upper), math.sqrt(sampling + noise), lower, upper)


def ratio_figure(error: Linear, variance: Linear, spread: Spread, records: float) -> HeldOutFigure:
    """Return R² = 1 − error/variance, with Fieller's interval: all ratios for which error − ratio·variance is compatible with zero."""
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
    """Return the smallest and largest ratio r for which a − r·b may be zero, given squared half-widths; infinite if b may be zero."""
    lead = b**2 - bb
    if lead <= 0:
        return -math.inf, math.inf
    middle = a * b - ab
    root = math.sqrt(max(0.0, middle**2 - lead * (a**2 - aa)))
    return (middle - root) / lead, (middle + root) / lead
