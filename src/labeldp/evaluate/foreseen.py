"""The expected precision of a model's evaluation: the intervals of `train` and of a score, from public numbers only.

Synthetic private labels are passed to `estimate_r2`, as in `train`. They follow the prior exactly, their counts are
exact but treated as noisy, and predictions explain the share that is predicted for the model.

`target_of` answers the opposite question: the smallest ε, and the smallest number of records at an ε, for a target error.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import MAX_EPSILON
from labeldp.errors import InvalidInput, described
from labeldp.evaluate.estimates import estimate_r2
from labeldp.evaluate.held_out_sums import HeldOutSums
from labeldp.evaluate.intervals import ASSUMPTIONS
from labeldp.formatting import ReprMixin, plain
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


LEAST_RECORDS, MOST_RECORDS = 100, 10**9
"""The range of records: predictions were not checked with fewer, and more are not practical."""


@dataclass(frozen=True, repr=False)
class Target(ReprMixin):
    """The requirements for a target error, by the predictions. Numbers are the smallest sufficient ones with two digits.

    Attributes
    ----------
    r2 : float
        The share of the labels' variance that the model should explain.
    rmse : float
        The same target as a root mean squared error, in the unit of the labels.
    epsilon_labels, epsilon_sums : float or None
        The least ε with private labels, and with noisy sums, for the given records; None if none up to 40 is enough.
    records_labels, records_sums : tuple of (int or None)
        The least number of records at each listed ε, from 100 on; None if even a billion are not enough.
    records_not_private : int or None
        The same without any privacy.
    why_not : str
        Why the target cannot be reached with the given records, or an empty text.

    Examples
    --------
    >>> from labeldp import advise
    >>> target = advise((0, 400), 50_000, shape="exponential:mean=90", target_r2=0.4).target
    >>> target.epsilon_labels, target.records_not_private
    (0.19, 100)
    """

    r2: float
    rmse: float
    epsilon_labels: float | None
    epsilon_sums: float | None
    records_labels: tuple[int | None, ...]
    records_sums: tuple[int | None, ...]
    records_not_private: int | None
    why_not: str

    def _facts(self) -> dict[str, str]:
        def shown(number: float | None) -> str:
            return "none" if number is None else f"{number:,g}"

        return {
            "r2": f"{self.r2:.4g}",
            "rmse": plain(self.rmse),
            "epsilon_labels": shown(self.epsilon_labels),
            "epsilon_sums": shown(self.epsilon_sums),
        }


def target_of(models: ModelErrors, records: int, epsilons: Sequence[float], r2: float) -> Target:
    """Return the requirements for an R²."""
    spread = models.mean_only().mse
    reachable = models.not_private(records).r2
    least_true = least_records(lambda n: models.not_private(n).r2 >= r2)
    why_not = ""
    if reachable < r2:
        why_not = f"Even without privacy {records:,} records are predicted to reach R² = {reachable:.2f} only."
        if r2 > models.explained:
            why_not = f"Even without privacy it is out of reach: features are taken to explain {models.explained:g} of the labels' variance."
        elif least_true is not None:
            why_not += f" Without privacy it takes {least_true:,}."
    hopeless = r2 >= models.explained

    def at(epsilon: float, predict: Callable[[float, int], bool]) -> int | None:
        return None if hopeless else least_records(lambda n: predict(epsilon, n))

    def by_labels(epsilon: float, n: int) -> bool:
        return models.labels(epsilon, n).r2 >= r2

    def by_sums(epsilon: float, n: int) -> bool:
        return models.sums(epsilon, n).r2 >= r2

    return Target(
        r2=r2,
        rmse=(max(0.0, 1 - r2) * spread) ** 0.5,
        epsilon_labels=None if why_not else least_epsilon(lambda epsilon: by_labels(epsilon, records)),
        epsilon_sums=None if why_not else least_epsilon(lambda epsilon: by_sums(epsilon, records)),
        records_labels=tuple(at(epsilon, by_labels) for epsilon in epsilons),
        records_sums=tuple(at(epsilon, by_sums) for epsilon in epsilons),
        records_not_private=least_true,
        why_not=why_not,
    )


def least_epsilon(enough: Callable[[float], bool]) -> float | None:
    """Return the least ε of two digits, from 0.001 to 40, that is enough."""
    grid = _epsilons()
    place = bisect_left(grid, 1, key=lambda epsilon: int(enough(epsilon)))
    return grid[place] if place < len(grid) else None


def least_records(enough: Callable[[int], bool]) -> int | None:
    """Return the smallest sufficient number, rounded up to two digits, from 100 to a billion. Larger ones must be sufficient too."""
    grid = _records()
    place = bisect_left(grid, 1, key=lambda n: int(enough(n)))
    return grid[place] if place < len(grid) else None


def wanted_r2(models: ModelErrors, target_r2: float | None, target_error: float | None) -> float | None:
    """Return the target R², given directly or as a root mean squared error, or None."""
    if target_r2 is None and target_error is None:
        return None
    if target_r2 is not None and target_error is not None:
        raise InvalidInput("give one target: an R² or an error, not both")
    given = target_error if target_r2 is None else target_r2
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise InvalidInput(f"a target must be a number, got {described(given)}")
    if target_r2 is not None:
        if not 0 < target_r2 <= 1:
            raise InvalidInput(
                f"the target R² must be greater than 0 and at most 1, got {target_r2:g}: 0 is what the mean of the labels reaches"
            )
        return float(target_r2)
    mean = models.mean_only()
    if not 0 <= given < mean.rmse:
        raise InvalidInput(
            f"the target error must be at least 0 and less than {plain(mean.rmse)}, which answering the mean of the labels reaches, got "
            f"{given:g}. It is a root mean squared error, in the unit of the labels"
        )
    return 1 - given**2 / mean.mse


@cache
def _epsilons() -> list[float]:
    """Return all numbers of two digits from 0.001 to 40."""
    numbers = (float(f"{digits}e{power}") for power in range(-4, 1) for digits in range(10, 100))
    return [number for number in numbers if number <= MAX_EPSILON]


@cache
def _records() -> list[int]:
    """Return all numbers of two digits from 100 to a billion."""
    numbers = chain.from_iterable((digits * 10**power for digits in range(10, 100)) for power in range(1, 9))
    return [number for number in numbers if LEAST_RECORDS <= number <= MOST_RECORDS]
