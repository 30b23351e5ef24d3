"""Intervals from private labels that assume no distribution of the true ones. `docs/intervals.md` has the argument.

Labels with nearly the same output probabilities cannot be told apart, however many records there are. So an interval for
a mean (of the labels, of squared errors) has to allow for every joint distribution of predictions and hidden labels that
the codes do not contradict. Its two ends are the answers of two linear programs.
"""

import numpy as np

from labeldp.evaluation.intervals.evidence import WeightNodes, gather_evidence
from labeldp.evaluation.intervals.pieces import LabelPieces
from labeldp.evaluation.intervals.program import DistributionProgram
from labeldp.evaluation.intervals.sampling import SampleMean, bernstein_radius
from labeldp.evaluation.intervals.target import Target, label_bounds
from labeldp.evaluation.moments import MomentValues
from labeldp.mechanisms import PrivateLabels

_SHARE_FOR_ESTIMATE = 0.95
"""The share of the risk spent on the estimate itself; the statistics that bound the labels get the rest."""


def consistent_range(
    private: PrivateLabels, target: Target, moments: MomentValues, risk: float
) -> tuple[float, float, SampleMean]:
    """The least and the greatest value that the target may have in the population, and its estimate from the records.

    The range runs over the joint distributions of weight and label under which no statistic of the records is further
    from its expectation than sampling explains. It misses the truth with probability `risk` at most, approximately.

    Parameters
    ----------
    private : PrivateLabels
        The codes, in the order of the target's weights.
    target : Target
        The quantity whose mean is wanted; its `constant` is left out here.
    moments : MomentValues
        What stands for y and y² of each code in the estimate.
    risk : float
        One less the confidence.

    Returns
    -------
    lower, upper : float
    estimate : SampleMean
    """
    pieces, nodes, records = LabelPieces.of(private.mechanism), WeightNodes.of(target.weights), len(private)
    evidence = gather_evidence(private, target.weights, nodes, pieces)
    risk_of_each = risk * (1 - _SHARE_FOR_ESTIMATE) / (evidence.mean.size + 1)
    radius = bernstein_radius(evidence.variance, evidence.span, records, risk_of_each)
    estimate = SampleMean.of(target, moments, private, pieces.probabilities, risk * _SHARE_FOR_ESTIMATE)
    label, square = (pieces.probabilities @ values for values in (moments.label, moments.square))
    expected_estimate = nodes.values[:, None] * label + target.label_square * square

    # The program leaves the offset out: its mean over the records is known, its mean in the population nearly so.
    offset = target.offset(target.weights)
    center, offset_range = float(offset.mean()), np.array(target.value_range(np.zeros(1), np.zeros(1)))
    offset_radius = bernstein_radius(offset.var(ddof=1), np.ptp(offset_range), records, risk_of_each)
    program = DistributionProgram(
        expected=np.vstack([evidence.expected, expected_estimate.ravel()]),
        low=np.r_[evidence.mean - radius, estimate.mean - center - estimate.below],
        high=np.r_[evidence.mean + radius, estimate.mean - center + estimate.above],
        offset_error=np.abs(offset_range - center).clip(0, offset_radius),
    )
    low, high = target.label_part_range(nodes.values, pieces.low - target.origin, pieces.high - target.origin)
    low = low - target.label_square * pieces.widest_gap**2 / 4  # y² runs below its chord by so much at most
    found = center + program.minimum(low.ravel(), 1.0), center - program.minimum(-high.ravel(), -1.0)
    ends = np.array(label_bounds(private.mechanism)) - target.origin
    least, most = target.value_range(ends, ends**2)
    lower, upper = np.clip(found, 0.0 if target.label_square else least, most).tolist()
    return lower, upper, estimate
