"""The best ε-DP channel for a criterion in bias and variance, as a cone program with column generation.

**The variables.** A channel is a matrix of probabilities P[output | label] with a value for each output. In an extreme
point of the set of ε-DP channels, each column takes only two values: it is *likely* from some labels, with a
probability t, and *unlikely* from the others, with e^−ε·t. So a channel is a list of columns, each with a *pattern*
(the set of likely labels), a scale t and an output o. Two columns with the same pattern can be merged at their mean
output without increasing E[ŷ²], because squares are convex. That leaves one pair of variables per pattern: t, and r =
t·o.

**The program.** Row sums and means are linear in t and r. The second moment E[ŷ²] is a weighted sum of the terms r²/t, each of
which is a rotated second-order cone: q·t ≥ r². The outputs are continuous variables, so no grid of outputs is needed.

**The patterns.** m anchors have 2^m patterns. The program starts with the m(m+1)/2 intervals of anchors and solves.
Then it finds the patterns with a negative reduced cost from the dual solution (`DualSolution` has a closed form), adds
them and solves again. It stops when all reduced costs are nonnegative, after 30 rounds, when the solver fails, or,
without bias, when three rounds in a row gained nothing.

**What is proven.** The result is optimal among all ε-DP channels on these anchors, up to the gap between its criterion
and `Channel.dual.lower_bound()`. Of 200 random priors with 3 to 39 labels, some with masses of 1e-12, four had a gap
above 1e-6 and none above 5e-5. More rounds closed those gaps without changing the criterion, so the channel was optimal
and only its proof was incomplete. Intervals alone were optimal in every unbiased design that we tried. If only the
visible part of the bias counts, other patterns gain up to about half a percent.

**The cost.** Row i of the equations differs from row i − 1 only for the patterns that begin or end there, so differences of
rows are sparse. Clarabel solves 100 anchors in about half a second and 401 in about 20 seconds on one core.

**The certificate** (linear programming duality). The program is solved over some patterns of likely labels. Its dual
solution also applies to every other pattern. Anchor i has mass p_i; u_i is the dual price of the equation "row i sums
to one", v_i is the dual price of "row i has this mean", and w is the weight of E[ŷ²]. A column with output z adds to
row i its scale times s_i, where s_i is 1 if the column is likely from anchor i and e^−ε if it is not. So the reduced
cost of the column, per unit of its scale, is

    Σ_i s_i·c_i(z)   with   c_i(z) = w·p_i·z² − v_i·z − u_i.

For a given z the pattern {i : c_i(z) < 0} has the least reduced cost, which is

    g(z) = Σ_i c_i(z)·(1 if c_i(z) < 0, else e^−ε).

Between two neighbouring zeros of the c_i, g is a single quadratic. So its minimum over all outputs z, and with that over all
possible columns, can be computed exactly.

- If g is nowhere negative, the dual solution is feasible for the program with all patterns, and by weak duality its value
  bounds the criterion of every ε-DP channel from below.
- If g is negative somewhere, the patterns there are the ones to add. A bound is still available: replace u by u − δ·p
  with the least δ that makes g nonnegative. The columns of a channel have total probability one, Σ_columns scale·Σ_i
  s_i·p_i = 1, so this lowers the bound by exactly δ.

**Other losses.** `unbiased_channel_on_outputs` is a linear program over a given set of outputs, for any loss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import LabelDPError
from labeldp.linear_algebra import eigh, least_squares

if TYPE_CHECKING:
    from labeldp.losses import Loss

Patterns = NDArray[np.bool_]
"""The anchors from which outputs are likely: one row per anchor, one column per pattern."""

_HALVINGS = 30
_TOLERANCE = 1e-8
_LEAST_MASS = 1e-12

Block = tuple[NDArray[np.intp], NDArray[np.intp], Floats]
"""Rows, columns and values of the entries of a sparse matrix."""
_NEGLIGIBLE = (1e-6, 1e-8, 1e-10, 0.0)
"""Columns with a scale below this are zeros of an interior-point solver and are left out. If the other columns cannot form a
channel, the next smaller threshold is tried."""
_ROW_ERROR = 1e-11
_ROUNDS = 30
_IDLE_ROUNDS, _GAIN = 3, 1e-7
"""The search for an unbiased channel ends after several rounds in a row that neither lower the variance nor raise the
bound by this share. With masses near zero, the solver's error makes useless patterns look like improvements. If bias
counts, a bound may stay the same for longer and still rise later."""
_FLAT_DIRECTION = 1e-9
_VERTEX_ZERO, _VERTEX_ERROR = 1e-12, 1e-9
_UNUSED = 1e-9


@dataclass(frozen=True, eq=False)
class DualSolution:
    """The dual solution of a program, with outputs and anchors scaled so that the anchors go from 0 to 1.

    Attributes
    ----------
    unit : array of float64
        The scaled anchors.
    span : float
        The distance between the first and the last anchor before scaling.
    masses : array of float64
        The probability p of each anchor.
    ratio : float
        The ratio of the probabilities of a likely and an unlikely output: e^ε.
    weight : float
        The weight w of E[ŷ²] in the criterion.
    row_prices, mean_prices : array of float64
        The prices u of the row sums and v of the means.
    bias_term : float
        The contribution of the bias to the dual value.
    """

    unit: Floats
    span: float
    masses: Floats
    ratio: float
    weight: float
    row_prices: Floats
    mean_prices: Floats
    bias_term: float

    def lower_bound(self) -> float:
        """Return a lower bound on the criterion of every ε-DP channel, with labels and outputs measured from the first anchor."""
        value = float(self.row_prices.sum() + self.mean_prices @ self.unit) + self.bias_term
        return (value - self._infeasibility()) * self.span**2

    def improving_patterns(self) -> Patterns:
        """Return the patterns whose columns have a negative reduced cost, beyond a small tolerance; none if the channel is optimal."""
        likely, costs = self._reduced_costs(_TOLERANCE * self.weight * float(self.masses @ self.unit**2))
        return np.unique(likely[costs < 0], axis=0).T

    def _infeasibility(self) -> float:
        """Return the least δ for which u − δ·p is feasible, by bisection."""
        low, high = 0.0, _LEAST_MASS
        if self._reduced_costs(0.0)[1].min() >= 0:
            return 0.0
        while self._reduced_costs(high)[1].min() < 0:
            low, high = high, 4 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._reduced_costs(middle)[1].min() < 0 else (low, middle)
        return high

    def _reduced_costs(self, delta: float) -> tuple[Patterns, Floats]:
        """Return the patterns that are best for some output, and the least reduced cost g of each, with u lowered by `delta`·p."""
        masses = np.maximum(self.masses, _LEAST_MASS)
        square, rows = self.weight * masses, self.row_prices - delta * masses
        discriminant = self.mean_prices**2 + 4 * square * rows
        middle, reach = self.mean_prices / (2 * square), np.sqrt(np.maximum(discriminant, 0)) / (2 * square)
        zeros = np.r_[(middle - reach)[discriminant > 0], (middle + reach)[discriminant > 0], 0.0, 1.0]
        edges = np.unique(zeros)
        edges = np.r_[edges[0] - 1, edges, edges[-1] + 1]
        between = (edges[1:] + edges[:-1])[:, None] / 2
        likely = square * between**2 - self.mean_prices * between - rows < 0
        share = np.where(likely, 1.0, 1 / self.ratio)
        a, b, c = share @ square, share @ self.mean_prices, share @ rows
        best = np.clip(b / (2 * a), edges[:-1], edges[1:])
        return likely, a * best**2 - b * best - c


@dataclass(frozen=True, eq=False)
class Channel:
    """A channel: a distribution over outputs for each anchor.

    Parameters
    ----------
    probabilities : array of float64
        P[output j | anchor i] in row i and column j.
    outputs : array of float64
        The value of each output, in increasing order.
    dual : DualSolution, optional
        The dual solution of the program that found the channel. It bounds how far from optimal the channel can be.
    """

    probabilities: Floats
    outputs: Floats
    dual: DualSolution | None = None


def unbiased_channel(values: Floats, masses: Floats, epsilon: float) -> Channel:
    """Return the unbiased ε-DP channel with the least variance: E[ŷ | y] = y at every anchor, and E[Var(ŷ | y)] is minimal.

    Parameters
    ----------
    values : array of float64
        The anchors y, in increasing order.
    masses : array of float64
        The probability of each.
    epsilon : float
        The guarantee, up to rounding; `integer_channel` makes it exact.

    Returns
    -------
    Channel
        With its dual solution.

    Raises
    ------
    LabelDPError
        If the solver fails.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.design.cone_program import unbiased_channel
    >>> channel = unbiased_channel(np.array([0.0, 1.0, 5.0]), np.array([0.5, 0.3, 0.2]), epsilon=1.0)
    >>> bool(np.abs(channel.probabilities @ channel.outputs - [0, 1, 5]).max() < 1e-6)
    True
    """
    return _best(values, masses, epsilon, weight=1.0, curvature=None, slope=None)


def bias_variance_channel(
    values: Floats, masses: Floats, epsilon: float, *, weight: float, curvature: Floats, slope: Floats
) -> Channel:
    """Return the ε-DP channel that minimises ½ b'Hb + g'b + weight·E[ŷ²], where b is the bias E[ŷ | y] − y at each anchor.

    Any criterion that is quadratic in the means has this form.

    Parameters
    ----------
    values : array of float64
        The anchors y, in increasing order.
    masses : array of float64
        The probability of each.
    epsilon : float
        The guarantee, up to rounding; `integer_channel` makes it exact.
    weight : float
        The weight of the second moment.
    curvature : array of float64
        The matrix H, positive semidefinite.
    slope : array of float64
        The vector g.

    Returns
    -------
    Channel
        With its dual solution.

    Raises
    ------
    LabelDPError
        If the solver fails.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.design.cone_program import bias_variance_channel
    >>> values, masses = np.array([0.0, 1.0, 5.0]), np.array([0.5, 0.3, 0.2])
    >>> curvature, slope = 198 * np.diag(masses), -2 * masses * values  # 100·bias² + variance
    >>> channel = bias_variance_channel(values, masses, 1.0, weight=1.0, curvature=curvature, slope=slope)
    >>> (channel.probabilities @ channel.outputs).round(1).tolist()
    [0.1, 1.0, 4.8]
    """
    channel = _best(values, masses, epsilon, weight=weight, curvature=curvature, slope=slope)
    return channel if channel.outputs.size <= 2 * values.size else _sparser(channel, masses, curvature, slope)


def _sparser(channel: Channel, masses: Floats, curvature: Floats, slope: Floats) -> Channel:
    """Return an equally good channel with fewer outputs, from the columns of this one.

    If several channels are optimal, an interior-point solver returns a mixture of them. Here the means are fixed as far
    as the criterion depends on them, and E[ŷ²] is minimised by a linear program over the scales of the columns. Its
    solution is a vertex, so it has at most one column per equation.
    """
    from scipy.optimize import linprog

    strength, axes = eigh(curvature)
    seen = np.vstack(
        [axes[:, strength > _FLAT_DIRECTION * max(strength[-1], 1e-300)].T, slope / max(np.abs(slope).max(), 1e-300)]
    )
    matrix, outputs = channel.probabilities, channel.outputs
    largest = matrix.max(axis=0)
    reach = np.abs(outputs).max()
    answer = linprog(
        masses @ matrix * (outputs / reach) ** 2 / largest,
        A_eq=np.vstack([matrix, seen @ (matrix * (outputs / reach))]) / largest,
        b_eq=np.r_[np.ones(masses.size), seen @ (matrix @ (outputs / reach))],
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10},
    )
    if answer.status != 0:
        return channel
    kept = answer.x > _VERTEX_ZERO
    sparse = matrix[:, kept] / largest[kept] * answer.x[kept]
    total = sparse.sum(axis=1, keepdims=True)
    # Dropping the zeros changed the row sums by very little. Rounding to integers repairs a change this small.
    if np.abs(total - 1).max() >= _VERTEX_ERROR:
        return channel
    return Channel(sparse / total, outputs[kept], channel.dual)


def _best(values: Floats, masses: Floats, epsilon: float, **criterion: Any) -> Channel:
    """Return the best channel over all patterns, by column generation, with the dual solution that gives the highest lower bound."""
    if values.size == 1:
        return Channel(np.ones((1, 1)), values.copy())
    likely = _intervals(values.size)
    channel, dual, least = _solve(values, masses, epsilon, likely, **criterion)
    highest, best_dual, idle = dual.lower_bound(), dual, 0
    for _ in range(_ROUNDS):
        improving = dual.improving_patterns()
        if not improving.size:
            return replace(channel, dual=dual)
        new = _without(improving, likely)
        if not new.size or (idle == _IDLE_ROUNDS and criterion["curvature"] is None):
            break
        likely = np.hstack([likely, new])
        try:
            channel, dual, value = _solve(values, masses, epsilon, likely, **criterion)
        except LabelDPError:  # the channel of the last round is equally private and nearly as good
            break
        bound = dual.lower_bound()
        gained = max(least - value, bound - highest) > _GAIN * abs(value)
        idle = 0 if gained else idle + 1
        least = min(least, value)
        if bound > highest:
            highest, best_dual = bound, dual
    return replace(channel, dual=best_dual)


def _without(patterns: Patterns, known: Patterns) -> Patterns:
    """Return the new patterns. The solver's error can give a known pattern a negative reduced cost."""
    have = {pattern.tobytes() for pattern in known.T}
    return patterns[:, [pattern.tobytes() not in have for pattern in patterns.T]]


