"""Step costs of squared, pinball and Huber loss, of Poisson and gamma deviance, and of any loss over a finite set of candidate outputs.

**Squared distance**, from prefix sums in double-double in O(1). With labels measured from the prior's mean,
`Σ_all p(ŷ − y)² = V + W·ŷ²`, where W is the total mass and V the variance times W. The sums of p, p·y and p·y² over any prefix are
bounded by W, √(V·W) and V. So regardless of the masses, the rounding errors of a bin's part are below `c·10⁻³¹` of that cost.

**Absolute and pinball loss**: a weighted quantile, by bisection on prefix sums in O(log k). The best output is always a label. Labels
are measured from the prior's own quantile, which gives the same bound (docs/concepts/optimal-bins.md, "Numbers").

**Huber loss**: the zero of an increasing, piecewise linear derivative, by bisection in O(log k). The derivative of `Σ weight·ℓ(ŷ, y)`
changes its slope only at the *knots*, the labels ± δ. Labels are measured from the prior's median. Prefix sums of p, p·y and p·y²
give the derivative and the cost at any output.

**Candidate outputs**: a step from output u to the next chosen output v costs `G(v) + c·H(u, v)`. G is the loss of all labels at v. H is
the loss of the labels between u and v, each at the better of the two. Losses are cumulated outwards from each output, so that H is
a sum of two stored numbers and nothing is subtracted.

**Deviance**, from a disjoint sparse table in O(1). Prefix sums would contain y·log y, and their differences lose every digit
for labels near 10⁹ that differ by 1. So nothing is subtracted here. A run of neighbouring points is summarised by its mass P,
its mean m and its information Σ p·d(y, m), where d is the unit deviance. Two neighbouring runs merge by

    information = information₁ + information₂ + P₁·d(m₁, m) + P₂·d(m₂, m),

which has only positive terms. The table stores runs that end or begin at certain points, the *middles* of each level,
so that every interval of points is the merger of two stored runs that meet at a middle. Its level is the highest bit
where the indices of the interval's ends differ. Means are stored as pairs, measured from the middle. Memory is
32·k·⌈log₂ k⌉ bytes.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.design._search import (
    add,
    compiled,
    internal,
    product,
    quotient,
    register,
    times,
    two_product,
    two_sum,
)
from labeldp.losses.standard import NEAR, log_series

# Columns of the tables. Each row holds sums (pairs) of p, p·y and p·y² up to point i, then:
_P, _S, _Q = 0, 2, 4
_HERE, _NEXT, _SQUARED_COLUMNS = 6, 7, 8  # points i and i + 1; one cache line
# instead of p·y²: the loss of all labels at point i, and point i as a pair; one cache line
_ALL, _U, _PINBALL_COLUMNS = 4, 5, 8
_HUBER_COLUMNS = 6
Counts = npt.NDArray[np.int64]


@internal
def _share(table: Floats, column: int, r: int, i: int) -> float:
    """Return the sum of a column over points r+1 … i, as a plain double."""
    return float((table[i, column] - table[r, column]) + (table[i, column + 1] - table[r, column + 1]))


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
    table = np.zeros((k + 1, _SQUARED_COLUMNS))
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
def _squared_output(t: SquaredTables, r: int, i: int) -> float:
    """Return the best output for points r+1 … i, measured from the mean, kept between points r and i + 1."""
    p, s = _share(t.table, _P, r, i), _share(t.table, _S, r, i)
    return float(min(max(t.c * s / (t.w + t.c * max(p, 0.0)), t.table[r, _HERE]), t.table[i, _NEXT]))


@internal
def _squared_cost(t: SquaredTables, r: int, i: int) -> float:
    """Return the constrained interval cost."""
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


register(SquaredTables, _squared_cost, _squared_output)


@compiled
def pinball_table(values: Floats, masses: Floats, anchor: int, under: float, over: float) -> Floats:
    """Prefix sums of the labels measured from point `anchor`, and the loss of all labels at each of them."""
    k = values.size
    table = np.zeros((k + 1, _PINBALL_COLUMNS))
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
    """Return Σ p·(y_j − y) over points r+1 … i, all at or below point j."""
    return max(_signed(table, r, i, j), 0.0)


@internal
def _above(table: Floats, r: int, i: int, j: int) -> float:
    """Return Σ p·(y − y_j) over points r+1 … i, all at or above point j."""
    return max(-_signed(table, r, i, j), 0.0)


@internal
def _signed(table: Floats, r: int, i: int, j: int) -> float:
    """Return Σ p·(y_j − y) over points r+1 … i, on either side of point j."""
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
    """Return the smallest point in r … i + 1 where "all labels plus c times the bin" reaches its quantile."""
    share = t.c * _share(t.table, _P, r, i)
    target = t.under / (t.under + t.over) * (t.w + share)
    if r > 0 and t.below[r] >= target:
        return r
    if i + 1 < t.below.size and t.below[i] + share < target:
        return i + 1
    # P_j + c·(P_j − P_r) ≥ target, solved for P_j. A search in plain doubles is nearly always right. If not, it is
    # repeated exactly.
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
    """Return whether "all labels plus c times the bin" reaches the target at point j."""
    return bool(t.below[j] + t.c * _share(t.table, _P, r, j) >= target)


@internal
def _pinball_output(t: PinballTables, r: int, i: int) -> float:
    return float(_best_point(t, r, i))


@internal
def _pinball_cost(t: PinballTables, r: int, i: int) -> float:
    """Return the constrained interval cost."""
    j = _best_point(t, r, i)
    inner = min(j, i)
    part = t.over * _below(t.table, r, inner, j) + t.under * _above(t.table, inner, i, j)
    return float(t.table[j, _ALL] + t.c * part)


register(PinballTables, _pinball_cost, _pinball_output)


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
    table, points = np.zeros((k + 1, _HUBER_COLUMNS)), np.empty(k)
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
def _slope(t: HuberTables, knot: int, r: int, i: int) -> float:
    """Return the derivative at a knot of the loss of points r+1 … i."""
    first = min(max(t.below[knot], r), i)
    last = min(max(t.reach[knot], r), i)
    near = _share(t.table, _P, first, last) * t.knots[knot] - _share(t.table, _S, first, last)
    return float(near + t.delta * (_share(t.table, _P, r, first) - _share(t.table, _P, last, i)))


@internal
def _derivative(t: HuberTables, knot: int, r: int, i: int) -> float:
    return _slope(t, knot, 0, t.points.size) + t.c * _slope(t, knot, r, i)


@internal
def _huber_output(t: HuberTables, r: int, i: int) -> float:
    """Return the best output for points r+1 … i, measured from the anchor, kept between points r and i + 1."""
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
    """Return the zero of the derivative between two neighbouring knots, from its coefficients there.

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
    """Return the loss of points r+1 … i at an output."""
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
    """Return Σ p·(output − y) over points r+1 … i."""
    p, p_low = add(table[i, _P], table[i, _P + 1], -table[r, _P], -table[r, _P + 1])
    high, low = times(p, p_low, output)
    high, low = add(high, low, -table[i, _S], -table[i, _S + 1])
    high, low = add(high, low, table[r, _S], table[r, _S + 1])
    return float(high + low)


