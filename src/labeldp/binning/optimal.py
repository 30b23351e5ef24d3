"""The best bins for a prior, a loss and ε, exactly, in O(k log k). The algorithm and its proof: docs/optimal-bins.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.binning.bins import Bins
from labeldp.budget import Epsilon, exact_epsilon, float_up
from labeldp.errors import InvalidInput
from labeldp.losses import Loss, get_loss

if TYPE_CHECKING:
    from labeldp.binning._problem import Problem

TABLE_LIMIT = 20_000_000
"""Losses without a structure need labels × candidate outputs of at most this."""

_GRID = 1000
_DIRECT = 20_000_000
_STEPS = 200
_SAMPLE = 4000


class HasPrior(Protocol):
    """A distribution on labels: increasing values and their masses."""

    @property
    def values(self) -> Floats: ...
    @property
    def masses(self) -> Floats: ...


def optimal_bins(
    prior: HasPrior,
    epsilon: Epsilon,
    loss: str | Loss | Callable[[Any, Any], Any] = "squared",
    *,
    outputs: npt.ArrayLike | None = None,
) -> Bins:
    """The bins whose randomized response has the least expected loss of all ε-DP mechanisms for this prior.

    Guarantee: for named losses no ε-DP mechanism on these labels does better (up to rounding, about 1e-12 relative). For
    callables, and where `outputs` names the outputs to choose from, no mechanism with outputs in that set does better;
    callables without `outputs` choose from the labels and an even grid over their range.

    Complexity: O(k log k) time and O(k) memory for squared and squared-log loss, one more factor log k in time for absolute,
    pinball and Huber, in memory for Poisson and gamma. Choosing among m outputs takes O(k·m) of both, at most 2·10⁷.

    Ties: the first of equally good partitions that the search meets, the smallest minimiser of each bin. Labels of mass zero
    have no say; they belong to the output where they lose least.
    """
    budget = float(exact_epsilon(epsilon))
    rule = get_loss(loss)
    values, masses = _support(prior, rule)
    rule.check_assumption(values)
    problem = _problem(values, masses, math.expm1(budget), rule, outputs)
    path, cost = _least_ratio(problem, math.exp(budget))
    chosen = _distinct(problem.outputs(path), values, outputs)
    thresholds = rule.threshold(chosen[:-1], chosen[1:])
    merged = chosen.size < problem.bins(path)
    if merged or chosen.size * values.size <= _DIRECT:
        owned = chosen[np.searchsorted(thresholds, values, side="left")]
        expected = _expected_loss((values, masses), chosen, owned, budget, rule)
    else:
        expected = cost * problem.cost_unit / float(masses.sum()) / (math.exp(budget) + problem.bins(path) - 1)
    return Bins(chosen, thresholds, expected, rule.name, float_up(exact_epsilon(epsilon)))


def _support(prior: HasPrior, loss: Loss) -> tuple[Floats, Floats]:
    values = np.ascontiguousarray(prior.values, dtype=np.float64)
    masses = np.ascontiguousarray(prior.masses, dtype=np.float64)
    if values.ndim != 1 or values.shape != masses.shape:
        raise InvalidInput(f"a prior needs one mass per value, got shapes {values.shape} and {masses.shape}")
    if not np.isfinite(masses).all() or (masses < 0).any() or not masses.sum() > 0:
        raise InvalidInput("masses of a prior must be finite, 0 or more, and not all 0")
    loss.valid_labels.check(values, f"labels for {loss.name} loss")
    if (np.diff(values) < 0).any():
        raise InvalidInput("values of a prior must increase")
    positive = masses > 0
    values, masses = values[positive], masses[positive]
    first = np.flatnonzero(np.diff(values, prepend=-np.inf))
    return values[first], np.add.reduceat(masses, first)


def _problem(values: Floats, masses: Floats, c: float, loss: Loss, outputs: npt.ArrayLike | None) -> Problem:
    # numba is slow to import and to load, so nothing before the first optimisation does.
    from labeldp.binning._problem import candidate_problem, interval_problem

    if outputs is None and loss.structure is not None:
        return interval_problem(values, masses, c, loss.structure)
    candidates = _default_candidates(values) if outputs is None else np.unique(np.asarray(outputs, dtype=np.float64))
    if candidates.size == 0:
        raise InvalidInput("there must be at least one output to choose from")
    loss.valid_outputs.check(candidates, f"outputs for {loss.name} loss")
    if candidates.size * values.size > TABLE_LIMIT:
        raise InvalidInput(
            f"{values.size} labels × {candidates.size} candidate outputs are more than {TABLE_LIMIT:,} losses to tabulate; "
            "use fewer cells, give fewer outputs, or use a named loss"
        )
    return candidate_problem(values, masses, c, loss, candidates)


def _default_candidates(values: Floats) -> Floats:
    room = TABLE_LIMIT // values.size
    grid = np.linspace(values[0], values[-1], max(min(_GRID + 1, room - min(values.size, room // 2)), 2))
    labels = values if values.size + grid.size <= room else values[:: -(-values.size // max(room - grid.size, 1))]
    return np.unique(np.concatenate([labels, grid]))


def _least_ratio(problem: Problem, e: float) -> tuple[npt.NDArray[np.int64], float]:
    """Dinkelbach: price each output at the best ratio so far, find the best path, until the ratio no longer falls.

    A sample of the nodes finds a good ratio at little cost, so that all of them usually need two rounds.
    """
    path = problem.first_path
    cost = problem.cost(path)
    for stride in (max(problem.n // _SAMPLE, 1), 1):
        for _ in range(_STEPS):
            ratio = cost / (e + problem.bins(path) - 1)
            new_path = problem.best_path(ratio, stride)
            new_cost = problem.cost(new_path)
            if not new_cost / (e + problem.bins(new_path) - 1) < ratio:
                break
            path, cost = new_path, new_cost
        if stride == 1:
            break
    return path, cost


def _distinct(found: Floats, values: Floats, outputs: npt.ArrayLike | None) -> Floats:
    """Equal outputs merged; a best output never lies outside the labels, whatever rounding says."""
    return np.unique(found if outputs is not None else np.clip(found, values[0], values[-1]))


def _expected_loss(prior: tuple[Floats, Floats], outputs: Floats, owned: Floats, epsilon: float, loss: Loss) -> float:
    """Directly: every output with weight 1, and each label's own once more with e^ε − 1, over e^ε + d − 1."""
    values, masses = prior
    spread = sum(float(np.dot(masses, loss(output, values))) for output in outputs)
    kept = float(np.dot(masses, loss(owned, values)))
    return (spread + math.expm1(epsilon) * kept) / (math.exp(epsilon) + outputs.size - 1) / float(masses.sum())
