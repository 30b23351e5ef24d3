"""Interval costs of absolute and pinball loss: a weighted quantile, by bisection on prefix sums in O(log k).

The best output is always a label. Labels are measured from the prior's own quantile, so that the rounding errors of a bin's part
stay below `c·10⁻³¹` of the cost, whatever the masses (docs/concepts/optimal-bins.md, "Numbers").
"""

from typing import NamedTuple

import numpy as np

from labeldp.arrays import Floats
from labeldp.binning._compiled import compiled, internal, register
from labeldp.binning._double_double import add, product, times, two_sum

# Sums of p and p·y (pairs) up to point i, the loss of all labels at point i, point i as a pair; one cache line.
_P, _S, _ALL, _U, _COLUMNS = 0, 2, 4, 5, 8


@compiled
def pinball_table(values: Floats, masses: Floats, anchor: int, under: float, over: float) -> Floats:
    """Prefix sums of the labels measured from point `anchor`, and the loss of all labels at each of them."""
    k = values.size
    table = np.zeros((k + 1, _COLUMNS))
    p, p_low, s, s_low = 0.0, 0.0, 0.0, 0.0
    for i in range(k):
        u, u_low = two_sum(values[i], -values[anchor])
        p, p_low = add(p, p_low, masses[i], 0.0)
        high, low = times(u, u_low, masses[i])
        s, s_low = add(s, s_low, high, low)
        table[i + 1, :_ALL] = (p, p_low, s, s_low)
        table[i + 1, _U] = u
        table[i + 1, _U + 1] = u_low
    for j in range(1, k + 1):
        table[j, _ALL] = over * _below(table, 0, j, j) + under * _above(table, j, k, j)
    return table


@internal
def _below(table: Floats, r: int, i: int, j: int) -> float:
    """Σ p·(y_j − y) over points r+1 … i, all at or below point j."""
    return max(_signed(table, r, i, j), 0.0)


@internal
def _above(table: Floats, r: int, i: int, j: int) -> float:
    """Σ p·(y − y_j) over points r+1 … i, all at or above point j."""
    return max(-_signed(table, r, i, j), 0.0)


@internal
def _signed(table: Floats, r: int, i: int, j: int) -> float:
    """Σ p·(y_j − y) over points r+1 … i, on either side of point j."""
    p, p_low = add(table[i, _P], table[i, _P + 1], -table[r, _P], -table[r, _P + 1])
    high, low = product(p, p_low, table[j, _U], table[j, _U + 1])
    high, low = add(high, low, -table[i, _S], -table[i, _S + 1])
    high, low = add(high, low, table[r, _S], table[r, _S + 1])
    return float(high)


class PinballTables(NamedTuple):
    """Prefix sums, the prefix sums of the masses as plain doubles, c = e^ε − 1, the total mass W and the two slopes."""

    table: Floats
    below: Floats
    c: float
    w: float
    under: float
    over: float


@internal
def _best_point(t: PinballTables, r: int, i: int) -> int:
    """The smallest point in r … i + 1 where "all labels plus c times the bin" reaches its quantile."""
    share = t.c * _share(t.table, r, i)
    target = t.under / (t.under + t.over) * (t.w + share)
    if r > 0 and t.below[r] >= target:
        return r
    if i + 1 < t.below.size and t.below[i] + share < target:
        return i + 1
    # P_j + c·(P_j − P_r) ≥ target, solved for P_j. A search in plain doubles is nearly always right; otherwise repeat it exactly.
    mark = (target + t.c * t.below[r]) / (1 + t.c)
    low, high = r, i
    while high - low > 1:
        middle = (low + high) >> 1
        if t.below[middle] >= mark:
            high = middle
        else:
            low = middle
    if (high == i or _reaches(t, r, high, target)) and (low == r or not _reaches(t, r, low, target)):
        return high
    low, high = r, i
    while high - low > 1:
        middle = (low + high) >> 1
        if _reaches(t, r, middle, target):
            high = middle
        else:
            low = middle
    return high


@internal
def _reaches(t: PinballTables, r: int, j: int, target: float) -> bool:
    """Whether "all labels plus c times the bin" reaches the target at point j."""
    return bool(t.below[j] + t.c * _share(t.table, r, j) >= target)


@internal
def _share(table: Floats, r: int, i: int) -> float:
    """The mass of points r+1 … i."""
    return float((table[i, _P] - table[r, _P]) + (table[i, _P + 1] - table[r, _P + 1]))


@internal
def _output(t: PinballTables, r: int, i: int) -> float:
    return float(_best_point(t, r, i))


@internal
def _cost(t: PinballTables, r: int, i: int) -> float:
    """The constrained interval cost."""
    j = _best_point(t, r, i)
    inner = min(j, i)
    part = t.over * _below(t.table, r, inner, j) + t.under * _above(t.table, inner, i, j)
    return float(t.table[j, _ALL] + t.c * part)


register(PinballTables, _cost, _output)
