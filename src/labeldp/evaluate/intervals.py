"""Intervals from private labels without assumptions on the distribution of the true ones. See `docs/concepts/intervals.md`.

Labels with nearly the same output probabilities cannot be distinguished, even with many records. So an interval for a
mean (of the labels, of squared errors) has to allow for every joint distribution of predictions and hidden labels that
the codes and the noisy counts of the prior do not contradict. Its two ends are the answers of two linear programs.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.evaluate.constraints import (
    MOST_PIECES,
    CountedLabels,
    CountedMean,
    LabelPieces,
    MomentValues,
    Target,
    WeightNodes,
    gather_evidence,
    label_bounds,
    moment_values,
    shapes,
    usable_counts,
)
from labeldp.mechanisms import PrivateLabels

TAILS = "tails"
PART = "part"
BATCHES = "batches"

ASSUMPTIONS = {
    TAILS: "labels too large or too small to be distinguished have predictions that are on average on the same side of the mean",
    PART: "the labels evaluated are a random part of all labels that were privatized together",
    BATCHES: "the labels of later batches have the same distribution as the labels of the first",
}
"""Each assumption by name, in words."""


def checked(assume: Collection[str]) -> frozenset[str]:
    """Return the assumptions by name. Raise `InvalidInput` for unknown names."""
    names = frozenset([assume] if isinstance(assume, str) else assume)
    if unknown := names - set(ASSUMPTIONS):
        raise InvalidInput(f"assume takes {' and '.join(map(repr, ASSUMPTIONS))}, got {sorted(map(str, unknown))}")
    return names


@dataclass(frozen=True)
class SampleMean:
    """The mean of the target's estimates over the records, and how far below and above it their expectation may lie.

    Approximate, for many records. Each distance is normal + c·d. The first part is the standard error times a quantile
    of the normal distribution. The second allows for rare events: n records miss an event of probability c =
    log(2/risk)/n with probability at most risk/2 (the rule of three), and such an event moves the mean by c times its
    distance d from it. Two kinds of event are that rare. One is a label, which counts with the expected estimates of
    its codes. The other is a code to which some label gives a probability below c; it counts with its own estimates.
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
        """Return the mean over these records; `channel` has a row of output probabilities for each kind of label.

        `known` is a part of the target that the noisy counts estimate; `moments` estimate the rest.
        """
        values = target.values(moments, private)
        mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
        chance = np.log(2 / risk) / values.size
        rare = channel.min(axis=0) < chance
        label, square = (np.r_[channel @ each, each[rare]] for each in (moments.label, moments.square))
        if known is not None:
            part, factor = (square, target.label_square) if target.label_square else (label, target.weights[0])
            part[: len(channel)] += known.function / factor
        least, most = target.value_range(label, square)
        if known is None:
            normal, slack = NormalDist().inv_cdf(1 - risk / 2) * error, 0.0
        else:
            normal, slack = known_mean(error, known, risk), (known.high - known.low) / 2
            mean, error = mean + (known.low + known.high) / 2, float(np.hypot(error + known.sampling, known.noise))
        below, above = (normal + slack + chance * max(0.0, side) for side in (mean - least, most - mean))
        return cls(mean, error, below, above, moments, known)


def known_mean(error: float, known: CountedMean, risk: float) -> float:
    """Return how far a mean of codes with this standard error plus a mean from noisy counts may be from its expectation.

    The records' own error is the sum of both standard errors, because the codes and the labels of the same records are
    dependent. The noise of the counts is independent of it. Its tails are heavier than the normal distribution's, which
    the expansion of Cornish and Fisher (1938) takes into account: with excess kurtosis k, the quantile z becomes z +
    (z³ − 3z)·k/24, and no less than z.
    """
    sampling = error + known.sampling
    variance = sampling**2 + known.noise**2
    if variance**2 == 0:  # all codes are equal and the counts are uninformative: the estimate is deterministic
        return 0.0
    z, kurtosis = NormalDist().inv_cdf(1 - risk / 2), known.kurtosis * known.noise**4 / variance**2
    return float(np.sqrt(variance) * max(z, z + (z**3 - 3 * z) * kurtosis / 24))


def bernstein_radius(variance: Any, span: Any, records: int, risk: float) -> Floats:
    """Return how far the mean of numbers with this sample variance and range may be from its expectation.

    √(2·variance·L/n) + 7·span·L/(3·(n − 1)) with L = log(4/risk): the empirical Bernstein bound of Maurer and Pontil
    (2009), for both sides. It holds for every n.
    """
    log_term = np.log(4 / risk)
    return np.asarray(np.sqrt(2 * variance * log_term / records) + 7 * span * log_term / (3 * (records - 1)))


