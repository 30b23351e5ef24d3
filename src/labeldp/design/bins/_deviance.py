"""Interval costs of Poisson and gamma deviance, from a disjoint sparse table in O(1) each.

Prefix sums would contain y·log y, and their differences lose every digit for labels near 10⁹ that differ by 1. So
nothing is subtracted here. A run of neighbouring points is summarised by its mass P, its mean m and its information Σ
p·d(y, m), where d is the unit deviance. Two neighbouring runs merge by

    information = information₁ + information₂ + P₁·d(m₁, m) + P₂·d(m₂, m),

which has only positive terms. The table stores runs that end or begin at certain points, the *middles* of each level,
so that every interval of points is the merger of two stored runs that meet at a middle. Its level is the highest bit
where the indices of the interval's ends differ. Means are stored as pairs, measured from the middle. Memory is
32·k·⌈log₂ k⌉ bytes.
"""

import math
from typing import NamedTuple

import numpy as np

from labeldp.arrays import Floats
from labeldp.design.bins._search import add, compiled, internal, register, two_sum
from labeldp.losses.standard import NEAR, log_series

Run = tuple[float, float, float, float]
_log_series = internal(log_series)


@internal
def divergence(power: float, difference: float, output: float) -> float:
    """Return the unit deviance of an output when the label is `output + difference`, without cancellation."""
    if output <= 0.0:
        return 0.0 if difference == 0.0 else math.inf
    t = difference / output
    if t <= -1.0:
        return 2 * output if power == 1.0 else math.inf
    if abs(t) >= NEAR:
        log = math.log1p(t)
        return 2 * output * ((1 + t) * log - t) if power == 1.0 else 2 * (t - log)
    s, tail = _log_series(t)
    return 2 * output * (t * s + tail * (1 + t)) if power == 1.0 else 2 * (t * s - tail)


@internal
def _merge(power: float, reference: float, left: Run, right: Run) -> Run:
    """Merge two neighbouring runs. The mean is computed from the heavier one, so that a light, distant run does not cost digits."""
    p1, m1, m1_low, information1 = left
    p2, m2, m2_low, information2 = right
    if p1 == 0.0:
        return right
    if p2 == 0.0:
        return left
    p = p1 + p2
    apart = (m2 - m1) + (m2_low - m1_low)
    up, down = apart * (p2 / p), apart * (p1 / p)
    mean, mean_low = add(m1, m1_low, up, 0.0) if p1 >= p2 else add(m2, m2_low, -down, 0.0)
    output = (reference + mean) + mean_low
    information = information1 + information2
    if apart > 0.0:
        information += p1 * divergence(power, -up, output) + p2 * divergence(power, down, output)
    return p, mean, mean_low, information


@compiled
def deviance_levels(values: Floats, masses: Floats, power: float) -> Floats:
    """Return the runs that end or begin at each level's middles."""
    k = values.size
    depth = 1
    while (1 << depth) < k:
        depth += 1
    levels = np.zeros((depth, k, 4))
    for level in range(depth):
        half = 1 << level
        for middle in range(half, k, 2 * half):
            run = (0.0, 0.0, 0.0, 0.0)
            for i in range(middle - 1, middle - half - 1, -1):
                offset, offset_low = two_sum(values[i], -values[middle])
                run = _merge(power, values[middle], (masses[i], offset, offset_low, 0.0), run)
                levels[level, i] = run
            run = (0.0, 0.0, 0.0, 0.0)
            for i in range(middle, min(middle + half, k)):
                offset, offset_low = two_sum(values[i], -values[middle])
                run = _merge(power, values[middle], run, (masses[i], offset, offset_low, 0.0))
                levels[level, i] = run
    return levels


@compiled
def summary(points: Floats, levels: Floats, power: float, r: int, i: int) -> Run:
    """Return the mass, the mean (a pair) and the information of points r+1 … i. Rows of `points` are (label, mass)."""
    first, last = r, i - 1
    if first == last:
        return points[first, 1], points[first, 0], 0.0, 0.0
    level, differ = 0, (first ^ last) >> 1
    while differ:
        level += 1
        differ >>= 1
    middle = points[(last >> level) << level, 0]
    a, b = levels[level, first], levels[level, last]
    run = _merge(power, middle, (a[0], a[1], a[2], a[3]), (b[0], b[1], b[2], b[3]))
    mean, mean_low = two_sum(middle, run[1])
    mean, mean_low = two_sum(mean, mean_low + run[2])
    return run[0], mean, mean_low, run[3]


class DevianceTables(NamedTuple):
    """Labels with masses, runs, c = e^ε − 1, the total mass, the prior's information and mean (a pair), and the power."""

    points: Floats
    levels: Floats
    c: float
    w: float
    information: float
    mean: float
    mean_low: float
    power: float


@internal
def _placed(t: DevianceTables, run: Run, r: int, i: int) -> tuple[float, float, float]:
    """Return the best output between points r and i + 1, and its distances from the prior's mean and from the bin's."""
    apart = (run[1] - t.mean) + (run[2] - t.mean_low)
    extra = t.c * run[0]
    weight = t.w + extra
    output = run[1] - apart * (t.w / weight) if extra > t.w else t.mean + apart * (extra / weight)
    bound = output
    if r > 0:
        bound = max(bound, t.points[r - 1, 0])
    if i < t.points.shape[0]:
        bound = min(bound, t.points[i, 0])
    if bound != output:
        return bound, (bound - t.mean) - t.mean_low, (bound - run[1]) - run[2]
    return output, apart * (extra / weight), -apart * (t.w / weight)


@internal
def _output(t: DevianceTables, r: int, i: int) -> float:
    return _placed(t, summary(t.points, t.levels, t.power, r, i), r, i)[0]


@internal
def _cost(t: DevianceTables, r: int, i: int) -> float:
    """Return the constrained interval cost."""
    run = summary(t.points, t.levels, t.power, r, i)
    output, from_mean, from_bin = _placed(t, run, r, i)
    everything = t.information + t.w * divergence(t.power, -from_mean, output)
    return everything + t.c * (run[3] + run[0] * divergence(t.power, -from_bin, output))


register(DevianceTables, _cost, _output)
