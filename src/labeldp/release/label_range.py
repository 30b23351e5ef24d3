"""The range of the labels: a noisy histogram, and the clip, mean and variance derived from it.

A clip makes all later sums less noisy. `first_look` draws the histogram; everything else here is post-processing of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.formatting import plain
from labeldp.mechanisms.bias_variance import NormalScores
from labeldp.priors import unimodal_masses
from labeldp.release.noisy_sums import SCORES, Answer
from labeldp.release.private_sums import PrivateSums
from labeldp.release.sum_queries import SumQueries

Integers = NDArray[np.int64]

HISTOGRAM = Fraction(6, 100)
"""The maximum cost of a histogram, as a share of ε."""
HISTOGRAM_OF_SCORES = Fraction(10, 100)
"""The same, where labels become scores: the model answers with labels of the histogram."""
ENOUGH = 1000
"""The maximum cost of a histogram, times the number of records: its noise then has a scale of 1/500 of them."""
PARTS = 64
"""The number of parts of a histogram, unless the labels are few whole numbers."""
MOST_WHOLE = 128
"""Whole labels with at most this number of values are counted one by one."""
FEWEST_PARTS = 4
"""The minimum number of parts of a histogram."""
LEAST_RECORDS = 10
"""The number of records that a histogram needs per unit of the total noise of its counts. With fewer it is ignored."""
USUAL_SUMS = 24
"""A clip is chosen for the noise of this number of signed sums. If p of them have noise of p²/3·(width/ε)² each, a model of p effects for n
records has p³/3·(width/(ε·n))² more error."""
SEEN_TAIL = 0.1
"""The share of the mean square beyond a clip that features are assumed to explain."""
LEAST_VARIANCE = 1 / 1000
"""The minimum of the assumed variance of clipped labels, as a share of the squared width: noise may hide all values but one."""


@dataclass(frozen=True)
class LabelRange:
    """A clip, the moments of clipped labels, and how to undo the clip on average.

    Attributes
    ----------
    clip : tuple of (int, int)
        The clip, in grid units.
    lower : float
        The lower end of the clip as a label.
    mean, variance : float
        The mean and variance of the clipped labels.
    factor, shift : float
        A mean of clipped labels c corresponds to a mean label of lower + (c − lower)·factor + shift: labels above the
        clip are assumed to be more frequent where labels are large, and labels below it equally frequent everywhere.
    """

    clip: tuple[int, int]
    lower: float
    mean: float
    variance: float
    factor: float
    shift: float

    def is_known(self, domain: Domain) -> bool:
        """Return whether a histogram was informative. If not, this is the whole range, with some variance."""
        whole = whole_range(domain)
        return replace(self, variance=whole.variance) != whole

    def unclipped(self, means: Floats) -> Floats:
        """Return means of labels from means of clipped labels."""
        return np.asarray(self.lower + (means - self.lower) * self.factor + self.shift)


def histogram_parts(domain: Domain, records: int, epsilon: Fraction) -> int:
    """Return the number of parts of a histogram of the labels with this ε: fewer parts for noisier counts."""
    most = domain.count if domain.count <= MOST_WHOLE else PARTS
    return max(1, min(most, max(FEWEST_PARTS, int((records * epsilon / 2 / LEAST_RECORDS) ** 2 / 2))))


def label_range(counts: Answer, records: int, epsilon: float) -> LabelRange:
    """Choose the clip of least expected error for sums of this ε, from noisy counts of the labels.

    A clip loses the tail beyond it, except for the part that `unclipped` restores on average; a wide one makes all sums
    noisier.
    """
    domain, parts = counts.domain, counts.values.size
    if not _is_informative(counts, records):
        return whole_range(domain)
    first, last, at = part_places(counts)
    masses = _masses(counts, records, parts)
    noise = USUAL_SUMS**3 / (3 * epsilon**2 * records**2)
    above = np.array([_tail(at - (domain.lower + domain.step * top), masses) for top in last])
    below = np.array([_tail(domain.lower + domain.step * low - at, masses) for low in first])
    widths = domain.step * (last[None, :] - first[:, None])
    cost = np.where(widths > 0, below[:, None] + above[None, :] + noise * np.square(widths), np.inf)
    low, high = np.unravel_index(int(np.argmin(cost)), cost.shape) if np.isfinite(cost).any() else (0, parts - 1)
    return range_within((int(first[low]), int(last[high])), counts, records)


def range_within(clip: tuple[int, int], counts: Answer, records: int) -> LabelRange:
    """Return the range of labels for a clip that was chosen before."""
    domain, parts = counts.domain, counts.values.size
    if not _is_informative(counts, records):
        return whole_range(domain)
    at = part_places(counts)[2]
    masses = _masses(counts, records, parts)
    lower, upper = domain.lower + domain.step * clip[0], domain.lower + domain.step * clip[1]
    clipped = np.clip(at, lower, upper)
    mean = float(masses @ clipped)
    variance = max(float(masses @ np.square(clipped - mean)), LEAST_VARIANCE * (upper - lower) ** 2)
    raised = float(masses @ np.maximum(at, lower))
    factor = (raised - lower) / (mean - lower) if mean > lower else 1.0
    return LabelRange(clip, lower, mean, variance, factor, float(masses @ at) - raised)


def _is_informative(counts: Answer, records: int) -> bool:
    """Return whether a histogram is more than noise: the total noise of the counts is small compared with the number of records."""
    return counts.scale / counts.weight * math.sqrt(2 * counts.values.size) * LEAST_RECORDS <= 1.5 * records


def whole_range(domain: Domain) -> LabelRange:
    """Return the range without any knowledge about the labels: no clip."""
    width = domain.upper - domain.lower
    return LabelRange((0, domain.count - 1), domain.lower, domain.lower + width / 2, width**2 / 12, 1.0, 0.0)


def usual_variance(mean: float, domain: Domain) -> float:
    """Return an assumed variance given only the mean: that of the uniform distribution in the middle of the bounds, less near an end."""
    least = 0.02 * (domain.upper - domain.lower)
    mean = min(max(mean, domain.lower + least), domain.upper - least)
    return (mean - domain.lower) * (domain.upper - mean) / 3


def part_places(counts: Answer) -> tuple[Integers, Integers, Floats]:
    """Return the first and the last unit of each part of a histogram, and the label in its middle."""
    ends = np.concatenate([[0], np.cumsum(counts.counts)])
    first, last = ends[:-1], ends[1:] - 1
    return first, last, counts.domain.lower + counts.domain.step * (first + last) / 2


def _masses(counts: Answer, records: int, parts: int) -> Floats:
    """Return the probabilities of the parts, without the even spread that `unimodal_masses` adds: here it would look like a tail."""
    scale = counts.scale / counts.weight
    if scale == 0:
        return np.asarray(counts.sums / counts.sums.sum())
    even = min(1.0, scale / records)
    masses = unimodal_masses(counts.sums, records, scale) - even / parts
    masses = np.maximum(masses, 0)
    return np.asarray(masses / masses.sum()) if masses.sum() > 0 else np.full(parts, 1 / parts)


def _tail(beyond: Floats, masses: Floats) -> float:
    """Return the loss from labels beyond an end of the clip: the square of the mean excess, and the part that features could explain.

    `unclipped` restores the mean excess on average. It still counts as a loss, because it is restored from a noisy
    histogram and not by features.
    """
    excess = np.maximum(beyond, 0)
    return float(masses @ excess) ** 2 + SEEN_TAIL * float(masses @ np.square(excess))


def first_look(queries: SumQueries) -> LabelRange:
    """Draw a histogram of the labels, and clip the labels to the range that it shows."""
    budget = histogram_share(queries.remaining, queries.size)
    counts = queries.histogram(histogram_parts(queries.domain, queries.size, budget), budget)
    found = label_range(counts, queries.size, float(queries.remaining))
    queries.clip(*found.clip)
    return found


def score_look(queries: SumQueries) -> tuple[LabelRange, NormalScores]:
    """Draw a histogram of the labels, and replace each label by its normal score under it. Return the range of the scores, and the scores.

    Scores are never clipped as labels are: even rare labels have scores near those of others.
    """
    budget = histogram_share(queries.remaining, queries.size, HISTOGRAM_OF_SCORES)
    counts = queries.histogram(histogram_parts(queries.domain, queries.size, budget), budget)
    parts = counts.values.size
    known = _is_informative(counts, queries.size)
    masses = _masses(counts, queries.size, parts) if known else np.full(parts, 1 / parts)
    found = NormalScores.of(part_places(counts)[2], masses)
    queries.score(found)
    values = np.clip(found.scores, SCORES.lower, SCORES.upper)
    mean = float(masses @ values)
    variance = max(float(masses @ np.square(values - mean)), LEAST_VARIANCE)
    return LabelRange(queries.clipped, float(values[0]), mean, variance, 1.0, 0.0), found


def class_looks(queries: SumQueries) -> tuple[LabelRange, ...]:
    """Draw the counts of three or more classes. Return the range of each label that tells whether a label is of a class."""
    counts = queries.histogram(queries.domain.count, histogram_share(queries.remaining, queries.size))
    error = np.sqrt(counts.sums_variance) / queries.size
    rates = likely_rates(counts.sums / queries.size, np.full(counts.values.size, error), 0.5 / queries.size)
    return tuple(
        LabelRange((0, 1), 0.0, rate, max(rate * (1 - rate), LEAST_VARIANCE), 1.0, 0.0) for rate in rates.tolist()
    )


def likely_rates(means: Floats, errors: Floats, least: float) -> Floats:
    """Return the likely rates of classes, given noisy estimates and their standard errors. They add up to one.

    A noisy estimate may be negative, or near zero by chance. So each rate is the mean of the normal distribution around its estimate
    between 0 and 1, which is the estimate itself where it is precise.
    """
    from scipy.stats import truncnorm  # slow to import, and only classes need it

    known = errors < 1e-3 * means
    scale = np.where(known, 1.0, errors)
    inside = truncnorm.mean(-means / scale, (1 - means) / scale, loc=means, scale=scale)
    found = np.clip(np.where(known, means, inside), least, 1)
    return np.asarray(found / found.sum())


def clip_text(sums: PrivateSums) -> str:
    """Return a note on the clip of sums that begin with a histogram, or nothing if it is as wide as the bounds. Costs nothing."""
    counts, *others = sums.answers
    clip, domain = others[-1].clip, sums.domain
    if clip == (0, domain.count - 1):
        return ""
    found = range_within(clip, counts, sums.size)
    low, high = (plain(domain.lower + end * domain.step) for end in clip)
    mean = float(found.unclipped(np.array([found.mean]))[0])
    return (
        f"labels were summed as if they lay between {low} and {high}, where the noisy histogram shows nearly all of them. That moves their mean "
        f"from about {plain(mean)} to {plain(found.mean)}; labeldp train moves it back"
    )


def histogram_share(epsilon: Fraction, records: int, most: Fraction = HISTOGRAM) -> Fraction:
    """Return the part of ε for a histogram of the labels, at most the share `most`."""
    return min(epsilon * most, Fraction(ENOUGH, records))
