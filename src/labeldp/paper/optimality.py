"""The paper's own tools for optimal mechanisms, for study and to check the fast optimiser.

**Algorithm 2** as printed, in O(k³), with any kind of numbers. With `Fraction`s (for e^ε too) the answer is exact; with floats it is
rounded. Two slips of the paper are corrected: the running time is O(k³), not O(k²), because A[i][j] is a minimum over r; and the
squared loss of a bin ends in W·ŷ² with W the total weight, where the appendix has ŷ². See docs/concepts/optimal-bins.md.

**The linear program** for the best ε-DP mechanism on a finite set of outputs. It does not assume bins. The paper's k(k−1)m privacy rows
`M[y′,ŷ] ≤ e^ε·M[y,ŷ]` become 2·k·m rows `t_ŷ ≤ M[y,ŷ] ≤ e^ε·t_ŷ` with one more variable for each output. SciPy's HiGHS solves it to about
1e-7 for 0.01 ≤ ε ≤ 12. From ε = 18 on, the solver's tolerances exceed the numbers that matter.

**Signature matrices**: which privacy constraints a mechanism meets with equality, and whether it is RR-on-Bins. The
paper proves optimality by showing that some optimal matrix has the signature of randomized response on bins. Here the
signature of any matrix can be computed, with an explanation of the paper's conditions that hold.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.losses import Loss, get_loss
from labeldp.losses.loss import Deviance, PinballDistance, SquaredDistance
from labeldp.priors import Prior

Minimiser = Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Any]]
"""Takes values and weights. Returns the output of least total weighted loss (the smallest, if several) and that loss."""


@dataclass(frozen=True)
class ReferenceBins:
    """The intervals of an optimal map, their outputs, and its expected loss, as numbers of the input's kind."""

    outputs: tuple[Any, ...]
    starts: tuple[int, ...]
    """The index of each interval's first value."""
    expected_loss: Any


def algorithm_2(values: Sequence[Any], masses: Sequence[Any], e: Any, minimise: Minimiser) -> ReferenceBins:
    """Return the optimal intervals for increasing `values` with these masses, where `e` is e^ε."""
    k = len(values)
    best = {
        (r, i): minimise(values, [e * p if r <= j <= i else p for j, p in enumerate(masses)])
        for r in range(k)
        for i in range(r, k)
    }
    # total[i, j]: the least cost of splitting the first i values into j intervals, and where the last of them starts.
    total: dict[tuple[int, int], tuple[Any, int]] = {(0, 0): (0, 0)}
    for i in range(1, k + 1):
        for j in range(1, i + 1):
            costs = ((total[r, j - 1][0] + best[r, i - 1][1], r) for r in range(i) if (r, j - 1) in total)
            total[i, j] = min(costs, key=lambda choice: choice[0])
    ratio, d = min(((total[k, d][0] / (d - 1 + e), d) for d in range(1, k + 1)), key=lambda choice: choice[0])
    starts: list[int] = []
    end = k
    for j in range(d, 0, -1):
        end = total[end, j][1]
        starts.insert(0, end)
    outputs = tuple(best[a, b - 1][0] for a, b in zip(starts, [*starts[1:], k], strict=True))
    return ReferenceBins(outputs, tuple(starts), ratio / sum(masses))


def minimiser(loss: Loss) -> Minimiser:
    """Return the minimiser for a loss. Squared, absolute and pinball loss stay exact in fractions; deviances give floats."""
    match loss.structure:
        case SquaredDistance(scale="identity"):
            return lambda values, weights: _at_mean(lambda output, y: (output - y) ** 2, values, weights)
        case PinballDistance(under=under, over=over):
            return lambda values, weights: _quantile(values, weights, under, over)
        case Deviance():
            return lambda values, weights: _at_mean(lambda output, y: float(loss(output, y)), values, weights)
        case _:
            raise InvalidInput(f"algorithm_2 lacks a minimiser for {loss.name} loss; write one and pass it")


def _at_mean(loss: Callable[[Any, Any], Any], values: Sequence[Any], weights: Sequence[Any]) -> tuple[Any, Any]:
    """Return the weighted mean and the loss there, for losses that it minimises."""
    mean = sum(w * y for w, y in zip(weights, values, strict=True)) / sum(weights)
    return mean, sum(w * loss(mean, y) for w, y in zip(weights, values, strict=True))


def _quantile(values: Sequence[Any], weights: Sequence[Any], under: Any, over: Any) -> tuple[Any, Any]:
    # The slopes become fractions if the weights are fractions.
    under, over = type(weights[0])(under), type(weights[0])(over)
    target, below = under * sum(weights) / (under + over), 0
    output = values[-1]
    for y, w in zip(values, weights, strict=True):
        below += w
        if below >= target:
            output = y
            break
    return output, sum(
        w * (under * (y - output) if y >= output else over * (output - y)) for y, w in zip(values, weights, strict=True)
    )


@dataclass(frozen=True, eq=False)
class BestMatrix:
    """The matrix P[output j | label i] of a best mechanism, and its expected loss."""

    matrix: Floats
    expected_loss: float


