"""The expected precision of a model's evaluation: the intervals of `train` and of a score, from public numbers only.

Synthetic private labels are passed to `estimate_r2`, as in `train`. They follow the prior exactly, their counts are
exact but treated as noisy, and predictions explain the share that is predicted for the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.evaluate.estimates import estimate_r2
from labeldp.evaluate.held_out_sums import HeldOutSums
from labeldp.evaluate.intervals import ASSUMPTIONS
from labeldp.mechanisms import FiniteMechanism, PrivateLabels
from labeldp.mechanisms.auto import prior_of_counts
from labeldp.mechanisms.label_cells import DESIGN_CELLS, MOST_LABELS
from labeldp.mechanisms.prediction import ModelErrors, likely_predictions
from labeldp.priors import Prior
from labeldp.release.randomizer import LabelRandomizer

CELLS = 101
"""The maximum number of cells of the synthetic labels. They get the noise of finer counts."""
MOST_MADE_UP = 300_000
"""The maximum number of synthetic records: the interval of more records is not wider."""
LEAST_SCORED = Fraction(1, 1000)
"""The smallest ε with a score: a tenth of a smaller one would be uninformative."""


@dataclass(frozen=True)
class Foreseen:
    """The expected precision of the evaluation of a model trained on private labels at one ε.

    Attributes
    ----------
    r2 : pair of float or None
        The expected 95 % interval of R² from `train`, if its model performs as predicted. None if it would not show
        that the model is better than always predicting the mean.
    score_epsilon : float or None
        The ε of a score for each record, which is a tenth of the ε of the labels. None if that is too small.
    score_within : float or None
        The expected half-width of the score's 95 % interval of the mean squared error.
    score_share : float or None
        The same as a share of the predicted mean squared error.

    Examples
    --------
    >>> from labeldp import advise
    >>> advice = advise((0, 400), records=50_000, shape="exponential:mean=90", epsilons=[0.25, 2])
    >>> [each.r2 is not None for each in advice.foreseen]
    [False, True]
    """

    r2: tuple[float, float] | None
    score_epsilon: float | None
    score_within: float | None
    score_share: float | None


def score_epsilon(epsilon: Fraction) -> Fraction | None:
    """Return the cost of a score for labels of this ε: a tenth, rounded to two digits."""
    return None if epsilon < LEAST_SCORED else Fraction(f"{float(epsilon) / 10:.2g}")


def score_within(predictions: Floats, epsilon: Fraction, records: int, variance: float = 0.0) -> float | None:
    """Return `HeldOutSums.reach`, or None if the sums' noise would be too large for a score."""
    try:
        HeldOutSums.check(1, records, epsilon)
        return HeldOutSums.reach(predictions, epsilon, records, variance)
    except InvalidInput:
        return None


def foresee(
    models: ModelErrors, epsilon: Fraction, records: int, r2: float, *, score: Fraction, score_records: int
) -> Foreseen:
    """Predict the precision of a model's evaluation.

    Parameters
    ----------
    models : ModelErrors
        The distribution of the labels and their bounds.
    epsilon : Fraction
        The privacy budget of each private label.
    records : int
        The number of private labels.
    r2 : float
        The R² that the model is predicted to reach.
    score : Fraction
        The ε of a record whose tenth a score costs.
    score_records : int
        The number of records to score.
    """
    domain = models.domain
    grid = domain.with_cells(CELLS) if not domain.cells or domain.count > CELLS else domain
    masses = np.bincount(grid.cell(np.clip(models.fine.values, grid.lower, grid.upper)), models.fine.masses, grid.count)
    labels = Prior(grid.grid, masses)
    predictions, joint = likely_predictions(labels, max(0.0, r2))
    scored = score_epsilon(score)
    within = None
    if scored is not None:
        width = grid.upper - grid.lower
        error = np.square((predictions[:, None] - grid.grid) / width)
        mse = float((joint * error).sum())
        made_up, weight = min(score_records, MOST_MADE_UP), joint.sum(axis=1)
        often = np.where(weight * made_up > min(0.5, made_up * weight.max() / 2), weight, 0.0)  # models avoid extremes
        rows, _ = _spread_out(often[:, None], made_up)
        variance = float((joint * np.square(error)).sum()) - mse**2
        within = score_within((predictions[rows] - grid.lower) / width, scored, score_records, max(0.0, variance))
    if scored is None or within is None:
        told: tuple[float | None, ...] = (None, None, None)
    else:
        told = float(scored), within * width**2, within / max(mse, 1e-300)
    return Foreseen(_interval(models, labels, epsilon, records, predictions, joint) if r2 > 0 else None, *told)


def _interval(
    models: ModelErrors, labels: Prior, epsilon: Fraction, records: int, predictions: Floats, joint: Floats
) -> tuple[float, float] | None:
    """Return the interval of R², or None if it would not show a positive R²."""
    try:
        mechanism = _designed(models, labels, epsilon, records)
    except InvalidInput:  # too few records, also for a release
        return None
    expected = joint @ mechanism.matrix(labels.values)
    rows, codes = _spread_out(expected, min(records, MOST_MADE_UP))
    if rows.size < 2:
        return None
    found = estimate_r2(PrivateLabels(codes, mechanism), predictions[rows], assume=tuple(ASSUMPTIONS))
    return (found.lower, found.upper) if found.lower > 0 else None


def _designed(models: ModelErrors, labels: Prior, epsilon: Fraction, records: int) -> FiniteMechanism:
    """Design the mechanism for a release of the expected labels."""
    public = models.fine if models.public else None
    plan = LabelRandomizer(epsilon, models.domain, prior=public).plan(records)
    cells = plan.grid.count
    exact = cells <= MOST_LABELS or plan.grid.whole
    frame = plan.grid.with_cells(CELLS) if cells > CELLS else plan.grid
    plan = replace(plan, request=replace(plan.request, domain=frame))
    if plan.split is None:
        return plan.design()
    made_up = min(records, MOST_MADE_UP)
    counts = np.rint(made_up * np.bincount(frame.cell(labels.values), labels.masses, frame.count)).astype(np.int64)
    scale = plan.split.scale * math.sqrt(min(cells, DESIGN_CELLS) / frame.count)
    return plan.design_for(prior_of_counts(counts, scale, frame, made_up, published=exact))


def _spread_out(expected: Floats, records: int) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
    """Distribute records over the cells of a table of probabilities, row by row. No running sum is off by more than half a record."""
    ends = np.rint(np.cumsum(expected.ravel()) * (records / expected.sum())).astype(np.int64)
    rows, codes = np.divmod(np.repeat(np.arange(expected.size), np.diff(ends, prepend=0)), expected.shape[1])
    return rows, codes.astype(np.uint32)
