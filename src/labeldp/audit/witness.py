"""Lower bounds on ε from counts: which pair of labels and which outputs show most, and what they prove."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

POWER = 0.99
"""The probability with which an excess of `smallest_excess` is found."""

_CANDIDATES = 256


@dataclass(frozen=True, eq=False)
class Witness:
    """A set of outputs, and a lower bound on ln(P[output in it | label `high`] / P[output in it | label `low`]).

    The labels are given by their row numbers, the outputs by the numbers of their events.
    """

    bound: float
    high: int
    low: int
    event: NDArray[np.intp]


def survey(counts: NDArray[np.int64], size: int, error: float) -> Witness:
    """The best bound from single outputs; `counts` has a row for each label, from `size` records each.

    The bound is a lower over an upper Clopper–Pearson bound. All of these hold at once with probability 1 − error.
    """
    each = error / (2 * counts.size)
    lower = np.where(counts > 0, special.betaincinv(np.maximum(counts, 1), size - counts + 1, each), 0.0)
    upper = np.where(counts < size, special.betainccinv(counts + 1, np.maximum(size - counts, 1), each), 1.0)
    ratios = lower.max(axis=0) / upper.min(axis=0)
    column = int(ratios.argmax())
    bound = math.log(ratios[column]) if ratios[column] > 0 else -math.inf
    return Witness(bound, int(lower[:, column].argmax()), int(upper[:, column].argmin()), np.array([column]))


def most_promising(counts: NDArray[np.int64], size: int, trial: float, error: float) -> Witness:
    """The pair of labels and the set of outputs for which a trial on fresh outputs should give the largest bound.

    Pairs are ranked by their best single output. For the best pairs, outputs join the set in the order of their ratio
    as long as that raises the expected bound. A bad choice here costs power, not validity.
    """
    rates = smoothed_rate(counts, size)

    def expected_bound(high: Any, low: Any) -> Any:
        """The bound that the trial would give, if the survey's ratio is two standard deviations too high."""
        luck = np.sqrt((1 / high + 1 / low) / size)
        return np.log(high / low) - 2 * luck + special.ndtri(error) * _ratio_deviation(high, low, trial)

    pairs: list[tuple[float, int, int]] = []
    for high in range(len(counts)):
        single = expected_bound(rates[high], rates).max(axis=1)
        likely = np.argsort(single, kind="stable")[-_CANDIDATES:]  # the same choice on every processor
        pairs += [(float(single[low]), high, int(low)) for low in likely if low != high]
    best = Witness(-math.inf, 0, 1, np.arange(1))
    for _, high, low in sorted(pairs)[-_CANDIDATES:]:
        order = np.argsort(-rates[high] / rates[low], kind="stable")
        bounds = expected_bound(*(smoothed_rate(np.cumsum(counts[row, order]), size) for row in (high, low)))
        end = int(bounds.argmax())
        if bounds[end] > best.bound:
            best = Witness(float(bounds[end]), high, low, order[: end + 1])
    return best


def best_allocation(rates: Sequence[float], trial: float) -> tuple[float, float]:
    """Expected records of each label, in proportion to 1/√p: then the logarithm of the ratio varies least."""
    high, low = (1 / math.sqrt(rate) for rate in rates)
    return trial * high / (high + low), trial * low / (high + low)


def ratio_bound(counts: Sequence[int], means: Sequence[float], error: float) -> float:
    """A lower bound on ln(p/q) from independent Poisson counts with means `means[0]·p` and `means[1]·q`.

    Given the sum of the counts the first is binomial, and its Clopper–Pearson bound bounds p/q.
    """
    high, low = counts
    if high == 0:
        return -math.inf
    share = special.betaincinv(high, low + 1, error)
    rest = special.betainccinv(low + 1, high, error)
    return float(np.log(share) - np.log(rest) + np.log(means[1] / means[0]))


def smallest_excess(rates: Sequence[float], trial: float, error: float) -> float:
    """How far ln(p/q) must lie above a claim for a trial of so many records to refute it with probability `POWER`."""
    return float(-(special.ndtri(error) + special.ndtri(1 - POWER)) * _ratio_deviation(rates[0], rates[1], trial))


def smoothed_rate(counts: Any, size: int) -> Any:
    """A frequency that is never 0 or 1: (count + ½)/(size + 1)."""
    return (counts + 0.5) / (size + 1)


def _ratio_deviation(high: Any, low: Any, trial: float) -> Any:
    """The standard deviation of the logarithm of the ratio of two Poisson counts under the best allocation."""
    return (1 / np.sqrt(high) + 1 / np.sqrt(low)) / math.sqrt(trial)
