"""The best ε-DP channel for a criterion in bias and variance, as a cone program over interval patterns.

Each output of an ε-DP channel is likely from some labels and unlikely from the others, and in an extreme channel "likely"
is exactly e^ε times "unlikely". So a channel is a list of columns: a *pattern* (which labels are likely), a scale t and an
output o. Two columns of one pattern are never worse merged at their mean output, because squares are convex, so there is
one variable pair (t, r = t·o) per pattern and the second moment is a sum of terms r²/t, each a second-order cone. In every
optimum that we have examined the patterns are intervals of labels (tests compare with linear programs over all
patterns), so m anchors give m(m+1)/2 columns and no output grid is needed.

Row i of the equations differs from row i − 1 only for intervals that begin or end there; written as differences they are
sparse. Clarabel solves 100 anchors in about half a second and 401 in about 20 on one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.errors import LabelDPError

_NEGLIGIBLE = (1e-6, 1e-8, 1e-10, 0.0)
"""Columns less probable than this, even from their likely labels, are the solver's traces of zero and left out.
The next threshold is tried where the columns left cannot form a channel."""
_ROW_ERROR = 1e-11
_UNSEEN = 1e-9
_VERTEX_ZERO, _VERTEX_ERROR = 1e-12, 1e-9


@dataclass(frozen=True, eq=False)
class Columns:
    """A channel: P[output j | anchor i] = `probabilities[i, j]`, with the value `outputs[j]`, in increasing order."""

    probabilities: Floats
    outputs: Floats

    def second_moment(self, masses: Floats) -> float:
        """E[ŷ²]."""
        return float(masses @ self.probabilities @ self.outputs**2)


def least_variance(values: Floats, masses: Floats, epsilon: float) -> Columns:
    """The ε-DP channel of least E[Var(ŷ | y)] with E[ŷ | y] = y at every anchor."""
    return _solve(values, masses, epsilon, weight=1.0, curvature=None, slope=None)


def least_penalty(
    values: Floats, masses: Floats, epsilon: float, *, weight: float, curvature: Floats, slope: Floats
) -> Columns:
    """The ε-DP channel that minimises ½ b'Hb + g'b + weight·E[ŷ²], b its bias E[ŷ | y] − y at each anchor.

    `curvature` H must be positive semidefinite; any quadratic criterion in the means has this form.
    """
    columns = _solve(values, masses, epsilon, weight=weight, curvature=curvature, slope=slope)
    if columns.outputs.size <= 2 * values.size:
        return columns
    return _sparser(columns, masses, curvature, slope)


def _sparser(columns: Columns, masses: Floats, curvature: Floats, slope: Floats) -> Columns:
    """As good a channel with few outputs: a vertex of the channels with these columns and the same criterion.

    Where the criterion leaves freedom, an interior-point answer mixes everything that is optimal. What the criterion
    sees of the means is fixed, E[ŷ²] is minimised, and a vertex has no more columns than there are equations.
    """
    from scipy.optimize import linprog

    strength, axes = np.linalg.eigh(curvature)
    seen = np.vstack(
        [axes[:, strength > _UNSEEN * max(strength[-1], 1e-300)].T, slope / max(np.abs(slope).max(), 1e-300)]
    )
    channel, outputs = columns.probabilities, columns.outputs
    largest = channel.max(axis=0)
    reach = np.abs(outputs).max()
    answer = linprog(
        masses @ channel * (outputs / reach) ** 2 / largest,
        A_eq=np.vstack([channel, seen @ (channel * (outputs / reach))]) / largest,
        b_eq=np.r_[np.ones(masses.size), seen @ (channel @ (outputs / reach))],
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10},
    )
    if answer.status != 0:
        return columns
    kept = answer.x > _VERTEX_ZERO
    sparse = channel[:, kept] / largest[kept] * answer.x[kept]
    total = sparse.sum(axis=1, keepdims=True)
    # What the solver took for zero is gone; a relative change this small is mended when the table is made of integers.
    return Columns(sparse / total, outputs[kept]) if np.abs(total - 1).max() < _VERTEX_ERROR else columns


def _solve(
    values: Floats, masses: Floats, epsilon: float, *, weight: float, curvature: Floats | None, slope: Floats | None
) -> Columns:
    if values.size == 1:
        return Columns(np.ones((1, 1)), values.copy())
    import scipy.sparse as sp

    clarabel: Any = import_module("clarabel")  # compiled, without type stubs
    origin, span = values[0], values[-1] - values[0]
    unit = (values - origin) / span
    anchors, ratio = values.size, float(np.exp(epsilon))
    first, last = _intervals(anchors)
    count = first.size
    equations = _pattern_differences(first, last, anchors, ratio)
    likely = np.r_[0.0, np.cumsum(masses)]
    share = masses.sum() / ratio + (1 - 1 / ratio) * (likely[last + 1] - likely[first])

    none = sp.csc_matrix((anchors, count))
    step = np.r_[1.0, np.zeros(anchors - 1)]
    if curvature is None or slope is None:
        rows = [sp.hstack([equations, none, none]), sp.hstack([none, equations, none])]
        right = np.r_[step, unit[0], np.diff(unit)]
        quadratic, linear = sp.csc_matrix((3 * count, 3 * count)), np.r_[np.zeros(2 * count), weight * share]
    else:
        # Everything on the unit scale, where E[ŷ²] is taken about the origin; that makes another linear term.
        differences = sp.eye(anchors) - sp.eye(anchors, k=-1)
        empty = sp.csc_matrix((anchors, anchors))
        rows = [sp.hstack([equations, none, none, empty]), sp.hstack([none, equations, none, -differences])]
        right = np.r_[step, unit[0], np.diff(unit)]
        quadratic = sp.block_diag([sp.csc_matrix((3 * count, 3 * count)), sp.csc_matrix(np.triu(curvature))], "csc")
        pull = (slope + 2 * weight * origin * masses) / span
        linear = np.r_[np.zeros(2 * count), weight * share, pull]
    cones = _moment_cones(count)
    if cones.shape[1] < linear.size:
        cones = sp.hstack([cones, sp.csc_matrix((3 * count, linear.size - cones.shape[1]))])
    scale = 1 / max(1e-12, np.abs(linear).max())
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_rel, settings.tol_feas = 1e-9, 1e-10
    solution = clarabel.DefaultSolver(
        sp.csc_matrix(quadratic * scale),
        linear * scale,
        sp.vstack([*rows, cones]).tocsc(),
        np.r_[right, np.zeros(3 * count)],
        [clarabel.ZeroConeT(2 * anchors), *[clarabel.SecondOrderConeT(3)] * count],
        settings,
    ).solve()
    if str(solution.status) not in {"Solved", "AlmostSolved"}:
        raise LabelDPError(
            f"the design of a randomizer for {anchors} anchors at epsilon = {epsilon:g} failed ({solution.status}): "
            "try fewer anchors"
        )
    point = np.asarray(solution.x)
    return _columns(first, last, point[:count], point[count : 2 * count], anchors, ratio, origin, span)


def _intervals(anchors: int) -> tuple[Any, Any]:
    """Ends of all intervals of anchors. The last one, all of them, is the output that is as likely from every label."""
    first, last = np.triu_indices(anchors)
    whole = (first == 0) & (last == anchors - 1)
    return np.r_[first[~whole], 0], np.r_[last[~whole], anchors - 1]


def _pattern_differences(first: Any, last: Any, anchors: int, ratio: float) -> Any:
    """Row 0 of the patterns, then each row less the one before. Likely is 1 and unlikely e^−ε, to keep numbers tame."""
    import scipy.sparse as sp

    column = np.arange(first.size)
    start, low = first == 0, 1 / ratio
    begins, ends = first > 0, last < anchors - 1
    rows = np.r_[np.zeros(first.size, int), first[begins], last[ends] + 1]
    columns = np.r_[column, column[begins], column[ends]]
    entries = np.r_[np.where(start, 1.0, low), np.full(begins.sum(), 1 - low), np.full(ends.sum(), low - 1)]
    return sp.csc_matrix((entries, (rows, columns)), shape=(anchors, first.size))


def _moment_cones(count: int) -> Any:
    """Rows of (q + t, 2r, q − t) for each column: q·t ≥ r² as Clarabel's cones s = −A·(t, r, q)."""
    import scipy.sparse as sp

    one, zero = sp.eye(count, format="csr"), sp.csr_matrix((count, count))
    blocks = [sp.hstack([-one, zero, -one]), sp.hstack([zero, -2 * one, zero]), sp.hstack([one, zero, -one])]
    order = np.arange(3 * count).reshape(3, count).T.ravel()
    return sp.vstack(blocks).tocsr()[order]


def _columns(
    first: Any, last: Any, scales: Floats, moments: Floats, anchors: int, ratio: float, origin: float, span: float
) -> Columns:
    """The columns that matter, their scales corrected so that every row sums to one to machine precision."""
    place = np.arange(anchors)[:, None]
    for negligible in _NEGLIGIBLE:
        used = scales > negligible
        patterns = np.where((place >= first[used]) & (place <= last[used]), 1.0, 1 / ratio)
        scale, output = scales[used], moments[used] / scales[used]
        for _ in range(3):
            weighted = patterns * scale
            scale = scale * (1 + np.linalg.lstsq(weighted, 1 - weighted.sum(axis=1), rcond=1e-13)[0])
        channel = patterns * scale
        if (scale > 0).all() and np.abs(channel.sum(axis=1) - 1).max() < _ROW_ERROR:
            order = np.argsort(output, kind="stable")
            return Columns(channel[:, order], origin + span * output[order])
    raise LabelDPError("the design of a randomizer ended at a point that could not be repaired: try fewer anchors")