def _solve(
    values: Floats,
    masses: Floats,
    epsilon: float,
    likely: Patterns,
    *,
    weight: float,
    curvature: Floats | None,
    slope: Floats | None,
) -> tuple[Channel, DualSolution, float]:
    """Return the best channel whose columns have the patterns `likely`, its dual solution and its criterion. No curvature means no bias."""
    clarabel: Any = import_module("clarabel")  # compiled, without type stubs
    origin, span = values[0], values[-1] - values[0]
    unit = (values - origin) / span
    anchors, ratio = values.size, float(np.exp(epsilon))
    count = likely.shape[1]
    row, column, entry = _pattern_differences(likely, ratio)
    # Differences of rows are at most 1 − e^−ε, and the outputs of an unbiased channel are of the order of its inverse. In
    # these units the program is equally well scaled for tiny ε.
    reach = 1 / (1 - 1 / ratio)
    scaled = np.where(row > 0, reach, 1.0) * entry
    # The probability of each column with scale one.
    share = np.bincount(column, entry * np.cumsum(masses[::-1])[::-1][row], minlength=count)

    step = np.r_[1.0, np.zeros(anchors - 1)]
    blocks = [(row, column, scaled), _moment_cones(count, 2 * anchors)]
    if curvature is None or slope is None:
        blocks.append((anchors + row, count + column, scaled))
        right = np.r_[step, unit[0] / reach, np.diff(unit)]
        linear = np.r_[np.zeros(2 * count), weight * reach**2 * share]
        curved = np.zeros((0, 0))
    else:
        # On the unit scale E[ŷ²] is taken about the first anchor, which adds a linear term in the bias.
        place = np.arange(anchors)
        blocks += [
            (anchors + row, count + column, entry),
            (anchors + place, 3 * count + place, np.full(anchors, -1.0)),
            (anchors + place[1:], 3 * count + place[:-1], np.ones(anchors - 1)),
        ]
        right = np.r_[step, unit[0], np.diff(unit)]
        pull = (slope + 2 * weight * origin * masses) / span
        linear = np.r_[np.zeros(2 * count), weight * share, pull]
        curved = np.triu(curvature)
    scale = 1 / max(1e-12, np.abs(linear).max())
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_rel, settings.tol_feas = 1e-9, 1e-10
    solution = clarabel.DefaultSolver(
        _last_block(curved * scale, linear.size),
        linear * scale,
        _sparse(blocks, (2 * anchors + 3 * count, linear.size)),
        np.r_[right, np.zeros(3 * count)],
        [clarabel.ZeroConeT(2 * anchors), *[clarabel.SecondOrderConeT(3)] * count],
        settings,
    ).solve()
    if str(solution.status) not in {"Solved", "AlmostSolved"}:
        raise LabelDPError(
            f"the design of a randomizer for {anchors} anchors at epsilon = {epsilon:g} failed ({solution.status}): "
            "try fewer anchors, or a larger epsilon"
        )
    point, multipliers = np.asarray(solution.x), np.asarray(solution.z)[: 2 * anchors].reshape(2, anchors) / scale
    scales, moments = point[:count], point[count : 2 * count]
    multipliers[0, 1:] *= reach
    bias_term = 0.0
    if curvature is None:
        moments = reach * moments
        multipliers[1, 0] /= reach
    # The equations are differences of rows, so the price of a row is a difference of two multipliers.
    row_prices, mean_prices = (np.append(np.diff(m), -m[-1]) for m in multipliers)
    if curvature is not None:
        bias = point[3 * count :]
        mean_prices, bias_term = -(pull + curvature @ bias), -0.5 * float(bias @ curvature @ bias)
    channel = _channel(likely, scales, moments, ratio, origin, span)
    dual = DualSolution(unit, span, masses, ratio, weight, row_prices, mean_prices, bias_term)
    return channel, dual, solution.obj_val / scale * span**2