@dataclass(frozen=True, eq=False)
class DistributionProgram:
    """Distributions q over pairs (node, piece) with low ≤ expected·q + moved·g ≤ high, g a number.

    g is the sampling error of the mean offset, from −offset_error[0] to offset_error[1]. It moves the target and its
    estimates by the same amount: `moved` is 1 for their rows and 0 for all others.
    """

    expected: Floats
    low: Floats
    high: Floats
    offset_error: Floats
    moved: Floats

    def minimum(self, cost: Floats, offset_cost: float) -> float:
        """Return the least cost·q + offset_cost·g.

        If the statistics contradict each other, all their ranges are widened by the same factor until they do not. If
        the solver still fails, the least value over all distributions is returned.
        """
        found = self._solve(cost, offset_cost, None)
        return float(cost.min() - self.offset_error.max()) if found is None else found

    def least_ratio(self, cost: Floats, offset_cost: float, least: Floats, most: Floats) -> float:
        """Return the least (cost·q + offset_cost·g) / (d·q), where d lies from `least` to `most`.

        A positive ratio is least for the greatest d, a negative one for the least. It is −inf if a negative one has a
        d·q that may be zero or below, or if the solver fails. `most`·q must be positive for all q.
        """
        found = self._solve(cost, offset_cost, most)
        if found is not None and found < 0:
            if self.minimum(least, 0.0) <= 1e-9 * float(np.abs(most).max()):
                return -math.inf
            found = self._solve(cost, offset_cost, least)
        return -math.inf if found is None else found

    def _solve(self, cost: Floats, offset_cost: float, denominator: Floats | None) -> float | None:
        """Return the least cost, or with a denominator the least ratio, by the change of variables of Charnes and Cooper (1962).

        For a ratio the unknowns are q, g and 1, all divided by the denominator, and every range is a multiple of the last.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        size = cost.size
        # The solver sees each statistic in units of its largest value, and g and the costs in units of the largest cost.
        unit = max(float(np.abs(cost).max()), float(self.offset_error.max()), 1e-300)
        scale = np.maximum(np.abs(self.expected).max(axis=1), 1e-300)
        table = np.column_stack([self.expected / scale[:, None], self.moved * unit / scale])
        below, above = self.offset_error / unit
        costs = np.r_[cost / unit, offset_cost]
        solve = partial(milp, options={"presolve": False})  # the rows are dense: presolving takes longer than solving
        for widening in 1.5 ** np.arange(40) - 1:
            more = widening * (self.high - self.low) / 2
            low, high = (self.low - more) / scale - 1e-9, (self.high + more) / scale + 1e-9
            if denominator is None:
                rows = LinearConstraint(
                    np.vstack([table, np.r_[np.ones(size), 0.0]]), np.r_[low, 1.0], np.r_[high, 1.0]
                )
                bounds = Bounds(np.r_[np.zeros(size), -below], np.r_[np.ones(size), above])
                answer = solve(costs, constraints=rows, bounds=bounds)
                factor = unit
            else:
                whole = float(np.abs(denominator).max())
                offset = np.r_[np.zeros(size), 1.0]
                ratio_rows = np.vstack(
                    [
                        np.column_stack([table, -low]),
                        np.column_stack([table, -high]),
                        np.r_[offset, below],
                        np.r_[offset, -above],
                        np.r_[np.ones(size), 0.0, -1.0],
                        np.r_[denominator / whole, 0.0, 0.0],
                    ]
                )
                least = np.r_[np.zeros(low.size), np.full(low.size, -np.inf), 0.0, -np.inf, 0.0, 1.0]
                most = np.r_[np.full(low.size, np.inf), np.zeros(low.size), np.inf, 0.0, 0.0, 1.0]
                bounds = Bounds(np.r_[np.zeros(size), -np.inf, 0.0], np.full(size + 2, np.inf))
                answer = solve(np.r_[costs, 0.0], constraints=LinearConstraint(ratio_rows, least, most), bounds=bounds)
                factor = unit / whole
            if answer.status == 0:
                return float(answer.fun) * factor
        return None


@dataclass(frozen=True)
class EstimateSettings:
    """How an estimate is made: `even_share` and `clipped` are for y (`moment_values`), the others for y² (`CountedLabels.fit`)."""

    even_share: float
    even_weight: float
    doubt: float = 1.0
    clipped: bool = False


_SHARES = (0.95, 0.0)
"""The shares of the risk that the estimates and the counts get, without counts; the statistics of the codes get the rest."""
_SHARES_WITH_COUNTS = (0.7, 0.2)
_TRUSTING = EstimateSettings(even_share=0.01, even_weight=1e-3, doubt=0.03)
_DOUBTING = EstimateSettings(even_share=0.5, even_weight=1.0)
_CLIPPED = EstimateSettings(even_share=0.5, even_weight=1.0, clipped=True)
_EVEN_WEIGHTS = (0.01, 1.0)
_PIECES_WITH_COUNTS = 100


@dataclass(frozen=True, eq=False)
class Frame:
    """Distributions of (weight node, label piece), and the ranges that statistics of codes and counts allow.

    Attributes
    ----------
    private : PrivateLabels
        The codes, in the order of the target's weights.
    target : Target
        The quantity that gives each record its weight.
    pieces : LabelPieces
        Where labels may lie.
    nodes : WeightNodes
        Where weights may lie.
    counted : CountedLabels or None
        The evidence from the noisy counts.
    expected, low, high : arrays
        A row for each statistic: its expectation at each (node, piece), and the range of its mean.
    offset_error : array
        How far the mean offset of the population may lie below and above that of the records.
    risk : float
        The remaining risk for estimates.
    """

    private: PrivateLabels
    target: Target
    pieces: LabelPieces
    nodes: WeightNodes
    counted: CountedLabels | None
    expected: Floats
    low: Floats
    high: Floats
    offset_error: Floats
    risk: float

    @classmethod
    def of(cls, private: PrivateLabels, target: Target, risk: float, assume: Collection[str] = ()) -> Frame:
        """Return the frame for all targets with these weights; `assume` names some of `ASSUMPTIONS`."""
        assumed = checked(assume)
        mechanism, records = private.mechanism, len(private)
        all_counted = usable_counts(mechanism, records) is not None
        random_part = PART in assumed if all_counted else BATCHES in assumed
        has_counts = all_counted or usable_counts(mechanism, records, uncounted=random_part) is not None
        for_estimates, for_counts = _SHARES_WITH_COUNTS if has_counts else _SHARES
        pieces = LabelPieces.of(mechanism, _PIECES_WITH_COUNTS if has_counts else MOST_PIECES)
        nodes = WeightNodes.of(target.weights)
        counted = CountedLabels.of(mechanism, pieces, records, random_part=random_part)
        evidence = gather_evidence(private, target.weights, nodes, pieces)
        risk_of_each = risk * (1 - for_estimates - for_counts) / (evidence.mean.size + 1)
        radius = bernstein_radius(evidence.variance, evidence.span, records, risk_of_each)
        rows = [(evidence.expected, evidence.mean - radius, evidence.mean + radius)]
        if counted is not None:
            expected, low, high = _counted_rows(private, pieces, counted, risk * for_counts)
            rows.append((np.tile(expected, (1, nodes.values.size)), low, high))
        if TAILS in assumed and nodes.values.size > 1:
            rows.append(_aligned_rows(target, nodes, pieces))
        # The program leaves the offset out: its mean over the records is known, its mean in the population nearly so.
        offset = target.offset(target.weights)
        span = np.array(target.value_range(np.zeros(1), np.zeros(1)))
        offset_radius = bernstein_radius(offset.var(ddof=1), np.ptp(span), records, risk_of_each)
        expected, low, high = (np.concatenate(part) for part in zip(*rows, strict=True))
        return cls(
            private=private,
            target=target,
            pieces=pieces,
            nodes=nodes,
            counted=counted,
            expected=expected,
            low=low,
            high=high,
            offset_error=np.abs(span - offset.mean()).clip(0, offset_radius),
            risk=risk * for_estimates,
        )

    @property
    def offset(self) -> float:
        """The mean offset of the records."""
        return float(self.target.offset(self.target.weights).mean())

    def estimates(self, targets: list[Target], visible: float) -> list[list[SampleMean]]:
        """For each target the estimates that bound it; the risk is divided evenly."""
        chosen = [self._settings(target) for target in targets]
        return [
            [self._estimate(target, each, visible, self.risk / (len(targets) * len(settings))) for each in settings]
            for target, settings in zip(targets, chosen, strict=True)
        ]

    def best(self, target: Target, visible: float) -> SampleMean:
        """Return the estimate to print: the best one if the prior is right."""
        settings = _DOUBTING if self._known_by_counts(target) else _TRUSTING
        return self._estimate(target, settings, visible, self.risk)

    def _settings(self, target: Target) -> tuple[EstimateSettings, ...]:
        """Return the settings of the estimates: few, because each of them uses a part of the risk.

        Labels clipped to where the codes distinguish them bound a gain at both ends as well as three estimates do. An error
        needs all three: the first is the narrowest if the prior is right, the others if it is not.
        """
        if self.counted is None:
            return (_TRUSTING,)
        if self._known_by_counts(target):
            return (_DOUBTING,)
        if self.private.mechanism.kind == "unbiased":
            return (_TRUSTING,)
        weighted = float(target.weights.min()) < float(target.weights.max())
        return (_CLIPPED,) if weighted and not target.label_square else (_TRUSTING, _DOUBTING, _CLIPPED)

    def _known_by_counts(self, target: Target) -> bool:
        """Return whether the target is a function of the label alone, whose mean codes and counts estimate together, almost without bias."""
        low, high = float(target.weights.min()), float(target.weights.max())
        counted = self.counted is not None and self.counted.exact
        return counted and low == high and bool(target.label_square or low)

    def _estimate(self, target: Target, settings: EstimateSettings, visible: float, risk: float) -> SampleMean:
        """Estimate the target. Counts help where codes cannot distinguish labels: for functions of the label, or its square."""
        mechanism, records, channel = self.private.mechanism, len(self.private), self.pieces.probabilities
        whole = self._known_by_counts(target)
        known, labels = None, self.pieces.centers - target.origin
        if not whole:
            moments = moment_values(
                mechanism, records, visible, target.origin, settings.even_share, clipped=settings.clipped
            )
        if self.counted is not None and (whole or target.label_square):
            wanted = target.label_square * labels**2 + (target.weights[0] * labels if whole else 0)
            fitted, counted = self.counted.fit(channel, wanted[:, None], settings.even_weight, settings.doubt)
            known, codes, none = self.counted.mean(counted[:, 0]), fitted[:, 0], np.zeros(channel.shape[1])
            if target.label_square:
                moments = MomentValues(none if whole else moments.label, codes / target.label_square)
            else:
                moments = MomentValues(codes / target.weights[0], none)
        return SampleMean.of(target, moments, self.private, channel, risk, known)

    def program(self, estimates: list[tuple[Target, SampleMean]]) -> DistributionProgram:
        """Return the program with a row for each estimate. Rows of this frame's target move with its offset."""
        rows, ends, moved = [self.expected], [np.column_stack([self.low, self.high])], np.zeros(self.low.size)
        for target, estimate in estimates:
            own = target is self.target
            label, square = (self.pieces.probabilities @ v for v in (estimate.moments.label, estimate.moments.square))
            weights = self.nodes.values[:, None] if own else np.zeros((self.nodes.values.size, 1))
            row = weights * label + target.label_square * square
            if estimate.known is not None:
                row = row + estimate.known.function
            middle = estimate.mean - float(target.offset(target.weights).mean())
            rows.append(row.reshape(1, -1))
            ends.append(np.array([[middle - estimate.below, middle + estimate.above]]))
            moved = np.append(moved, float(own))
        low, high = np.concatenate(ends).T
        return DistributionProgram(np.vstack(rows), low, high, self.offset_error, moved)

    def label_range(self, origin: float) -> tuple[Floats, Floats]:
        """Return the ends of each piece, measured from `origin`."""
        return self.pieces.low - origin, self.pieces.high - origin


