"""The best bins for a prior, a loss and ε, exactly, in O(k log k). docs/concepts/optimal-bins.md has the algorithm and its proof."""

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
"""The most losses (labels × candidate outputs) that are tabulated, for losses without a structure."""

_GRID_CELLS = 1000
_MOST_DIRECT = 20_000_000
"""Up to this many labels × outputs, the expected loss is summed directly."""
_MOST_STEPS = 200
_SAMPLED_NODES = 4000


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

    For losses with a structure, which all that come with labeldp have, no ε-DP mechanism on these labels has a smaller
    expected loss, up to a relative rounding error of about 1e-12. For other losses, and if `outputs` is given, no mechanism
    with outputs in the set of candidates does.

    For k labels it takes O(k log k) time and O(k) memory for squared and squared-log loss. Absolute, pinball and Huber loss take
    another factor log k in time, Poisson and gamma deviance in memory. With m candidate outputs, both are O(k·m).

    Among equally good partitions it returns the first that the search finds, with the smallest minimiser of each bin. Labels of
    mass zero do not affect the result; they belong to the output where they lose least.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels; any object with increasing `values` and their `masses` will do.
    epsilon : float, int, str, Decimal or Fraction
        The guarantee of the randomized response.
    loss : str, Loss or callable, default "squared"
        The loss, as for `get_loss`.
    outputs : array-like of float, optional
        The outputs to choose from. By default losses with a structure choose from all real numbers, others from the labels
        and an even grid over their range.

    Returns
    -------
    Bins
        The outputs, the thresholds between them and the expected loss.

    Raises
    ------
    InvalidInput
        If the loss is not defined for a label, a callable breaks Assumption 1, or there are more than 2·10⁷ pairs of a label
        and a candidate output.

    Examples
    --------
    >>> from labeldp import Prior, optimal_bins
    >>> optimal_bins(Prior([0, 1, 2, 10], [4, 3, 2, 1]), epsilon=2.0)
    Bins(2 outputs, epsilon=2, loss='squared', expected_loss=5.66808)
      y ≤ 2.92502  →  0.9144
      2.92502 < y  →  4.93564
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
    if merged or chosen.size * values.size <= _MOST_DIRECT:
        owned = chosen[np.searchsorted(thresholds, values, side="left")]
        expected = _expected_loss((values, masses), chosen, owned, budget, rule)
    else:
        expected = cost * problem.cost_unit / float(masses.sum()) / (math.exp(budget) + problem.bins(path) - 1)
    return Bins(chosen, thresholds, expected, rule.name, float_up(exact_epsilon(epsilon)))


def _support(prior: HasPrior, loss: Loss) -> tuple[Floats, Floats]:
    if not (hasattr(prior, "values") and hasattr(prior, "masses")):
        raise InvalidInput(
            f"prior must be a Prior, got {type(prior).__name__}: make one with Prior(values, masses) or Prior.from_csv(path)"
        )
    values = np.ascontiguousarray(prior.values, dtype=np.float64)
    masses = np.ascontiguousarray(prior.masses, dtype=np.float64)
    if values.ndim != 1 or values.shape != masses.shape:
        raise InvalidInput(f"a prior needs one mass per value, got shapes {values.shape} and {masses.shape}")
    if not np.isfinite(masses).all() or (masses < 0).any() or not masses.sum() > 0:
        raise InvalidInput("masses of a prior must be finite, 0 or more, and not all 0")
    loss.valid_labels.check(values, f"values of the prior or cells of the domain, under {loss.name} loss,")
    if (np.diff(values) < 0).any():
        raise InvalidInput("values of a prior must increase")
    positive = masses > 0
    values, masses = values[positive], masses[positive]
    first = np.flatnonzero(np.diff(values, prepend=-np.inf))
    return values[first], np.add.reduceat(masses, first)


def _problem(values: Floats, masses: Floats, c: float, loss: Loss, outputs: npt.ArrayLike | None) -> Problem:
    # numba is slow to import, so it is imported by the first optimisation.
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
            "use fewer cells, give fewer outputs, or use a loss with a structure, such as squared"
        )
    return candidate_problem(values, masses, c, loss, candidates)


def _default_candidates(values: Floats) -> Floats:
    room = TABLE_LIMIT // values.size
    grid = np.linspace(values[0], values[-1], max(min(_GRID_CELLS + 1, room - min(values.size, room // 2)), 2))
    labels = values if values.size + grid.size <= room else values[:: -(-values.size // max(room - grid.size, 1))]
    return np.unique(np.concatenate([labels, grid]))


def _least_ratio(problem: Problem, e: float) -> tuple[npt.NDArray[np.int64], float]:
    """The path of least cost/(e + bins − 1), and its cost, by Dinkelbach's method.

    Each round charges every bin the best ratio so far and finds the best path, until the ratio no longer falls. The first rounds
    use a sample of the nodes. They find a good ratio at little cost, so that two rounds on all nodes are usually enough.
    """
    path = problem.first_path
    cost = problem.cost(path)
    for stride in (max(problem.n // _SAMPLED_NODES, 1), 1):
        for _ in range(_MOST_STEPS):
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
    """The different outputs. The best ones lie within the range of the labels, so rounding errors beyond it are cut off."""
    return np.unique(found if outputs is not None else np.clip(found, values[0], values[-1]))


def _expected_loss(prior: tuple[Floats, Floats], outputs: Floats, owned: Floats, epsilon: float, loss: Loss) -> float:
    """The expected loss by its definition: each output has weight 1, the label's own output another e^ε − 1, of e^ε + d − 1."""
    values, masses = prior
    spread = sum(float(np.dot(masses, loss(output, values))) for output in outputs)
    kept = float(np.dot(masses, loss(owned, values)))
    return (spread + math.expm1(epsilon) * kept) / (math.exp(epsilon) + outputs.size - 1) / float(masses.sum())