def _intervals(anchors: int) -> Patterns:
    """Return all intervals of anchors. The last one contains all anchors: its output is equally likely from every label."""
    first, last = np.triu_indices(anchors)
    place = np.arange(anchors)[:, None]
    likely = (place >= first) & (place <= last)
    whole = likely.all(axis=0)
    return np.hstack([likely[:, ~whole], likely[:, whole]])


def _pattern_differences(likely: Patterns, ratio: float) -> Block:
    """Return the first row of the patterns, then the difference of each row from the one before. Likely is 1, unlikely is e^−ε."""
    steps = np.diff(likely.astype(np.int8), axis=0)
    row, column = np.nonzero(steps)
    count = likely.shape[1]
    return (
        np.r_[np.zeros(count, np.intp), row + 1],
        np.r_[np.arange(count), column],
        np.r_[np.where(likely[0], 1.0, 1 / ratio), steps[row, column] * (1 - 1 / ratio)],
    )


def _moment_cones(count: int, first: int) -> Block:
    """Return the rows (q + t, 2r, q − t) of each column, from row `first` on. They are in Clarabel's second-order cone iff q·t ≥ r²."""
    place = np.arange(count)
    row = first + 3 * place
    t, r, q = place, count + place, 2 * count + place
    return (
        np.concatenate([row, row, row + 1, row + 2, row + 2]),
        np.concatenate([t, q, r, t, q]),
        np.repeat([-1.0, -1.0, -2.0, 1.0, -1.0], count),
    )