def _counted_rows(
    private: PrivateLabels, pieces: LabelPieces, counted: CountedLabels, risk: float
) -> tuple[Floats, Floats, Floats]:
    """Return expectations at each piece and ranges for the means of `shapes`, each estimated by codes and counts together."""
    channel, records = pieces.probabilities, len(private)
    wanted = shapes(pieces.centers)
    share = np.bincount(private.codes, minlength=channel.shape[1]) / records
    expected, low, high = [], [], []
    risk_of_each = risk / (len(_EVEN_WEIGHTS) * wanted.shape[1])
    for weight in _EVEN_WEIGHTS:
        codes, cells = counted.fit(channel, wanted, weight)
        for v, h in zip(codes.T, cells.T, strict=True):
            mean = float(share @ v)
            error = np.sqrt(max(float(share @ v**2) - mean**2, 0) / records)
            known = counted.mean(h)
            radius = known_mean(error, known, risk_of_each)
            expected.append(channel @ v + h)
            low.append(mean + known.low - radius)
            high.append(mean + known.high + radius)
    return np.array(expected), np.array(low), np.array(high)


def _aligned_rows(target: Target, nodes: WeightNodes, pieces: LabelPieces) -> tuple[Floats, Floats, Floats]:
    """Return the constraint E[(f − mean f)·(y − U)] ≥ 0 over labels y above U, and likewise below L. Labels can only be distinguished in between."""
    weights = np.sign(target.weight_of_prediction) * (nodes.values - target.weights.mean())
    expected = np.array([np.outer(weights, part).ravel() for part in pieces.tails()])
    expected = expected.reshape(-1, nodes.values.size * pieces.centers.size)
    return expected, np.zeros(expected.shape[0]), np.abs(expected).max(axis=1, initial=0)


