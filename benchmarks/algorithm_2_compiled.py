"""The paper's Algorithm 2 compiled: its recurrence as printed, O(k³), in plain doubles, with tables laid out for the inner loop.

The cost of a bin is O(1) from prefix sums for losses whose best output is a mean, and O(log k) for pinball losses. Huber and custom
losses have no such cost, and are left out.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from labeldp.losses import get_loss
from labeldp.losses.loss import PinballDistance

MEANS = {"squared": 0, "squared-log": 0, "poisson": 1, "gamma": 2}


def supports(loss: str) -> bool:
    """Whether there is a compiled cost for this loss."""
    return loss in MEANS or isinstance(get_loss(loss).structure, PinballDistance)


def least_loss(values: np.ndarray, masses: np.ndarray, epsilon: float, loss: str) -> float:
    """The expected loss of the best bins."""
    masses, e = masses / masses.sum(), math.exp(epsilon)
    if loss in MEANS:
        points = np.log1p(values) if loss == "squared-log" else values
        costs = _costs_at_means(points, masses, e - 1, MEANS[loss])
    else:
        structure = get_loss(loss).structure
        costs = _costs_at_quantiles(values, masses, e - 1, float(structure.under), float(structure.over))
    return float(_recurrence(costs, e))


@nb.njit(cache=True)
def _prefix(values):
    sums = np.zeros(values.size + 1)
    sums[1:] = np.cumsum(values)
    return sums


@nb.njit(cache=True)
def _costs_at_means(values, masses, c, kind):
    k = values.size
    p, s = _prefix(masses), _prefix(masses * values)
    if kind == 0:
        extra = _prefix(masses * values * values)
    elif kind == 1:
        extra = _prefix(masses * values * np.log(values))
    else:
        extra = _prefix(masses * np.log(values))
    costs = np.zeros((k, k))  # last value, first value
    for i in range(k):
        for r in range(i + 1):
            weight = p[k] + c * (p[i + 1] - p[r])
            first = s[k] + c * (s[i + 1] - s[r])
            other = extra[k] + c * (extra[i + 1] - extra[r])
            if kind == 0:
                costs[i, r] = other - first * first / weight
            elif kind == 1:
                costs[i, r] = 2 * (other - first * math.log(first / weight))
            else:
                costs[i, r] = 2 * (weight * math.log(first / weight) - other)
    return costs


@nb.njit(cache=True)
def _costs_at_quantiles(values, masses, c, under, over):
    k = values.size
    p, s = _prefix(masses), _prefix(masses * values)
    costs = np.zeros((k, k))
    for i in range(k):
        for r in range(i + 1):
            target = under / (under + over) * (p[k] + c * (p[i + 1] - p[r]))
            low, high = 0, k - 1
            while low < high:
                middle = (low + high) // 2
                last = min(middle, i) + 1
                if p[middle + 1] + c * max(0.0, p[last] - p[r]) * (last > r) >= target:
                    high = middle
                else:
                    low = middle + 1
            last = min(max(min(low, i) + 1, r), i + 1)
            weight_below = p[low + 1] + c * (p[last] - p[r])
            sum_below = s[low + 1] + c * (s[last] - s[r])
            weight_above = p[k] - p[low + 1] + c * (p[i + 1] - p[last])
            sum_above = s[k] - s[low + 1] + c * (s[i + 1] - s[last])
            at = values[low]
            costs[i, r] = over * (at * weight_below - sum_below) + under * (sum_above - at * weight_above)
    return costs


@nb.njit(cache=True)
def _recurrence(costs, e):
    k = costs.shape[0]
    total = np.full((k + 1, k + 1), np.inf)  # number of intervals, number of values
    total[0, 0] = 0.0
    for i in range(1, k + 1):
        for j in range(1, i + 1):
            least = np.inf
            for r in range(j - 1, i):
                least = min(least, total[j - 1, r] + costs[i - 1, r])
            total[j, i] = least
    ratio = np.inf
    for d in range(1, k + 1):
        ratio = min(ratio, total[d, k] / (d - 1 + e))
    return ratio