class _Columns(NamedTuple):
    """What Clarabel reads of a `scipy.sparse.csc_matrix`. Importing `scipy.sparse` takes as long as a third of a small release."""

    data: Floats
    indices: NDArray[np.intp]
    indptr: NDArray[np.intp]
    shape: tuple[int, int]
    has_canonical_format: bool = True


def _sparse(blocks: list[Block], shape: tuple[int, int]) -> _Columns:
    """Return the matrix with these entries. No two of them have the same row and column."""
    row, column, entry = (np.concatenate(part) for part in zip(*blocks, strict=True))
    order = np.lexsort((row, column))
    ends = np.cumsum(np.bincount(column, minlength=shape[1]))
    return _Columns(entry[order], row[order], np.r_[0, ends], shape)


def _last_block(corner: Floats, size: int) -> _Columns:
    """Return a matrix of this size that is zero except in its last rows and columns."""
    row, column = np.nonzero(corner)
    before = size - corner.shape[0]
    return _sparse([(before + row, before + column, corner[row, column])], (size, size))


def _channel(likely: Patterns, scales: Floats, moments: Floats, ratio: float, origin: float, span: float) -> Channel:
    """Return the channel of the columns with a positive scale, corrected so that every row sums to one to machine precision."""
    for negligible in _NEGLIGIBLE:
        used = scales > negligible
        patterns = np.where(likely[:, used], 1.0, 1 / ratio)
        scale, output = scales[used], moments[used] / scales[used]
        for _ in range(3):
            weighted = patterns * scale
            scale = scale * (1 + least_squares(weighted, 1 - weighted.sum(axis=1), rcond=1e-13))
        matrix = patterns * scale
        if (scale > 0).all() and np.abs(matrix.sum(axis=1) - 1).max() < _ROW_ERROR:
            order = np.argsort(output, kind="stable")
            return Channel(matrix[:, order], origin + span * output[order])
    raise LabelDPError("the solver's answer could not be turned into a channel: try fewer anchors, or a larger epsilon")