def consistent_range(
    private: PrivateLabels, target: Target, risk: float, visible: float = 1.0, *, assume: Collection[str] = ()
) -> tuple[float, float, SampleMean]:
    """Return the least and the greatest value that the target may have in the population, and its estimate from the records.

    The range runs over the joint distributions of weight and label under which no statistic of the records is further
    from its expectation than sampling explains. It misses the truth with probability `risk` at most, approximately.

    Parameters
    ----------
    private : PrivateLabels
        The codes, in the order of the target's weights.
    target : Target
        The quantity whose mean is wanted; its `constant` is left out here.
    risk : float
        One minus the confidence.
    visible : float
        The share of the label's variance that features are assumed to explain, which determines the weights of bias and
        variance.
    assume : collection of str
        Names in `ASSUMPTIONS`.

    Returns
    -------
    lower, upper : float
    estimate : SampleMean
    """
    frame = Frame.of(private, target, risk, assume=assume)
    (estimates,) = frame.estimates([target], visible)
    program = frame.program([(target, each) for each in estimates])
    low, high = target.label_part_range(frame.nodes.values, *frame.label_range(target.origin))
    low = low - target.label_square * frame.pieces.widest_gap**2 / 4  # the largest distance of y² below its chord
    found = frame.offset + program.minimum(low.ravel(), 1.0), frame.offset - program.minimum(-high.ravel(), -1.0)
    ends = np.array(label_bounds(private.mechanism)) - target.origin
    least, most = target.value_range(ends, ends**2)
    lower, upper = np.clip(found, 0.0 if target.label_square else least, most).tolist()
    return lower, upper, frame.best(target, visible)


