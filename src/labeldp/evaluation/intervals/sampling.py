"""Sampling error: how far the mean over records may lie from the mean of the population."""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from labeldp.arrays import Floats
from labeldp.evaluation.intervals.counted import CountedMean
from labeldp.evaluation.intervals.target import Target
from labeldp.evaluation.moments import MomentValues
from labeldp.mechanisms import PrivateLabels


@dataclass(frozen=True)
class SampleMean:
    """The mean of the target's estimates over the records, and how far below and above it their expectation may lie.

    Approximate, for many records. Each distance is normal + c·d. The first part is the standard error times a quantile
    of the normal distribution. The second allows for what the sample does not show: n records miss an event of
    probability c = log(2/risk)/n with probability risk/2 at most (the rule of three), and such an event moves the mean
    by c times its distance d from it. Two kinds of event are that rare. One is a label, which counts with the expected
    estimates of its codes. The other is a code to which some label gives a probability below c; it counts with its
    own estimates.
    """

    mean: float
    standard_error: float
    below: float
    above: float
    moments: MomentValues
    known: CountedMean | None = None

    @classmethod
    def of(
        cls,
        target: Target,
        moments: MomentValues,
        private: PrivateLabels,
        channel: Floats,
        risk: float,
        known: CountedMean | None = None,
    ) -> Self:
        """The mean over these records; `channel` has a row of output probabilities for each kind of label.

        `known` is a part of the target that the noisy counts estimate; `moments` estimate the rest.
        """
        values = target.values(moments, private)
        mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
        chance = np.log(2 / risk) / values.size
        rare = channel.min(axis=0) < chance
        label, square = (np.r_[channel @ each, each[rare]] for each in (moments.label, moments.square))
        if known is not None:
            square[: len(channel)] += known.function / target.label_square
        least, most = target.value_range(label, square)
        if known is None:
            normal, slack = NormalDist().inv_cdf(1 - risk / 2) * error, 0.0
        else:
            normal, slack = known_mean(error, known, risk), (known.high - known.low) / 2
            mean, error = mean + (known.low + known.high) / 2, float(np.hypot(error + known.sampling, known.noise))
        below, above = (normal + slack + chance * max(0.0, side) for side in (mean - least, most - mean))
        return cls(mean, error, below, above, moments, known)


def known_mean(error: float, known: CountedMean, risk: float) -> float:
    """How far a mean of codes with this standard error plus a mean from noisy counts may be from its expectation.

    The records' own error is the sum of both standard errors, because the codes and the labels of the same records go
    together. The noise of the counts is independent of it. Its tails are heavier than the normal distribution's, which the
    expansion of Cornish and Fisher (1938) takes into account: with excess kurtosis k, the quantile z becomes
    z + (z³ − 3z)·k/24, and no less than z.
    """
    sampling = error + known.sampling
    variance = sampling**2 + known.noise**2
    if variance**2 == 0:  # all codes are alike, and the counts say nothing: there is no chance in this estimate
        return 0.0
    z, kurtosis = NormalDist().inv_cdf(1 - risk / 2), known.kurtosis * known.noise**4 / variance**2
    return float(np.sqrt(variance) * max(z, z + (z**3 - 3 * z) * kurtosis / 24))


def bernstein_radius(variance: Any, span: Any, records: int, risk: float) -> Floats:
    """How far the mean of numbers with this sample variance and range may be from its expectation.

    √(2·variance·L/n) + 7·span·L/(3·(n − 1)) with L = log(4/risk): the empirical Bernstein bound of Maurer and Pontil
    (2009), for both sides. It holds for every n.
    """
    log_term = np.log(4 / risk)
    return np.asarray(np.sqrt(2 * variance * log_term / records) + 7 * span * log_term / (3 * (records - 1)))