def unbiased_channel_on_outputs(values: Floats, masses: Floats, epsilon: float, loss: Loss, outputs: Floats) -> Channel:
    """Return the unbiased ε-DP channel with the least expected loss among the channels that use only `outputs`, by HiGHS.

    The matrix is written as M[i, j] = t_j + (e^ε − 1)·z_ij with 0 ≤ z_ij ≤ t_j, so that privacy takes one inequality
    per entry. There are O(k·m) of them, which is practical for tens of labels and a few hundred outputs.

    Parameters
    ----------
    values : array of float64
        The labels, in increasing order.
    masses : array of float64
        The probability of each.
    epsilon : float
        The guarantee, up to rounding; `integer_channel` makes it exact.
    loss : Loss
        The loss whose expectation to minimise.
    outputs : array of float64
        The outputs to choose from, in increasing order.

    Returns
    -------
    Channel
        With the outputs that it uses.

    Raises
    ------
    LabelDPError
        If no unbiased channel uses only these outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.losses import get_loss
    >>> from labeldp.design.cone_program import unbiased_channel_on_outputs
    >>> values, masses = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    >>> channel = unbiased_channel_on_outputs(values, masses, np.log(3), get_loss("squared"), np.array([-0.5, 0.5, 1.5]))
    >>> channel.outputs.tolist(), channel.probabilities.round(6).tolist()
    ([-0.5, 1.5], [[0.75, 0.25], [0.25, 0.75]])
    """
    import scipy.sparse as sp
    from scipy.optimize import linprog

    labels, size, gain = values.size, outputs.size, float(np.expm1(epsilon))
    entry = np.arange(labels * size)
    row, column = entry // size, entry % size
    cost = masses[:, None] * loss(outputs[None, :], values[:, None])
    span = values[-1] - values[0]
    unit = (outputs - values[0]) / span
    private = sp.csr_matrix(
        (np.r_[np.ones(entry.size), -np.ones(entry.size)], (np.r_[entry, entry], np.r_[size + entry, column])),
        shape=(entry.size, size + entry.size),
    )
    total = sp.hstack([np.ones((labels, size)), sp.csr_matrix((np.full(entry.size, gain), (row, entry)))])
    mean = sp.hstack([np.tile(unit, (labels, 1)), sp.csr_matrix((gain * unit[column], (row, entry)))])
    largest_cost = float(np.abs(cost).max()) or 1.0  # a loss of 0 everywhere
    answer = linprog(
        np.r_[cost.sum(axis=0), gain * cost.ravel()] / largest_cost,
        A_ub=private,
        b_ub=np.zeros(entry.size),
        A_eq=sp.vstack([total, mean]).tocsr(),
        b_eq=np.r_[np.ones(labels), (values - values[0]) / span],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.status != 0:
        raise LabelDPError(
            f"no unbiased channel was found on {size} outputs: {answer.message}. Give outputs over a wider range."
        )
    scales = answer.x[:size]
    used = scales > _UNUSED
    channel = scales[used] + gain * np.clip(answer.x[size:].reshape(labels, size)[:, used], 0, scales[used])
    return Channel(channel / channel.sum(axis=1, keepdims=True), outputs[used])
