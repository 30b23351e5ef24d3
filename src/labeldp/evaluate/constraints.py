"""The quantities that private labels estimate, and constraints on labels from codes and noisy counts.

A `Target` is a polynomial in a public weight and a hidden label; `moment_values` are numbers for the codes that estimate
it. The constraints are those of the linear programs in `intervals.py`.

Labels with the same output probabilities form a piece of the label range. Three kinds of statistics of the codes, and the counts of a
private prior, bound which joint distributions of weight and piece are possible.

The distribution of the counts' noise is known, so Σ h(label) over the counted labels is known up to Σ h(cell)·noise,
for every function h of the cell. Codes and counts together estimate the mean of a function φ: numbers v for the codes
and h for the cells with E[v | y] + h(y) ≈ φ(y), so that the counts replace the codes where the codes cannot distinguish
labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.design.visibility import visible_bias_factor
from labeldp.errors import InvalidInput
from labeldp.linear_algebra import solve, svd
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.mechanisms.bias_variance import VISIBLE
from labeldp.mechanisms.mechanism import Grid
from labeldp.priors import NoisyCounts, Prior

_EVEN_SHARE = 0.01
_LOOKS_ALIKE = 2e-3
"""The total variation distance up to which two labels count as looking alike."""


@dataclass(frozen=True, eq=False)
class MomentValues:
    """For each code, a number that estimates y and one that estimates y², where y is the label less some origin."""

    label: Floats
    square: Floats


def moment_values(
    mechanism: FiniteMechanism,
    records: int,
    visible: float = VISIBLE,
    origin: float = 0.0,
    even_share: float = _EVEN_SHARE,
    *,
    clipped: bool = False,
) -> MomentValues:
    """Return numbers t and s for each code with E[t | y] = y and E[s | y] = y², y being the label less `origin`.

    An unbiased mechanism has such t, its outputs. Where there are none, the numbers are the best to average over this
    many `records`: their squared bias, as far as features that explain the share `visible` of the label can see it,
    plus their variance over `records` is least. The share `even_share` of the prior is replaced by an even one, because a
    private prior may miss labels that occur: a larger value means less bias at labels that the prior considers rare.

    With `clipped`, t estimates the label clipped to the range where labels can be distinguished. Beyond it no number has
    E[t | y] = y for all labels, but t can be nearly unbiased for the clipped label.
    """
    prior = known_prior(mechanism)
    labels = prior.values - origin
    wanted = labels
    masses = (1 - even_share) * prior.masses + even_share / labels.size
    channel = mechanism.matrix(prior.values)
    if clipped:
        first, last = told_apart(channel)
        wanted = np.clip(labels, labels[first], labels[last])
    unit = max(float(np.abs(labels).max()), 1e-300)
    if mechanism.kind == "unbiased":
        label, visible, ridge = mechanism.outputs - origin, 1.0, 0.0
    else:
        ridge = 1 / records
        label = _least_squares_values(channel, wanted / unit, masses, visible, ridge) * unit
    square = _least_squares_values(channel, (labels / unit) ** 2, masses, visible, ridge) * unit**2
    return MomentValues(label, square)


def known_prior(mechanism: FiniteMechanism) -> Prior:
    """Return the mechanism's prior. Raise `InvalidInput` if it is missing."""
    if mechanism.prior is None:
        raise InvalidInput(
            "noise can only be removed with the prior of the mechanism, and this one lacks a prior. Design it from a prior."
        )
    return mechanism.prior


def told_apart(channel: Floats) -> tuple[int, int]:
    """Return the last of the first labels that look alike, and the first of the last ones."""
    distance = [np.abs(channel - channel[end]).sum(axis=1) / 2 > _LOOKS_ALIKE for end in (0, -1)]
    first, last = int(np.argmax(distance[0])) - 1, channel.shape[0] - int(np.argmax(distance[1][::-1]))
    return (first, last) if distance[0].any() and first < last else (0, channel.shape[0] - 1)


