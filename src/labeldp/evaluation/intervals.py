"""Intervals from private labels that assume no distribution of the true ones.

Labels with nearly the same output probabilities cannot be told apart, however many records there are. So an interval for
the mean of a target (a mean label, a squared error) has to run over every joint distribution of public numbers and hidden
labels that the codes do not contradict: a linear program.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.mechanisms.encoders import Grid

if TYPE_CHECKING:
    from labeldp.evaluation.moments import MomentValues
    from labeldp.mechanisms.finite import FiniteMechanism

_MAIN_SHARE = 0.95
"""The share of the interval's risk for the estimate itself; the rest is for what bounds the labels the codes allow."""
_MOST_DIRECTIONS = 12
_BLOCKS = 8
_MOST_KNOTS = 500


@dataclass(frozen=True, eq=False)
class Target:
    """The mean of bend·w² + tilt·w + w·y + square·y² over records; y is the hidden label less `zero`, the weight w public.

    `reach` are the weights at the bounds: a record not seen may have any of those in between.
    """

    weight: Floats
    bend: float
    tilt: float
    square: float
    zero: float
    reach: tuple[float, float]

    @classmethod
    def mean(cls, mechanism: FiniteMechanism, records: int) -> Target:
        """The label itself."""
        return cls(np.ones(records), 0.0, 0.0, 0.0, lowest_label(mechanism), (1.0, 1.0))

    @classmethod
    def error(cls, mechanism: FiniteMechanism, predictions: Floats) -> Target:
        """The squared error of predictions."""
        zero = lowest_label(mechanism)
        ends = -2 * (np.array(_bounds(mechanism)) - zero)
        return cls(-2 * (predictions - zero), 0.25, 0.0, 1.0, zero, (ends[1], ends[0]))

    @classmethod
    def gain(cls, mechanism: FiniteMechanism, predictions: Floats) -> Target:
        """How much lower the squared error of predictions is than that of their mean."""
        zero, center = lowest_label(mechanism), float(predictions.mean())
        ends = 2 * (np.array(_bounds(mechanism)) - center)
        return cls(2 * (predictions - center), -0.25, zero - center, 0.0, zero, (ends[0], ends[1]))

    def offset(self, weights: Floats | float) -> Floats:
        """The part that does not depend on the label."""
        return np.asarray(self.bend * np.square(weights) + self.tilt * weights)

    def values(self, moments: MomentValues, codes: NDArray[np.uint32]) -> Floats:
        """The target of each record with estimates in place of y and y²."""
        label, square = moments.label[codes], moments.square[codes]
        return self.offset(self.weight) + self.weight * label + self.square * square

    def extremes(self, label: Floats, square: Floats) -> tuple[float, float]:
        """The least and the greatest value of a record with one of these estimates of y and y².

        Its weight is within `reach` or between weights seen; where all are the same, it is that one.
        """
        seen = float(self.weight.min()), float(self.weight.max())
        ends = seen if seen[0] == seen[1] else (min(seen[0], self.reach[0]), max(seen[1], self.reach[1]))
        bottom = np.clip(-(self.tilt + label) / (2 * self.bend), *ends) if self.bend else np.full(label.size, ends[0])
        values = [self.offset(w) + w * label + self.square * square for w in (ends[0], ends[1], bottom)]
        return float(np.min(values)), float(np.max(values))

    def over(self, weights: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Least and greatest weight·y + square·y² for y from `low` to `high`: a row for each weight."""
        ends = [weights[:, None] * y + self.square * y**2 for y in (low, high)]
        least = np.minimum(*ends)
        if self.square > 0:
            bottom = np.clip(-weights[:, None] / (2 * self.square), low, high)
            least = np.minimum(least, weights[:, None] * bottom + self.square * bottom**2)
        return least, np.maximum(*ends)


def lowest_label(mechanism: FiniteMechanism) -> float:
    """The lowest label: from there on, the squares of labels far from zero do not cancel."""
    return 0.0 if mechanism.prior is None else float(mechanism.prior.values[0])


def _bounds(mechanism: FiniteMechanism) -> tuple[float, float]:
    """The domain's bounds; without a domain, the prior's least and greatest values."""
    domain, prior = mechanism.domain, mechanism.prior
    if domain is not None:
        return domain.lower, domain.upper
    if prior is None:
        raise InvalidInput("a noise-corrected error needs the mechanism's prior, and this mechanism carries none")
    return float(prior.values[0]), float(prior.values[-1])


@dataclass(frozen=True)
class Sampling:
    """An estimate, its standard error, and how far below and above it the number that it estimates may lie.

    Approximate, for many records: as many standard errors as a normal distribution asks for. The sample's deviation
    says nothing of what is too rare to be in it, so what that may add comes on top: something of chance log(2/risk)/n is
    missed by n records with probability risk/2, and moves the mean by its distance times that chance. It is a label, with
    the values expected of it, or a code that some label gives no more often.
    """

    mean: float
    error: float
    below: float
    above: float

    @classmethod
    def of(
        cls, target: Target, moments: MomentValues, codes: NDArray[np.uint32], rows: Floats, risk: float
    ) -> Sampling:
        values = target.values(moments, codes)
        mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
        normal, chance = NormalDist().inv_cdf(1 - risk / 2) * error, np.log(2 / risk) / values.size
        rare = rows.min(axis=0) < chance
        label, square = (np.r_[rows @ each, each[rare]] for each in (moments.label, moments.square))
        least, most = target.extremes(label, square)
        return cls(mean, error, normal + chance * max(0.0, mean - least), normal + chance * max(0.0, most - mean))


def consistent_range(
    mechanism: FiniteMechanism,
    codes: NDArray[np.uint32],
    target: Target,
    moments: MomentValues,
    risk: float,
) -> tuple[float, float, Sampling]:
    """The least and the greatest target over all distributions of (weight, label) that the codes do not contradict.

    A distribution is contradicted where the mean of a statistic under it is further from the mean over the records than
    sampling explains. The estimate itself (`Sampling`, the third answer) takes most of the risk, the other statistics
    (`_evidence`) and the offset share the rest. All are linear in the weight between two nodes, and so is the target, so
    it is enough to look at distributions on the nodes.
    """
    pieces = _Pieces.of(mechanism)
    place, many, offset = _Nodes.of(target.weight), codes.size, target.offset(target.weight)
    evidence = _evidence(codes, place, target.weight, pieces.rows, _directions(mechanism, pieces, many))
    lesser = risk * (1 - _MAIN_SHARE) / (evidence.mean.size + 1)
    sampling = Sampling.of(target, moments, codes, pieces.rows, risk * _MAIN_SHARE)
    radius = _bernstein(evidence.variance, evidence.span, many, lesser)
    expected = place.nodes[:, None] * (pieces.rows @ moments.label) + target.square * (pieces.rows @ moments.square)
    center = float(offset.mean())
    offsets = np.array(target.extremes(*np.zeros((2, 1))))
    program = _Program(
        rows=np.vstack([evidence.rows, expected.ravel()]),
        low=np.r_[evidence.mean - radius, sampling.mean - center - sampling.below],
        high=np.r_[evidence.mean + radius, sampling.mean - center + sampling.above],
        slack=np.abs(offsets - center).clip(0, _bernstein(offset.var(ddof=1), np.ptp(offsets), many, lesser)),
    )
    low, high = target.over(place.nodes, pieces.low - target.zero, pieces.high - target.zero)
    low = low - target.square * pieces.gap**2 / 4  # between two pieces the square runs below its chord by so much
    found = center + program.least(low.ravel()), center - program.least(-high.ravel(), -1.0)
    ends = np.array(_bounds(mechanism)) - target.zero
    least, most = target.extremes(ends, ends**2)
    lower, upper = np.clip(found, 0.0 if target.square else least, most).tolist()
    return lower, upper, sampling


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Statistics of the records: what each is expected to be at (node, label), and what it is."""

    rows: Floats
    mean: Floats
    variance: Floats
    span: Floats


def _evidence(
    codes: NDArray[np.uint32], place: _Nodes, weights: Floats, channel: Floats, directions: Floats
) -> _Evidence:
    """The directions in which codes tell labels apart, alone and times the weight, and where the weights lie."""
    told, nodes = (channel @ directions).T, place.nodes
    alone = np.tile(told, (1, nodes.size))
    found = _code_statistics(codes, np.ones(codes.size), directions)
    if nodes.size == 1:
        return _Evidence(alone, *found)
    times = (told[:, None, :] * place.scaled(nodes)[:, None]).reshape(told.shape[0], told.shape[1] * nodes.size)
    where = np.repeat(np.eye(nodes.size), channel.shape[0], axis=1)
    others = _code_statistics(codes, place.scaled(weights), directions), place.statistics()
    return _Evidence(
        np.vstack([alone, times, where]), *(np.concatenate(part) for part in zip(found, *others, strict=True))
    )


@dataclass(frozen=True, eq=False)
class _Program:
    """Distributions q ≥ 0 with sum one and low ≤ rows·q ≤ high; the last row also has a free number g.

    −slack[0] ≤ g ≤ slack[1] is the offset's own sampling error, which moves the target and the estimate alike.
    """

    rows: Floats
    low: Floats
    high: Floats
    slack: Floats

    def least(self, cost: Floats, sign: float = 1.0) -> float:
        """The least cost·q + sign·g. Statistics that contradict each other are given more room until they do not.

        Without an answer from the solver, what no distribution at all goes below.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        size = cost.size
        unit = max(float(np.abs(cost).max()), float(self.slack.max()), 1e-300)
        # In units of each statistic's largest value; g in units of the cost.
        scale = np.maximum(np.abs(self.rows).max(axis=1), 1e-300)
        shift = np.zeros((self.rows.shape[0], 1))
        shift[-1] = unit / scale[-1]
        table = np.vstack([np.hstack([self.rows / scale[:, None], shift]), np.r_[np.ones(size), 0.0]])
        bounds = Bounds(np.r_[np.zeros(size), -self.slack[0] / unit], np.r_[np.ones(size), self.slack[1] / unit])
        for room in 1.5 ** np.arange(40) - 1:
            more = room * (self.high - self.low) / 2
            low = np.r_[(self.low - more) / scale - 1e-9, 1.0]
            high = np.r_[(self.high + more) / scale + 1e-9, 1.0]
            answer = milp(np.r_[cost / unit, sign], constraints=LinearConstraint(table, low, high), bounds=bounds)
            if answer.status == 0:
                return float(answer.fun) * unit
        return float(cost.min() - self.slack.max())


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Numbers between which every weight is split, in proportion, so that its mean is kept."""

    nodes: Floats
    below: NDArray[np.intp]
    part: Floats

    @classmethod
    def of(cls, weights: Floats) -> _Nodes:
        nodes = np.unique(np.quantile(weights, np.linspace(0, 1, _BLOCKS + 1)))
        position = np.interp(weights, nodes, np.arange(nodes.size))
        below = np.minimum(position.astype(np.intp), max(nodes.size - 2, 0))
        return cls(nodes, below, position - below)

    def scaled(self, weights: Floats) -> Floats:
        """Weights as numbers from −1 to 1."""
        span = self.nodes[-1] - self.nodes[0]
        return np.asarray(2 * (weights - self.nodes[0]) / (span or 1.0) - 1)

    def statistics(self) -> tuple[Floats, Floats, Floats]:
        """Mean, variance and span of the share of a record at each node."""
        size = self.nodes.size
        moments = []
        for power in (1, 2):
            lower = np.bincount(self.below, (1 - self.part) ** power, size)
            upper = np.bincount(np.minimum(self.below + 1, size - 1), self.part**power, size)
            moments.append((lower + upper) / self.below.size)
        return moments[0], np.maximum(moments[1] - moments[0] ** 2, 0), np.ones(size)


def _code_statistics(codes: NDArray[np.uint32], factor: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, variance and span of factor·values[codes], for each column of `values`; the factor is at most one."""
    size, many = values.shape[0], codes.size
    mean = np.bincount(codes, factor, size) @ values / many
    second = np.bincount(codes, factor**2, size) @ values**2 / many
    return mean, np.maximum(second - mean**2, 0), 2 * np.abs(values).max(axis=0, initial=0)


def _bernstein(variance: Any, span: Any, records: int, risk: float) -> Floats:
    """How far a mean of bounded numbers may be from its expectation, by their own variance (Maurer and Pontil 2009)."""
    room = np.log(4 / risk)
    return np.asarray(np.sqrt(2 * variance * room / records) + 7 * span * room / (3 * (records - 1)))


def _directions(mechanism: FiniteMechanism, pieces: _Pieces, records: int) -> Floats:
    """Numbers for the codes, a column each, in whose means labels differ most: those that so many records can show."""
    prior, channel = mechanism.prior, pieces.rows
    masses = np.full(pieces.low.size, 0.5 / pieces.low.size)
    if prior is not None:
        borders = np.maximum.accumulate((pieces.high[:-1] + pieces.low[1:]) / 2)
        masses += np.bincount(np.searchsorted(borders, prior.values), prior.masses / 2, pieces.low.size)
    share = masses @ channel
    root = np.sqrt(np.where(share > 0, share, 1.0))
    _, strength, right = np.linalg.svd(np.sqrt(masses)[:, None] * (channel / root - root), full_matrices=False)
    directions = right.T / root[:, None]
    seen = (np.ptp(channel @ directions, axis=0) > 2 / np.sqrt(records)) & (strength > 1e-9 * strength[0])
    return np.asarray(directions[:, seen][:, :_MOST_DIRECTIONS])


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Labels from `low` to `high` whose output probabilities are `rows`; those between two pieces are mixtures of them.

    `gap` is the widest distance over which there are such mixtures.
    """

    low: Floats
    high: Floats
    rows: Floats
    gap: float

    @classmethod
    def of(cls, mechanism: FiniteMechanism) -> _Pieces:
        """What the encoder makes of the labels within the bounds: a symbol, and so a row, from one border to the next.

        Whole labels are the grid's points.
        """
        encoder, domain, prior = mechanism.encoder, mechanism.domain, mechanism.prior
        lower, upper = _bounds(mechanism)
        values = np.empty(0) if prior is None else prior.values
        if domain is not None and domain.whole:
            low = high = centers = domain.grid
        elif isinstance(encoder, Grid):
            centers, half = encoder.domain.grid, encoder.domain.step / 2
            low, high = np.maximum(centers - half, lower), np.minimum(centers + half, upper)
        else:
            # A label on a threshold belongs below it: the upper end of a piece has the piece's symbol.
            inside = (encoder.thresholds >= lower) & (encoder.thresholds < upper)
            high = np.append(np.unique(encoder.thresholds[inside]), upper)
            low = np.append(lower, high[:-1])
            each = np.array_equal(np.searchsorted(high, values), np.arange(high.size))
            centers = values if each else high
        rows = mechanism.matrix(centers)
        return cls(low, high, rows, 0.0) if centers.size <= _MOST_KNOTS else cls._few(low, high, centers, rows)

    @classmethod
    def _few(cls, low: Floats, high: Floats, centers: Floats, rows: Floats) -> _Pieces:
        """Only the pieces at which rows bend, and some more: in between, rows are linear in the center.

        A piece kept reaches as far around its center as the widest of those that it stands for.
        """
        slope = np.diff(rows, axis=0) / np.diff(centers)[:, None]
        bend = np.abs(np.diff(slope, axis=0)).max(axis=1) * np.ptp(centers) > 1e-9
        even = np.linspace(0, centers.size - 1, _MOST_KNOTS).astype(np.intp)
        kept = np.union1d(np.flatnonzero(bend) + 1, even)
        widest = np.maximum.reduceat(np.maximum(high - centers, centers - low), kept)
        half = np.maximum(widest, np.append(widest[0], widest[:-1]))
        gap = float(np.diff(centers[kept]).max())
        return cls(centers[kept] - half, centers[kept] + half, rows[kept], gap)