def explained_range(
    private: PrivateLabels,
    predictions: Floats,
    center: float,
    slack: float,
    risk: float,
    *,
    assume: Collection[str] = (),
) -> tuple[float, float, float]:
    """Return the least and the greatest R² that predictions may have in the population, and its estimate from the records.

    R² = 1 − E[(f − y)²] / Var(y). With the gain G = E[(y − c)² − (f − y)²] and D = E[(y − c)²] for a fixed c, the variance
    is D less (c − E[y])², so R² lies between (G − slack²) / (D − slack²) and G/D if |c − E[y]| ≤ slack. Both are ratios of
    linear functions of the distribution, so their extremes are the answers of linear programs as well.

    Parameters
    ----------
    private : PrivateLabels
        The codes.
    predictions : array
        A prediction f for each of them.
    center : float
        The number c, which should be near the mean label.
    slack : float
        How far the mean label may lie from it.
    risk : float
        One minus the confidence.
    assume : collection of str
        Names in `ASSUMPTIONS`.

    Returns
    -------
    lower, upper, estimate : float
        The first may be −inf, if labels may all be equal.
    """
    gain = Target.gain(private.mechanism, predictions, center)
    spread = Target.spread(len(private), center)
    frame = Frame.of(private, gain, risk, assume=assume)
    of_gain, of_spread = frame.estimates([gain, spread], visible=1.0)
    program = frame.program([(gain, each) for each in of_gain] + [(spread, each) for each in of_spread])
    size, square_gap = frame.nodes.values.size, frame.pieces.widest_gap**2 / 4
    gain_low, gain_high = (
        each.ravel() + frame.offset
        for each in gain.label_part_range(frame.nodes.values, *frame.label_range(gain.origin))
    )
    spread_low, spread_high = (
        np.tile(each.ravel(), size) for each in spread.label_part_range(np.zeros(1), *frame.label_range(spread.origin))
    )
    spread_low = np.maximum(spread_low - square_gap, 0)
    lower = program.least_ratio(gain_low - slack**2, 1.0, spread_low - slack**2, spread_high)
    upper = 1.0
    if program.minimum(spread_low - gain_high, -1.0) > 0:  # an error of zero is impossible
        upper = min(upper, -program.least_ratio(-gain_high, -1.0, spread_low, spread_high))
    spread_mean = frame.best(spread, 1.0).mean
    estimate = frame.best(gain, 1.0).mean / spread_mean if spread_mean > 0 else upper
    return min(lower, upper), upper, float(np.clip(estimate, lower, upper))