def _least_squares_values(channel: Floats, target: Floats, masses: Floats, visible: float, ridge: float) -> Floats:
    """Return values v of least |F·(E[v | y] − target)|² + ridge·Var(v), with E[v] = E[target] under the prior.

    F is `visible_bias_factor`: it keeps the part of a bias that features can see.
    """
    share_root = np.sqrt(masses @ channel)
    center = float(masses @ target)
    # The unknowns are √share·(v − E[v]), share being the probability of each code: Var(v) is then their squared norm.
    both = np.column_stack([channel / share_root - share_root, target - center])
    seen = np.sqrt(masses)[:, None] * both if visible >= 1 else visible_bias_factor(masses, visible) @ both
    left, strength, right = svd(seen[:, :-1])
    kept = strength > 1e-7 * strength[0]
    weight = strength[kept] / (strength[kept] ** 2 + ridge)
    solved = right[kept].T @ (weight * (left[:, kept].T @ seen[:, -1]))
    solved -= share_root * (share_root @ solved)
    return np.asarray(center + solved / share_root)


@dataclass(frozen=True, eq=False)
class Target:
    """`constant` plus the mean over records of weight_square·w² + weight_linear·w + w·y + label_square·y².

    The weight w is a public number of the record, y is its hidden label less `origin`. For the mean, w is 1; for the
    error and the gain of predictions, w is linear in the prediction.

    Attributes
    ----------
    weights : array
        w of each record.
    origin : float
        The prior's lowest value, or a center, from which labels are measured. Seen from there, the squares of labels far from zero do not cancel.
    weight_bounds : pair of float
        w of predictions at the bounds of the labels: a record outside the sample may have any weight in between.
    weight_square, weight_linear, label_square, constant : float
        The coefficients.
    weight_of_prediction : float
        By how much w rises with the prediction.
    """

    weights: Floats
    origin: float
    weight_bounds: tuple[float, float]
    weight_square: float = 0.0
    weight_linear: float = 0.0
    label_square: float = 0.0
    constant: float = 0.0
    weight_of_prediction: float = 0.0

    @classmethod
    def mean(cls, mechanism: FiniteMechanism, records: int) -> Target:
        """Return the label itself: w = 1."""
        origin = float(known_prior(mechanism).values[0])
        return cls(np.ones(records), origin, (1.0, 1.0), constant=origin)

    @classmethod
    def error(cls, mechanism: FiniteMechanism, predictions: Floats) -> Target:
        """Return the squared error (f − label)² of predictions f: w = −2·(f − origin), and the target is w²/4 + w·y + y².

        The origin is the prior's mean: squares are smallest from there, and so is the noise of their estimate.
        """
        origin = known_prior(mechanism).mean
        high, low = -2 * (np.array(label_bounds(mechanism)) - origin)
        return cls(
            -2 * (predictions - origin),
            origin,
            (low, high),
            weight_square=0.25,
            label_square=1.0,
            weight_of_prediction=-2.0,
        )

    @classmethod
    def gain(cls, mechanism: FiniteMechanism, predictions: Floats, center: float | None = None) -> Target:
        """Return the target (c − label)² − (f − label)²: w = 2·(f − c), and the target is −w²/4 + (origin − c)·w + w·y.

        The center c is the mean prediction unless another one is given.
        """
        origin = float(known_prior(mechanism).values[0])
        center = float(predictions.mean()) if center is None else center
        low, high = 2 * (np.array(label_bounds(mechanism)) - center)
        return cls(
            2 * (predictions - center),
            origin,
            (low, high),
            weight_square=-0.25,
            weight_linear=origin - center,
            weight_of_prediction=2.0,
        )

    @classmethod
    def spread(cls, records: int, center: float) -> Target:
        """Return the target (label − c)²: the origin is the center, w is 0, and the target is y²."""
        return cls(np.zeros(records), center, (0.0, 0.0), label_square=1.0)

    def offset(self, weights: Floats | float) -> Floats:
        """Return the part that does not depend on the label: weight_square·w² + weight_linear·w."""
        return np.asarray(self.weight_square * np.square(weights) + self.weight_linear * weights)

    def values(self, moments: MomentValues, private: PrivateLabels) -> Floats:
        """Return the target of each record, with the estimates of its code in place of y and y²."""
        label, square = moments.label[private.codes], moments.square[private.codes]
        return self.offset(self.weights) + self.weights * label + self.label_square * square

    def value_range(self, labels: Floats, squares: Floats) -> tuple[float, float]:
        """Return the least and the greatest target of any one record whose y and y² are among these pairs.

        Its weight lies between the bounds, or between the weights in the sample where those reach further. Where all
        records have the same weight, it has that one too.
        """
        low, high = float(self.weights.min()), float(self.weights.max())
        if low != high:
            low, high = min(low, self.weight_bounds[0]), max(high, self.weight_bounds[1])
        bend = 2 * self.weight_square
        vertex = np.clip(-(self.weight_linear + labels) / bend, low, high) if bend else low  # of the parabola in w
        values = [self.offset(w) + w * labels + self.label_square * squares for w in (low, high, vertex)]
        return float(np.min(values)), float(np.max(values))

    def label_part_range(self, weights: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the least and the greatest w·y + label_square·y² for y from `low` to `high`: a row for each weight."""
        ends = [weights[:, None] * y + self.label_square * y**2 for y in (low, high)]
        least = np.minimum(*ends)
        if self.label_square > 0:  # the vertex of the parabola in y
            vertex = np.clip(-weights[:, None] / (2 * self.label_square), low, high)
            least = np.minimum(least, weights[:, None] * vertex + self.label_square * vertex**2)
        return least, np.maximum(*ends)


def label_bounds(mechanism: FiniteMechanism) -> tuple[float, float]:
    """Return the domain's bounds; without a domain, the prior's least and greatest values."""
    domain, values = mechanism.domain, known_prior(mechanism).values
    return (float(values[0]), float(values[-1])) if domain is None else (domain.lower, domain.upper)


MOST_PIECES = 500


@dataclass(frozen=True, eq=False)
class LabelPieces:
    """Labels from `low` to `high` all have the same output probabilities. Together the pieces cover the label bounds.

    If there are too many pieces, some are left out: their labels count as mixtures of the two kept pieces next to them,
    with the mean unchanged. `widest_gap` is the largest distance between two such neighbours, 0 if all are kept.

    Attributes
    ----------
    low, high : array
        The ends of each piece.
    probabilities : matrix
        P[code | label], a row for each piece.
    centers : array
        A label in each piece.
    widest_gap : float
    """

    low: Floats
    high: Floats
    probabilities: Floats
    centers: Floats
    widest_gap: float = 0.0

    @classmethod
    def of(cls, mechanism: FiniteMechanism, most: int = MOST_PIECES) -> LabelPieces:
        """Return the pieces of a mechanism: whole numbers, or cells of its grid, or intervals between its thresholds.

        If there are more than `most`, some are left out.
        """
        encoder, domain, values = mechanism.encoder, mechanism.domain, known_prior(mechanism).values
        lower, upper = label_bounds(mechanism)
        if domain is not None and domain.whole:
            low = high = centers = domain.grid
        elif isinstance(encoder, Grid):
            centers, half = encoder.domain.grid, encoder.domain.step / 2
            low, high = np.maximum(centers - half, lower), np.minimum(centers + half, upper)
        else:
            # A label on a threshold belongs below it, so the upper end of a piece has the piece's symbol.
            inside = (encoder.thresholds >= lower) & (encoder.thresholds < upper)
            high = np.append(np.unique(encoder.thresholds[inside]), upper)
            low = np.append(lower, high[:-1])
            one_value_in_each = np.array_equal(np.searchsorted(high, values), np.arange(high.size))
            centers = values if one_value_in_each else high
        probabilities = mechanism.matrix(centers)
        pieces = low, high, probabilities, centers
        return cls(*pieces) if centers.size <= most else cls._thinned(*pieces, most)

    def tails(self) -> list[Floats]:
        """For each end at which pieces look alike, how far each piece lies beyond the first of them: 0 for all others."""
        first, last = told_apart(self.probabilities)
        sides = (
            np.maximum(self.centers - self.centers[last], 0),
            np.minimum(self.centers - self.centers[first], 0),
        )
        return [np.asarray(side) for side in sides if side.any()]

    @classmethod
    def _thinned(cls, low: Floats, high: Floats, probabilities: Floats, centers: Floats, most: int) -> LabelPieces:
        """Only the pieces at which the probabilities bend as functions of the center, and about `most` spread evenly.

        Between two kept pieces the probabilities are linear in the center. A kept piece reaches as far to each side of
        its center as the widest piece that it represents.
        """
        slope = np.diff(probabilities, axis=0) / np.diff(centers)[:, None]
        bends = np.abs(np.diff(slope, axis=0)).max(axis=1) * np.ptp(centers) > 1e-9
        even = np.linspace(0, centers.size - 1, most).astype(np.intp)
        kept = np.union1d(np.flatnonzero(bends) + 1, even)
        widest = np.maximum.reduceat(np.maximum(high - centers, centers - low), kept)
        half = np.maximum(widest, np.append(widest[0], widest[:-1]))
        centers = centers[kept]
        return cls(centers - half, centers + half, probabilities[kept], centers, float(np.diff(centers).max()))


@dataclass(frozen=True, eq=False)
class CountedMean:
    """The mean of h(label) over the records, from noisy counts.

    Attributes
    ----------
    function : array
        h at each piece.
    low, high : float
        The mean over the records lies between them, up to noise. They are equal if exactly the records were counted.
    noise : float
        The standard deviation of the noise.
    kurtosis : float
        The excess kurtosis of the noise.
    sampling : float
        The standard error of the mean of h over labels drawn from the prior.
    """

    function: Floats
    low: float
    high: float
    noise: float
    kurtosis: float
    sampling: float


@dataclass(frozen=True, eq=False)
class CountedLabels:
    """The noisy counts as evidence about `records` labels that were all counted.

    `mixing` has a row for each cell and a column for each piece: the piece that the cell is, or the mixture of two
    pieces that it represents. `masses` is the prior on the pieces. If more labels were counted than there are records,
    the others may be anything, unless `random_part` is set: then the records and the counted labels are draws from one
    population, and there may be more records than counted labels.
    """

    counts: NoisyCounts
    mixing: Floats
    masses: Floats
    records: int
    random_part: bool = False

    @classmethod
    def of(
        cls, mechanism: FiniteMechanism, pieces: LabelPieces, records: int, *, random_part: bool = False
    ) -> CountedLabels | None:
        """Return the counts as evidence, or None if they do not exist or do not count these labels on the mechanism's own grid."""
        counts = usable_counts(mechanism, records, uncounted=random_part)
        if counts is None or mechanism.prior is None:
            return None
        unit = np.eye(pieces.centers.size)
        mixing = np.transpose([np.interp(mechanism.prior.values, pieces.centers, column) for column in unit])
        return cls(counts, mixing, mixing.T @ mechanism.prior.masses, records, random_part)

    @property
    def exact(self) -> bool:
        """Whether the counts determine means over the records, up to noise: other labels, which may be anything, were not counted."""
        return self._divisor == self.counts.records

    @property
    def _divisor(self) -> int:
        """The number of labels whose mean the counts determine."""
        return self.counts.records if self.random_part else self.records

    def mean(self, function: Floats) -> CountedMean:
        """Return the mean over the records of a function that is given at the pieces and linear in between."""
        cells, counts = self.mixing @ function, self.counts
        total = float(counts.values @ cells)
        divisor = self._divisor
        others = counts.records - divisor
        power = float(cells @ cells)
        variance = float(self.masses @ function**2 - (self.masses @ function) ** 2)
        return CountedMean(
            function,
            (total - others * float(cells.max())) / divisor,
            (total - others * float(cells.min())) / divisor,
            noise=float(np.sqrt(power * counts.noise_variance)) / divisor,
            kurtosis=counts.noise_kurtosis * float(np.sum(cells**4)) / max(power**2, 1e-300),
            sampling=float(np.sqrt(max(variance, 0.0) / min(self.records, counts.records))),
        )

    def fit(self, channel: Floats, wanted: Floats, even: float, doubt: float = 1.0) -> tuple[Floats, Floats]:
        """Return numbers v for the codes and h for the pieces, a column for each column of `wanted`.

        They minimise `doubt` times the squared bias of E[v | y] + h(y), under the prior plus an even one of weight
        `even`, plus the variance of the mean over the records. Under the prior they are unbiased. With less doubt, the
        answer is closer to the prior's own and has less noise.
        """
        codes, size = channel.shape[1], channel.shape[0]
        weights = doubt * (self.masses + even / size)
        share = self.masses @ channel
        both = np.hstack([channel, np.eye(size)])
        penalty = np.zeros((codes + size, codes + size))
        penalty[:codes, :codes] = (np.diag(share) - np.outer(share, share)) / self.records
        penalty[codes:, codes:] = self.mixing.T @ self.mixing * (self.counts.noise_variance / self._divisor**2)
        unit = np.maximum(np.abs(wanted).max(axis=0), 1e-300)
        center = self.masses @ wanted
        system = both.T @ (weights[:, None] * both) + penalty
        system += 1e-13 * np.trace(system) / len(system) * np.eye(len(system))
        solved = solve(system, both.T @ (weights[:, None] * (wanted - center) / unit)) * unit
        solved[:codes] += self.masses @ (wanted - both @ solved)
        return solved[:codes], solved[codes:]


def usable_counts(mechanism: FiniteMechanism, records: int, *, uncounted: bool = False) -> NoisyCounts | None:
    """Return the counts of the prior, if they have the cells of the mechanism and, without `uncounted`, cover all records."""
    prior, encoder = mechanism.prior, mechanism.encoder
    if prior is None or prior.counts is None or not isinstance(encoder, Grid):
        return None
    if prior.counts.records < records and not uncounted:
        return None
    return prior.counts if np.array_equal(encoder.domain.grid, prior.values) else None


def shapes(centers: Floats) -> Floats:
    """Return functions of the label whose means bound its distribution, a column each: y, y², and ramps.

    A ramp is the distance beyond a threshold or its square, for seven thresholds and both directions.
    """
    scaled = (centers - centers[0]) / np.ptp(centers)
    columns = [scaled, scaled**2]
    for threshold in np.linspace(0, 1, 9)[1:-1]:
        for distance in (scaled - threshold, threshold - scaled):
            columns += [np.maximum(distance, 0), np.maximum(distance, 0) ** 2]
    return np.column_stack(columns)


_MOST_SCORES = 12
_QUANTILES = np.sort(np.r_[np.linspace(0, 1, 9), 0.01, 0.05, 0.95, 0.99])

Statistics = tuple[Floats, Floats, Floats]
"""Mean, variance and span (greatest less least possible value) of several numbers over the records."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Statistics of the records, and the expectation of each given the record's weight node and label piece.

    `expected` has a row for each statistic and a column for each pair (node, piece), all pieces of the first node first.
    """

    expected: Floats
    mean: Floats
    variance: Floats
    span: Floats


def gather_evidence(private: PrivateLabels, weights: Floats, nodes: WeightNodes, pieces: LabelPieces) -> Evidence:
    """Three kinds of statistics: scores of the codes, scores times the weight, and shares of records at each node.

    With equal weights the last two are uninformative, and only the first are used.
    """
    scores = separating_scores(private.mechanism, pieces, len(private))
    of_pieces, size = (pieces.probabilities @ scores).T, nodes.values.size
    statistics = [(np.tile(of_pieces, (1, size)), *_score_statistics(private, np.ones(len(private)), scores))]
    if size > 1:
        product = np.hstack([of_pieces * weight for weight in nodes.scaled(nodes.values)])
        statistics.append((product, *_score_statistics(private, nodes.scaled(weights), scores)))
        statistics.append((np.repeat(np.eye(size), of_pieces.shape[1], axis=1), *nodes.share_statistics()))
    return Evidence(*(np.concatenate(part) for part in zip(*statistics, strict=True)))


@dataclass(frozen=True, eq=False)
class WeightNodes:
    """A few weights that represent all: a weight between two nodes is split between them so that its mean is kept.

    `left` is the number of the node at or below each record's weight, `share` the part of the record that goes to the
    node above it.
    """

    values: Floats
    left: NDArray[np.intp]
    share: Floats

    @classmethod
    def of(cls, weights: Floats) -> WeightNodes:
        """Return nodes at the quantiles 0, 1/8, …, 1 of the weights, and at 1 % and 5 % from either end."""
        values = np.unique(np.quantile(weights, _QUANTILES))
        position = np.interp(weights, values, np.arange(values.size))
        left = np.minimum(position.astype(np.intp), max(values.size - 2, 0))
        return cls(values, left, position - left)

    def scaled(self, weights: Floats) -> Floats:
        """Return weights as numbers from −1 (the first node) to 1 (the last)."""
        span = self.values[-1] - self.values[0]
        return np.asarray(2 * (weights - self.values[0]) / (span or 1.0) - 1)

    def share_statistics(self) -> Statistics:
        """Return statistics of the share of a record that goes to each node."""
        size, right = self.values.size, self.left + 1
        mean, second = (
            (np.bincount(self.left, (1 - self.share) ** p, size) + np.bincount(right, self.share**p, size)) / right.size
            for p in (1, 2)
        )
        return mean, np.maximum(second - mean**2, 0), np.ones(size)


def _score_statistics(private: PrivateLabels, factors: Floats, scores: Floats) -> Statistics:
    """Return statistics of factor·score[code] for each column of scores; the factors lie from −1 to 1."""
    size, records = scores.shape[0], len(private)
    mean = np.bincount(private.codes, factors, size) @ scores / records
    second = np.bincount(private.codes, factors**2, size) @ scores**2 / records
    return mean, np.maximum(second - mean**2, 0), 2 * np.abs(scores).max(axis=0, initial=0)


def separating_scores(mechanism: FiniteMechanism, pieces: LabelPieces, records: int) -> Floats:
    """Score columns for the codes, ordered by how well they separate labels, at most 12.

    They are the singular vectors of the channel, weighted half by the prior and half evenly. A column is dropped if the
    mean scores of no two labels differ by 2/√records: this many records cannot resolve it.
    """
    prior, channel = known_prior(mechanism), pieces.probabilities
    borders = np.maximum.accumulate((pieces.high[:-1] + pieces.low[1:]) / 2)
    masses = np.full(pieces.low.size, 0.5 / pieces.low.size)
    masses += np.bincount(np.searchsorted(borders, prior.values), prior.masses / 2, pieces.low.size)
    share = masses @ channel
    root = np.sqrt(np.where(share > 0, share, 1.0))
    _, strength, right = svd(np.sqrt(masses)[:, None] * (channel / root - root))
    scores = right.T / root[:, None]
    resolved = (np.ptp(channel @ scores, axis=0) > 2 / np.sqrt(records)) & (strength > 1e-9 * strength[0])
    return np.asarray(scores[:, resolved][:, :_MOST_SCORES])
