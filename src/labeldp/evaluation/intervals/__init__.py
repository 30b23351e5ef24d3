"""Intervals from private labels that assume no distribution of the true ones. `docs/concepts/intervals.md` has the argument.

Labels with nearly the same output probabilities cannot be told apart, however many records there are. So an interval for
a mean (of the labels, of squared errors) has to allow for every joint distribution of predictions and hidden labels that
the codes and the noisy counts of the prior do not contradict. Its two ends are the answers of two linear programs.
"""

from collections.abc import Collection

import numpy as np

from labeldp.arrays import Floats
from labeldp.evaluation.intervals.frame import Frame
from labeldp.evaluation.intervals.sampling import SampleMean
from labeldp.evaluation.intervals.target import Target, label_bounds
from labeldp.mechanisms import PrivateLabels


def consistent_range(
    private: PrivateLabels, target: Target, risk: float, visible: float = 1.0, *, assume: Collection[str] = ()
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
    risk : float
        One less the confidence.
    visible : float
        The share of the label that features are taken to explain, which decides how bias and variance are weighed.
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
    low = low - target.label_square * frame.pieces.widest_gap**2 / 4  # y² runs below its chord by so much at most
    found = frame.offset + program.minimum(low.ravel(), 1.0), frame.offset - program.minimum(-high.ravel(), -1.0)
    ends = np.array(label_bounds(private.mechanism)) - target.origin
    least, most = target.value_range(ends, ends**2)
    lower, upper = np.clip(found, 0.0 if target.label_square else least, most).tolist()
    return lower, upper, estimates[0]


def explained_range(
    private: PrivateLabels,
    predictions: Floats,
    center: float,
    slack: float,
    risk: float,
    *,
    assume: Collection[str] = (),
) -> tuple[float, float, float]:
    """The least and the greatest R² that predictions may have in the population, and its estimate from the records.

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
        One less the confidence.
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
    if program.minimum(spread_low - gain_high, -1.0) > 0:  # no error of zero is possible
        upper = min(upper, -program.least_ratio(-gain_high, -1.0, spread_low, spread_high))
    estimate = of_gain[0].mean / of_spread[0].mean if of_spread[0].mean > 0 else upper
    return min(lower, upper), upper, float(np.clip(estimate, lower, upper))
