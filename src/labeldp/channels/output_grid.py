"""The best unbiased channel on a given set of outputs, as a linear program. It takes any loss, and tests `program.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labeldp.arrays import Floats
from labeldp.channels.program import Channel
from labeldp.errors import LabelDPError

if TYPE_CHECKING:
    from labeldp.losses import Loss

_NEGLIGIBLE = 1e-9


def unbiased_channel_on_outputs(values: Floats, masses: Floats, epsilon: float, loss: Loss, outputs: Floats) -> Channel:
    """The unbiased ε-DP channel with the least expected loss among those that use only `outputs`, by HiGHS.

    The matrix is written as M[i, j] = t_j + (e^ε − 1)·z_ij with 0 ≤ z_ij ≤ t_j, so that privacy takes one inequality per entry.
    There are O(k·m) of them, which suits some tens of labels and a few hundred outputs.

    Parameters
    ----------
    values : array of float64
        The labels, in increasing order.
    masses : array of float64
        The probability of each.
    epsilon : float
        The guarantee, up to rounding; `integer_channel` makes it exact.
    loss : Loss
        What to minimise in expectation.
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
    >>> from labeldp import get_loss
    >>> from labeldp.channels import unbiased_channel_on_outputs
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
    used = scales > _NEGLIGIBLE
    channel = scales[used] + gain * np.clip(answer.x[size:].reshape(labels, size)[:, used], 0, scales[used])
    return Channel(channel / channel.sum(axis=1, keepdims=True), outputs[used])