@internal
def _huber_cost(t: HuberTables, r: int, i: int) -> float:
    """Return the constrained interval cost."""
    output = _huber_output(t, r, i)
    return _loss(t, 0, t.points.size, output) + t.c * _loss(t, r, i, output)


register(HuberTables, _huber_cost, _huber_output)


@compiled
def outward_sums(losses: Floats, masses: Floats, split: Counts) -> Floats:
    """Return for each output the sums of p·ℓ upwards over the labels above it, and downwards over the labels at or below it."""
    m, k = losses.shape
    sums = np.empty((m, k))
    for o in range(m):
        first = split[o]
        total = 0.0
        for i in range(first, k):
            total += masses[i] * losses[o, i]
            sums[o, i] = total
        total = 0.0
        for i in range(first - 1, -1, -1):
            total += masses[i] * losses[o, i]
            sums[o, i] = total
    return sums


class CandidateTables(NamedTuple):
    """The losses and their outward sums (outputs × labels), G, the number of labels at or below each output, and c = e^ε − 1."""

    losses: Floats
    sums: Floats
    everything: Floats
    split: Counts
    c: float


@internal
def _candidate_cost(t: CandidateTables, u: int, v: int) -> float:
    """Return the cost of the step from node u to node v. Node 0 is the start and node m + 1 the end; neither is an output."""
    m, k = t.losses.shape
    low = t.split[u - 1] if u > 0 else 0
    if v == m + 1:
        if u == 0:
            return math.inf
        return float(t.c * t.sums[u - 1, k - 1]) if low < k else 0.0
    high = t.split[v - 1]
    if u == 0:
        return float(t.everything[v - 1] + (t.c * t.sums[v - 1, 0] if high > 0 else 0.0))
    first, last = low - 1, high  # the first label that loses less at v than at u, by bisection
    while last - first > 1:
        middle = (first + last) >> 1
        if t.losses[u - 1, middle] > t.losses[v - 1, middle]:
            last = middle
        else:
            first = middle
    part = t.sums[u - 1, last - 1] if last > low else 0.0
    if last < high:
        part += t.sums[v - 1, last]
    return float(t.everything[v - 1] + t.c * part)


@internal
def _candidate_output(t: CandidateTables, u: int, v: int) -> float:  # noqa: ARG001 - the node itself is the output
    return float(v)


register(CandidateTables, _candidate_cost, _candidate_output)


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
