"""The best ε-DP mechanism on a finite set of outputs, by linear programming. For study, and to check the fast optimiser.

The program does not assume bins. The paper's k(k−1)m privacy rows `M[y′,ŷ] ≤ e^ε·M[y,ŷ]` become 2·k·m rows
`t_ŷ ≤ M[y,ŷ] ≤ e^ε·t_ŷ` with one more variable for each output. SciPy's HiGHS solves it to about 1e-7 for 0.01 ≤ ε ≤ 12. From
ε = 18 on, the solver's tolerances exceed the numbers that matter.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.arrays import Floats
from labeldp.binning.optimal import HasPrior
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.errors import LabelDPError
from labeldp.losses import Loss, get_loss


@dataclass(frozen=True, eq=False)
class BestMatrix:
    """The matrix P[output j | label i] of a best mechanism, and its expected loss."""

    matrix: Floats
    expected_loss: float


def best_matrix(
    prior: HasPrior,
    outputs: npt.ArrayLike,
    epsilon: Epsilon,
    loss: str | Loss | Callable[[Any, Any], Any] = "squared",
) -> BestMatrix:
    """The ε-DP matrix from the prior's values to `outputs` with the least expected loss. O(k·m) variables and rows."""
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
