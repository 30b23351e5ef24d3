"""Statistics of the records that bound which joint distributions of weight and label are possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.evaluation.intervals.pieces import LabelPieces
from labeldp.evaluation.moments import known_prior
from labeldp.linear_algebra import svd
from labeldp.mechanisms import FiniteMechanism, PrivateLabels

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

    With equal weights the last two would say nothing, and only the first are used.
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
    """A few weights that stand for all: a weight between two nodes is split between them so that its mean is kept.

    `left` is the number of the node at or below each record's weight, `share` the part of the record that goes to the
    node above it.
    """

    values: Floats
    left: NDArray[np.intp]
    share: Floats

    @classmethod
    def of(cls, weights: Floats) -> WeightNodes:
        """Nodes at the quantiles 0, 1/8, …, 1 of the weights, and at 1 % and 5 % from either end."""
        values = np.unique(np.quantile(weights, _QUANTILES))
        position = np.interp(weights, values, np.arange(values.size))
        left = np.minimum(position.astype(np.intp), max(values.size - 2, 0))
        return cls(values, left, position - left)

    def scaled(self, weights: Floats) -> Floats:
        """Weights as numbers from −1 (the first node) to 1 (the last)."""
        span = self.values[-1] - self.values[0]
        return np.asarray(2 * (weights - self.values[0]) / (span or 1.0) - 1)

    def share_statistics(self) -> Statistics:
        """Statistics of the share of a record that goes to each node."""
        size, right = self.values.size, self.left + 1
        mean, second = (
            (np.bincount(self.left, (1 - self.share) ** p, size) + np.bincount(right, self.share**p, size)) / right.size
            for p in (1, 2)
        )
        return mean, np.maximum(second - mean**2, 0), np.ones(size)


def _score_statistics(private: PrivateLabels, factors: Floats, scores: Floats) -> Statistics:
    """Statistics of factor·score[code] for each column of scores; the factors lie from −1 to 1."""
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
