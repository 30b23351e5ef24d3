"""Constraints on labels from codes and noisy counts, for the linear programs of intervals.

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
from labeldp.evaluate.moments import known_prior, label_bounds, told_apart
from labeldp.linear_algebra import solve, svd
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.mechanisms.mechanism import Grid
from labeldp.priors import NoisyCounts

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