def best_matrix(
    prior: Prior, outputs: npt.ArrayLike, epsilon: Epsilon, loss: str | Loss | Callable[[Any, Any], Any] = "squared"
) -> BestMatrix:
    """Return the ε-DP matrix from the prior's values to `outputs` with the least expected loss. O(k·m) variables and rows."""
    from scipy import optimize, sparse

    e = math.exp(float(exact_epsilon(epsilon)))
    points = np.asarray(outputs, dtype=np.float64)
    values, masses = np.asarray(prior.values), np.asarray(prior.masses) / np.sum(prior.masses)
    k, m = values.size, points.size
    losses = get_loss(loss)(points[None, :], values[:, None])
    unit = float(losses.max()) or 1.0
    # Variables: M row by row, then t. `spread` copies t to every row of M.
    spread = sparse.kron(np.ones((k, 1)), sparse.eye_array(m))
    identity = sparse.eye_array(k * m)
    private = sparse.vstack([sparse.hstack([-identity, spread]), sparse.hstack([identity, -e * spread])])
    rows_sum = sparse.hstack([sparse.kron(sparse.eye_array(k), np.ones((1, m))), sparse.csr_array((k, m))])
    answer = optimize.linprog(
        np.concatenate([(masses[:, None] * losses / unit).ravel(), np.zeros(m)]),
        A_ub=sparse.csr_array(private),
        b_ub=np.zeros(2 * k * m),
        A_eq=sparse.csr_array(rows_sum),
        b_eq=np.ones(k),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.status != 0:
        raise LabelDPError(
            f"the linear program was not solved: {answer.message}. It is exact enough for 0.01 <= epsilon <= 12: choose one of these"
        )
    return BestMatrix(answer.x[: k * m].reshape(k, m), float(answer.fun) * unit)


@dataclass(frozen=True, eq=False, repr=False)
class Signature:
    """One letter per label (row) and output (column).

    `0`: never drawn; `U`: as likely as privacy allows; `L`: as unlikely as privacy allows; `S`: neither.
    """

    letters: npt.NDArray[np.str_]

    @property
    def conditions(self) -> dict[str, bool]:
        """The paper's conditions. RR-on-Bins is (1) alone, or (2a), (2b) and (2c) together."""
        letters = self.letters
        used = (letters != "0").any(axis=0)
        upper, lower = letters == "U", letters == "L"
        single = used.sum() == 1 and bool((letters[:, used] == "S").all())
        columns = bool(((upper | lower).all(axis=0) & upper.any(axis=0) & lower.any(axis=0))[used].all())
        rows = bool((upper.sum(axis=1) == 1).all() and not (letters == "S").any())
        increasing = rows and bool((np.diff(upper.argmax(axis=1)) >= 0).all())
        return {"1": single, "2a": columns, "2b": rows, "2c": increasing}

    @property
    def is_rr_on_bins(self) -> bool:
        """Whether the matrix is randomized response on bins with a non-decreasing map."""
        met = self.conditions
        return met["1"] or (met["2a"] and met["2b"] and met["2c"])

    @property
    def bins(self) -> npt.NDArray[np.int64]:
        """The column that each label is mapped to. An error if the matrix is not RR-on-Bins."""
        if not self.is_rr_on_bins:
            raise InvalidInput("this matrix is not randomized response on bins:\n" + self.explain())
        own = self.letters == ("S" if self.conditions["1"] else "U")
        return np.asarray(own.argmax(axis=1), dtype=np.int64)

    def explain(self) -> str:
        """Return each condition in words, with whether it holds."""
        words = {
            "1": "one column is all S, every other column all 0 (one output for everybody)",
            "2a": "every column is all 0, or only U and L with at least one of each",
            "2b": "every row has exactly one U and otherwise only L and 0",
            "2c": "the column of the U does not fall as the label grows",
        }
        met = self.conditions
        lines = [f"  ({name:<2}) {'yes' if met[name] else 'no ':<3}  {text}" for name, text in words.items()]
        verdict = "randomized response on bins" if self.is_rr_on_bins else "not randomized response on bins"
        return "\n".join([*lines, f"  so: {verdict}"])

    def __repr__(self) -> str:
        return "\n".join(" ".join(row) for row in self.letters)


def signature(matrix: npt.ArrayLike, epsilon: Epsilon, *, tolerance: float = 1e-9) -> Signature:
    """Return the signature of a matrix P[output j | label i]. Entries are equal within a relative, and zero within an absolute, `tolerance`."""
    m = np.asarray(matrix, dtype=np.float64)
    if m.ndim != 2 or not m.size or not np.isfinite(m).all() or (m < -tolerance).any():
        raise InvalidInput("a mechanism matrix has a row of probabilities for each label")
    e = math.exp(float(exact_epsilon(epsilon)))
    high, low = m.max(axis=0), m.min(axis=0)
    broken = np.flatnonzero(high > e * low * (1 + tolerance) + tolerance)
    if broken.size:
        raise InvalidInput(
            f"column {broken[0]} breaks ε = {float(exact_epsilon(epsilon)):g}: its probabilities go from {low[broken[0]]} "
            f"to {high[broken[0]]}"
        )
    tight = high >= e * low * (1 - tolerance)
    letters = np.full(m.shape, "S", dtype="<U1")
    letters[tight & (m >= high * (1 - tolerance))] = "U"
    letters[tight & (m <= low * (1 + tolerance))] = "L"
    letters[m <= tolerance] = "0"
    return Signature(letters)
