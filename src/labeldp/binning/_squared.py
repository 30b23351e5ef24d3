"""Interval costs of squared distance, from prefix sums in double-double in O(1) each.

With labels measured from the prior's mean, `Σ_all p(ŷ − y)² = V + W·ŷ²`, where W is the total mass and V the variance times W. The
sums of p, p·y and p·y² over any prefix are bounded by W, √(V·W) and V. So whatever the masses, the rounding errors of a bin's part
are below `c·10⁻³¹` of that cost.
"""

import math
from typing import NamedTuple

import numpy as np

from labeldp.arrays import Floats
from labeldp.binning._compiled import compiled, internal, register
from labeldp.binning._double_double import add, product, quotient, times, two_product, two_sum

# A row of the table is one cache line: sums of p, p·y, p·y² (pairs) up to point i, then points i and i + 1.
_P, _S, _Q, _HERE, _NEXT, _COLUMNS = 0, 2, 4, 6, 7, 8


@compiled
def squared_table(values: Floats, masses: Floats) -> tuple[Floats, float, float]:
    """Prefix sums of the labels measured from their mean, and the mean as a pair."""
    k = values.size
    w, w_low, s, s_low = 0.0, 0.0, 0.0, 0.0
    for i in range(k):
        w, w_low = add(w, w_low, masses[i], 0.0)
        high, low = two_product(masses[i], values[i])
        s, s_low = add(s, s_low, high, low)
    mean, mean_low = quotient(s, s_low, w, w_low)
    table = np.zeros((k + 1, _COLUMNS))
    table[0, _HERE] = -math.inf
    table[k, _NEXT] = math.inf
    p, p_low, s, s_low, q, q_low = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(k):
        high, low = two_sum(values[i], -mean)
        u, u_low = add(high, low, -mean_low, 0.0)
        p, p_low = add(p, p_low, masses[i], 0.0)
        high, low = times(u, u_low, masses[i])
        s, s_low = add(s, s_low, high, low)
        high, low = product(high, low, u, u_low)
        q, q_low = add(q, q_low, high, low)
        table[i + 1, :_HERE] = (p, p_low, s, s_low, q, q_low)
        table[i + 1, _HERE] = u
        table[i, _NEXT] = u
    return table, mean, mean_low


class SquaredTables(NamedTuple):
    """Prefix sums, c = e^ε − 1, the total mass W and V."""

    table: Floats
    c: float
    w: float
    v: float


@internal
def _output(t: SquaredTables, r: int, i: int) -> float:
    """The best output for points r+1 … i, measured from the mean, kept between points r and i + 1."""
    p = (t.table[i, _P] - t.table[r, _P]) + (t.table[i, _P + 1] - t.table[r, _P + 1])
    s = (t.table[i, _S] - t.table[r, _S]) + (t.table[i, _S + 1] - t.table[r, _S + 1])
    return float(min(max(t.c * s / (t.w + t.c * max(p, 0.0)), t.table[r, _HERE]), t.table[i, _NEXT]))


@internal
def _cost(t: SquaredTables, r: int, i: int) -> float:
    """The constrained interval cost."""
    left, right = t.table[r], t.table[i]
    p, p_low = add(right[_P], right[_P + 1], -left[_P], -left[_P + 1])
    s, s_low = add(right[_S], right[_S + 1], -left[_S], -left[_S + 1])
    q, q_low = add(right[_Q], right[_Q + 1], -left[_Q], -left[_Q + 1])
    y = min(max(t.c * s / (t.w + t.c * max(p, 0.0)), left[_HERE]), right[_NEXT])
    # The bin's part is q − 2·y·s + y²·p, by Horner's rule.
    part, part_low = times(p, p_low, y)
    part, part_low = add(part, part_low, -2 * s, -2 * s_low)
    part, part_low = times(part, part_low, y)
    part, part_low = add(part, part_low, q, q_low)
    return float(t.v + t.w * y * y + t.c * max(part, 0.0))


register(SquaredTables, _cost, _output)
