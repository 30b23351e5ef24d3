"""The best bins for a prior, a loss and ε, exactly, in O(k log k). The algorithm and its proof are in docs/concepts/optimal-bins.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats, frozen
from labeldp.budget import Epsilon, exact_epsilon, float_up
from labeldp.errors import InvalidInput
from labeldp.formatting import ReprMixin
from labeldp.losses import Loss, get_loss
from labeldp.priors.prior import Prior, expect_prior

if TYPE_CHECKING:
    from labeldp.design._problem import Problem

_ROWS_SHOWN = 12

TABLE_LIMIT = 20_000_000
"""The most losses (labels × candidate outputs) that are tabulated, for losses without a structure."""
_GRID_CELLS = 1000
_MOST_DIRECT = 20_000_000
"""Up to this number of labels × outputs, the expected loss is summed directly."""
_MOST_STEPS = 200
_SAMPLED_NODES = 4000


@dataclass(frozen=True, eq=False, repr=False)
class Bins(ReprMixin):
    """Bins of labels, each with one output, for randomized response.

    It has a length, compares by value, and prints as a table.

    Parameters
    ----------
    outputs : array-like of float
        The d outputs, strictly increasing.
    thresholds : array-like of float
        The d − 1 labels that separate neighbouring bins, each between its two outputs.
    expected_loss : float
        The expected loss of randomized response on these bins, under the prior they were made for.
    loss : str
        The name of the loss.
    epsilon : float
        The ε that they were made for.

    Raises
    ------
    InvalidInput
        If the outputs do not increase or a threshold is not between its outputs.

    Examples
    --------
    >>> from labeldp.design import Bins
    >>> Bins([1, 2, 4], [1.5, 3], expected_loss=0.25, loss="squared", epsilon=1.0)
    Bins(3 outputs, epsilon=1, loss='squared', expected_loss=0.25)
      y ≤ 1.5      →  1
      1.5 < y ≤ 3  →  2
      3 < y        →  4
    """

    outputs: Floats
    thresholds: Floats
    expected_loss: float
    loss: str
    epsilon: float

    def __post_init__(self) -> None:
        outputs, thresholds = (np.asarray(array, np.float64) for array in (self.outputs, self.thresholds))
        if outputs.ndim != 1 or outputs.size == 0 or not np.isfinite(outputs).all() or (np.diff(outputs) <= 0).any():
            raise InvalidInput("bins need at least one output, and outputs must be finite and strictly increasing")
        if thresholds.shape != (outputs.size - 1,):
            raise InvalidInput(f"{outputs.size} outputs need {outputs.size - 1} thresholds, got {thresholds.size}")
        if not ((thresholds >= outputs[:-1]) & (thresholds <= outputs[1:])).all():
            raise InvalidInput("each threshold must lie between the outputs that it separates")
        object.__setattr__(self, "outputs", frozen(outputs))
        object.__setattr__(self, "thresholds", frozen(thresholds))

    def encode(self, labels: npt.ArrayLike) -> npt.NDArray[np.uint32]:
        """Return the bin of each label.

        Parameters
        ----------
        labels : array-like of float
            The labels. A label on a threshold belongs to the lower bin.

        Returns
        -------
        array of uint32
            Indices into `outputs`.
        """
        return np.searchsorted(self.thresholds, np.asarray(labels, dtype=np.float64), side="left").astype(np.uint32)

    def __len__(self) -> int:
        return int(self.outputs.size)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Bins) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        rows = self._facts()
        width = max(map(len, rows))
        lines = [f"  {labels:<{width}}  →  {output}" if output else f"  {labels}" for labels, output in rows.items()]
        return f"Bins({self._caption()})\n" + "\n".join(lines)

    def _caption(self) -> str:
        plural = "output" if len(self) == 1 else "outputs"
        return f"{len(self)} {plural}, epsilon={self.epsilon:g}, loss={self.loss!r}, expected_loss={self.expected_loss:.6g}"

    def _facts(self) -> dict[str, str]:
        """Return the output of each bin by its labels; only the first and the last few if there are many bins."""
        many, half = len(self) > _ROWS_SHOWN, _ROWS_SHOWN // 2
        bounds, outputs = (
            _texts(np.r_[numbers[:half], numbers[-half:]] if many else numbers)
            for numbers in (self.thresholds, self.outputs)
        )
        labels = ["every label"]
        if bounds:
            between = (f"{low} < y ≤ {high}" for low, high in pairwise(bounds))
            labels = [f"y ≤ {bounds[0]}", *between, f"{bounds[-1]} < y"]
        if many:
            labels[half] = f"… {len(self) - _ROWS_SHOWN} more …"
            outputs.insert(half, "")
        return dict(zip(labels, outputs, strict=True))

    def _key(self) -> tuple[bytes, bytes, float, str, float]:
        return self.outputs.tobytes(), self.thresholds.tobytes(), self.expected_loss, self.loss, self.epsilon


def _texts(numbers: Floats) -> list[str]:
    """Return six digits of each number, or all digits if six do not distinguish the numbers."""
    short = [f"{number:.6g}" for number in numbers.tolist()]
    return short if len(set(short)) == len(short) else [f"{number!r}" for number in numbers.tolist()]


def optimal_bins(
    prior: Prior,
    epsilon: Epsilon,
    loss: str | Loss | Callable[[Any, Any], Any] = "squared",
    *,
    outputs: npt.ArrayLike | None = None,
) -> Bins:
    """Return the bins whose randomized response has the least expected loss of all ε-DP mechanisms for this prior.

    All losses of labeldp have a structure. For such losses no ε-DP mechanism on these labels has a smaller expected
    loss, up to a relative rounding error of about 1e-12. For other losses, and if `outputs` is given, no mechanism with
    outputs in the set of candidates has one.

    For k labels it takes O(k log k) time and O(k) memory for squared and squared-log loss. Absolute, pinball and Huber loss take
    another factor log k in time, Poisson and gamma deviance in memory. With m candidate outputs, both are O(k·m).

    Among equally good partitions it returns the first one found, with the smallest minimiser of each bin. Labels of
    mass zero do not affect the result; they are assigned to the output with the least loss.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
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
    >>> from labeldp import Prior
    >>> from labeldp.design import optimal_bins
    >>> optimal_bins(Prior([0, 1, 2, 10], [4, 3, 2, 1]), epsilon=2.0)
    Bins(2 outputs, epsilon=2, loss='squared', expected_loss=5.66808)
      y ≤ 2.92502  →  0.9144
      2.92502 < y  →  4.93564
    """
    budget = float(exact_epsilon(epsilon))
    rule = get_loss(loss)
    expect_prior(prior)
    rule.valid_labels.check(prior.values, f"values of the prior or cells of the domain, under {rule.name} loss,")
    held = prior.masses > 0
    values, masses = prior.values[held], prior.masses[held]
    rule.check_assumption(values)
    problem = _problem(values, masses, math.expm1(budget), rule, outputs)
    path, cost = _least_ratio(problem, math.exp(budget))
    found = problem.outputs(path)
    # The best outputs lie within the range of the labels, so rounding errors beyond it are cut off.
    chosen = np.unique(found if outputs is not None else np.clip(found, values[0], values[-1]))
    thresholds = rule.threshold(chosen[:-1], chosen[1:])
    merged = chosen.size < problem.bins(path)
    if merged or chosen.size * values.size <= _MOST_DIRECT:
        owned = chosen[np.searchsorted(thresholds, values, side="left")]
        expected = _expected_loss((values, masses), chosen, owned, budget, rule)
    else:
        expected = cost * problem.cost_unit / float(masses.sum()) / (math.exp(budget) + problem.bins(path) - 1)
    return Bins(chosen, thresholds, expected, rule.name, float_up(exact_epsilon(epsilon)))


def _problem(values: Floats, masses: Floats, c: float, loss: Loss, outputs: npt.ArrayLike | None) -> Problem:
    # numba is slow to import, so it is imported by the first optimisation.
    from labeldp.design._problem import candidate_problem, interval_problem

    if outputs is None and loss.structure is not None:
        return interval_problem(values, masses, c, loss.structure)
    candidates = _default_candidates(values) if outputs is None else np.unique(np.asarray(outputs, dtype=np.float64))
    if candidates.size == 0:
        raise InvalidInput("outputs must contain at least one number")
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
    """Return the path of least cost/(e + bins − 1), and its cost, by Dinkelbach's method.

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


def _expected_loss(prior: tuple[Floats, Floats], outputs: Floats, owned: Floats, epsilon: float, loss: Loss) -> float:
    """Return the expected loss by its definition: each output has weight 1, the label's own output another e^ε − 1, of e^ε + d − 1."""
    values, masses = prior
    spread = sum(float(np.dot(masses, loss(output, values))) for output in outputs)
    kept = float(np.dot(masses, loss(owned, values)))
    return (spread + math.expm1(epsilon) * kept) / (math.exp(epsilon) + outputs.size - 1) / float(masses.sum())
