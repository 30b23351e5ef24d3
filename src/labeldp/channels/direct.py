"""The same unbiased design as a plain linear program on a grid of outputs: for any loss, and as an oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labeldp.arrays import Floats
from labeldp.channels.program import Columns
from labeldp.errors import LabelDPError

if TYPE_CHECKING:
    from labeldp.losses import Loss

_NEGLIGIBLE = 1e-9


def direct_unbiased(values: Floats, masses: Floats, epsilon: float, loss: Loss, outputs: Floats) -> Columns:
    """The unbiased ε-DP channel of least expected loss that uses only `outputs`, by HiGHS.

    With M[i, j] = t_j + (e^ε − 1)·z_ij and 0 ≤ z_ij ≤ t_j, privacy takes one row per entry. O(k·m) rows: for some tens
    of labels and a few hundred outputs.
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
    size_of_cost = float(np.abs(cost).max())
    answer = linprog(
        np.r_[cost.sum(axis=0), gain * cost.ravel()] / size_of_cost,
        A_ub=private,
        b_ub=np.zeros(entry.size),
        A_eq=sp.vstack([total, mean]).tocsr(),
        b_eq=np.r_[np.ones(labels), (values - values[0]) / span],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.status != 0:
        raise LabelDPError(f"no unbiased randomizer was found on {size} outputs: {answer.message}")
    scales = answer.x[:size]
    used = scales > _NEGLIGIBLE
    channel = scales[used] + gain * np.clip(answer.x[size:].reshape(labels, size)[:, used], 0, scales[used])
    return Columns(channel / channel.sum(axis=1, keepdims=True), outputs[used])
