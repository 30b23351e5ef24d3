"""What the codes of a channel should stand for in training, for any function of the label."""

import numpy as np

from labeldp.arrays import Floats
from labeldp.linear_algebra import least_squares


def best_values(matrix: Floats, joint: Floats, masses: Floats, tau: float, targets: Floats) -> Floats:
    """Values for the codes of a channel from which a model learns a function of the label best.

    A model trained on values u keeps the bias b = M·u − h that its features can see, and averages the rest. So u minimises
    b'Jb + τ·(E[u²] − (M·u)'J(M·u)), the criterion of `BiasVariance`, with the channel fixed and h in place of the label.

    Parameters
    ----------
    matrix : array of float64
        M, the probability of each code (column) for each label (row).
    joint : array of float64
        J, see `visible_bias_matrix`.
    masses : array of float64
        The probability of each label.
    tau : float
        The weight of variance, above 0 and at most 1.
    targets : array of float64
        h at each label; several functions are several columns.

    Returns
    -------
    array of float64
        A value for each code; a column for each function.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.channels import best_values, visible_bias_matrix
    >>> masses, keep = np.array([0.5, 0.5]), 0.75
    >>> matrix = np.array([[keep, 1 - keep], [1 - keep, keep]])
    >>> joint = visible_bias_matrix(masses, visible=1)
    >>> best_values(matrix, joint, masses, 1e-9, np.array([0.0, 10.0])).round(3)  # without bias: 0.75·15 − 0.25·5 = 10
    array([-5., 15.])
    """
    seen = matrix.T @ joint
    system = (1 - tau) * (seen @ matrix) + tau * np.diag(masses @ matrix)
    centre = masses @ targets  # a constant is its own value, so large numbers need not cancel
    # Codes that are nearly alike make the system nearly singular: then the smallest solution gives them the same value.
    solved = least_squares(system, seen @ (targets - centre), rcond=1e-12)
    return np.asarray(solved + centre)
