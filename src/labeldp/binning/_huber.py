"""Interval costs of Huber loss: the zero of an increasing, piecewise linear derivative, by bisection in O(log k).

The derivative of `Σ weight·ℓ(ŷ, y)` changes its slope only at the *knots*, the labels ± δ. Labels are measured from the prior's
median. Prefix sums of p, p·y and p·y² in double-double give the derivative and the cost at any output.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.binning._compiled import compiled, internal, register
from labeldp.binning._double_double import add, product, times, two_sum

Counts = npt.NDArray[np.int64]

_P, _S, _Q, _COLUMNS = 0, 2, 4, 6


class HuberTables(NamedTuple):
    """Prefix sums, labels and knots; for each knot, the number of labels more than δ below it and of those up to δ above it; δ and c = e^ε − 1."""

    table: Floats
    points: Floats
    knots: Floats
    below: Counts
    reach: Counts
    delta: float
    c: float


@compiled
def huber_table(values: Floats, masses: Floats, anchor: int) -> tuple[Floats, Floats]:
    """Prefix sums of the labels measured from point `anchor`, and those labels."""
    k = values.size
    table, points = np.zeros((k + 1, _COLUMNS)), np.empty(k)
    p, p_low, s, s_low, q, q_low = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(k):
        u, u_low = two_sum(values[i], -values[anchor])
        p, p_low = add(p, p_low, masses[i], 0.0)
        high, low = times(u, u_low, masses[i])
        s, s_low = add(s, s_low, high, low)
        high, low = product(high, low, u, u_low)
        q, q_low = add(q, q_low, high, low)
        table[i + 1] = (p, p_low, s, s_low, q, q_low)
        points[i] = u
    return table, points


@internal
def _share(table: Floats, column: int, r: int, i: int) -> float:
    """The sum of a column over points r+1 … i, as a plain double."""
    return float((table[i, column] - table[r, column]) + (table[i, column + 1] - table[r, column + 1]))


@internal
def _slope(t: HuberTables, knot: int, r: int, i: int) -> float:
    """The derivative at a knot of the loss of points r+1 … i."""
    first = min(max(t.below[knot], r), i)
    last = min(max(t.reach[knot], r), i)
    near = _share(t.table, _P, first, last) * t.knots[knot] - _share(t.table, _S, first, last)
    return float(near + t.delta * (_share(t.table, _P, r, first) - _share(t.table, _P, last, i)))


@internal
def _derivative(t: HuberTables, knot: int, r: int, i: int) -> float:
    return _slope(t, knot, 0, t.points.size) + t.c * _slope(t, knot, r, i)


@internal
def _output(t: HuberTables, r: int, i: int) -> float:
    """The best output for points r+1 … i, measured from the anchor, kept between points r and i + 1."""
    low, high = -1, t.knots.size - 1  # the derivative is below 0 at `low`, at least 0 at `high`
    while high - low > 1:
        middle = (low + high) >> 1
        if _derivative(t, middle, r, i) >= 0.0:
            high = middle
        else:
            low = middle
    output = t.knots[high] if low < 0 else _zero_between(t, low, high, r, i)
    if r > 0:
        output = max(output, t.points[r - 1])
    if i < t.points.size:
        output = min(output, t.points[i])
    return float(output)


@internal
def _zero_between(t: HuberTables, low: int, high: int, r: int, i: int) -> float:
    """The zero of the derivative between two neighbouring knots, from its coefficients there.

    Interpolation between the knots would lose digits: outputs are measured from the anchor, where a heavy label may be.
    """
    first, last, k = t.below[high], t.reach[low], t.points.size
    bin_first, bin_last = min(max(first, r), i), min(max(last, r), i)
    near = _share(t.table, _P, first, last) + t.c * _share(t.table, _P, bin_first, bin_last)
    moment = _share(t.table, _S, first, last) + t.c * _share(t.table, _S, bin_first, bin_last)
    pull = _share(t.table, _P, last, k) - _share(t.table, _P, 0, first)
    pull += t.c * (_share(t.table, _P, bin_last, i) - _share(t.table, _P, r, bin_first))
    if near <= 0.0:
        return float(t.knots[high])
    return float(min(max((moment + t.delta * pull) / near, t.knots[low]), t.knots[high]))


@internal
def _loss(t: HuberTables, r: int, i: int, output: float) -> float:
    """The loss of points r+1 … i at an output."""
    table = t.table
    first = min(max(int(np.searchsorted(t.points, output - t.delta)), r), i)
    last = min(max(int(np.searchsorted(t.points, output + t.delta)), first), i)
    p, p_low = add(table[last, _P], table[last, _P + 1], -table[first, _P], -table[first, _P + 1])
    s, s_low = add(table[last, _S], table[last, _S + 1], -table[first, _S], -table[first, _S + 1])
    q, q_low = add(table[last, _Q], table[last, _Q + 1], -table[first, _Q], -table[first, _Q + 1])
    near, near_low = times(p, p_low, output)
    near, near_low = add(near, near_low, -2 * s, -2 * s_low)
    near, near_low = times(near, near_low, output)
    near, near_low = add(near, near_low, q, q_low)
    far = _distance(table, r, first, output) - _distance(table, last, i, output)
    rim = _share(table, _P, r, first) + _share(table, _P, last, i)
    return float(max(near, 0.0) / 2 + t.delta * (far - t.delta / 2 * rim))


@internal
def _distance(table: Floats, r: int, i: int, output: float) -> float:
    """Σ p·(output − y) over points r+1 … i."""
    p, p_low = add(table[i, _P], table[i, _P + 1], -table[r, _P], -table[r, _P + 1])
    high, low = times(p, p_low, output)
    high, low = add(high, low, -table[i, _S], -table[i, _S + 1])
    high, low = add(high, low, table[r, _S], table[r, _S + 1])
    return float(high + low)


@internal
def _cost(t: HuberTables, r: int, i: int) -> float:
    """The constrained interval cost."""
    output = _output(t, r, i)
    return _loss(t, 0, t.points.size, output) + t.c * _loss(t, r, i, output)


register(HuberTables, _cost, _output)
