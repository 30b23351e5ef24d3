"""The linear program for some records: its variables, its constraints, and the estimates that are added to them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.evaluation.intervals.assumptions import PART, TAILS, checked
from labeldp.evaluation.intervals.counted import CountedLabels, shapes, usable_counts
from labeldp.evaluation.intervals.evidence import WeightNodes, gather_evidence
from labeldp.evaluation.intervals.pieces import MOST_PIECES, LabelPieces
from labeldp.evaluation.intervals.program import DistributionProgram
from labeldp.evaluation.intervals.sampling import SampleMean, bernstein_radius, known_mean
from labeldp.evaluation.intervals.target import Target
from labeldp.evaluation.moments import MomentValues, moment_values
from labeldp.mechanisms import PrivateLabels


@dataclass(frozen=True)
class Choice:
    """How an estimate is made: `even_share` and `clipped` are for y (`moment_values`), the others for y² (`CountedLabels.fit`)."""

    even_share: float
    even_weight: float
    doubt: float = 1.0
    clipped: bool = False


_SHARES = (0.95, 0.0)
"""The shares of the risk that the estimates and the counts get, without counts; the statistics of the codes get the rest."""
_SHARES_WITH_COUNTS = (0.5, 0.4)
_CHOICES = (
    Choice(even_share=0.01, even_weight=1e-3, doubt=0.03),
    Choice(even_share=0.5, even_weight=1.0),
    Choice(even_share=0.5, even_weight=1.0, clipped=True),
)
"""With counts there is an estimate for each. The first one is the best if the prior is right, the others if it is not."""
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
        What gives each record its weight.
    pieces : LabelPieces
        Where labels may lie.
    nodes : WeightNodes
        Where weights may lie.
    counted : CountedLabels or None
        What the noisy counts tell.
    expected, low, high : arrays
        A row for each statistic: its expectation at each (node, piece), and the range of its mean.
    offset_error : array
        How far the mean offset of the population may lie below and above that of the records.
    risk : float
        What is left of the risk for estimates.
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
        """The frame for all targets with these weights; `assume` names some of `ASSUMPTIONS`."""
        assumed = checked(assume)
        mechanism, records = private.mechanism, len(private)
        has_counts = usable_counts(mechanism, records) is not None
        for_estimates, for_counts = _SHARES_WITH_COUNTS if has_counts else _SHARES
        pieces = LabelPieces.of(mechanism, _PIECES_WITH_COUNTS if has_counts else MOST_PIECES)
        nodes = WeightNodes.of(target.weights)
        counted = CountedLabels.of(mechanism, pieces, records, random_part=PART in assumed)
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
        """For each target its estimates, the first one the best if the prior is right; the risk is divided evenly."""
        several = self.counted is not None and self.private.mechanism.kind != "unbiased"
        choices = _CHOICES if several else _CHOICES[:1]
        risk = self.risk / (len(targets) * len(choices))
        return [[self._estimate(target, choice, visible, risk) for choice in choices] for target in targets]

    def _estimate(self, target: Target, choice: Choice, visible: float, risk: float) -> SampleMean:
        """The counts help to estimate squares where codes cannot tell labels apart."""
        mechanism, records, channel = self.private.mechanism, len(self.private), self.pieces.probabilities
        moments = moment_values(mechanism, records, visible, target.origin, choice.even_share, clipped=choice.clipped)
        known = None
        if target.label_square and self.counted is not None:
            square = target.label_square * (self.pieces.centers - target.origin) ** 2
            codes, counted = self.counted.fit(channel, square[:, None], choice.even_weight, choice.doubt)
            moments = MomentValues(moments.label, codes[:, 0] / target.label_square)
            known = self.counted.mean(counted[:, 0])
        return SampleMean.of(target, moments, self.private, channel, risk, known)

    def program(self, estimates: list[tuple[Target, SampleMean]]) -> DistributionProgram:
        """The program with a row for each estimate. Those of this frame's target move with its offset."""
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
        """The ends of each piece, measured from `origin`."""
        return self.pieces.low - origin, self.pieces.high - origin


def _counted_rows(
    private: PrivateLabels, pieces: LabelPieces, counted: CountedLabels, risk: float
) -> tuple[Floats, Floats, Floats]:
    """Expectations at each piece and ranges for the means of `shapes`, each estimated by codes and counts together."""
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
    """E[(f − mean f)·(y − U)] ≥ 0 over labels y above U, and over those below L: only in between can labels be told apart."""
    weights = np.sign(target.weight_of_prediction) * (nodes.values - target.weights.mean())
    expected = np.array([np.outer(weights, part).ravel() for part in pieces.tails()])
    expected = expected.reshape(-1, nodes.values.size * pieces.centers.size)
    return expected, np.zeros(expected.shape[0]), np.abs(expected).max(axis=1, initial=0)
