"""How much of a bias reaches a model, and the values of codes from which a model learns best."""

import math
from statistics import NormalDist

import numpy as np

from labeldp.arrays import Floats
from labeldp.linear_algebra import least_squares

REVEALED_SHARE = 0.02
"""The share of records whose features are assumed to reveal the label itself."""
_NODES = 401
_FEW = 1 << 14


def visible_bias_matrix(masses: Floats, visible: float) -> Floats:
    """Return the matrix J with b'Jb = E[(E[b(y) | x])²], for features x that explain the share `visible` of the label.

    A model learns E[ŷ | x], so the part of a bias b(y) that reaches it is E[b(y) | x]. How x depends on y is not known when labels
    are randomized, so a model of it is used: x is a normal number whose correlation with the label's normal score is
    √visible (a Gaussian copula), except for a share `REVEALED_SHARE` of the records, where x is the label itself. A smooth
    bias reaches the model; a bias that alternates from label to label averages out, unless it is large.

    J[i, l] is the probability that two records with the same x have the labels i and l. J is positive definite and sums to one.
    For `visible` = 1 it is diag(masses), and b'Jb is the mean squared bias.

    Parameters
    ----------
    masses : array of float64
        The probability of each label.
    visible : float
        The share of the label's variance that the features explain, between 0 and 1.

    Returns
    -------
    array of float64
        The symmetric matrix J.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.design.visibility import visible_bias_matrix
    >>> joint = visible_bias_matrix(np.full(4, 0.25), visible=0.5)
    >>> constant, alternating = np.ones(4), np.array([1, -1, 1, -1])
    >>> round(float(constant @ joint @ constant), 3), round(float(alternating @ joint @ alternating), 3)
    (1.0, 0.131)
    """
    if visible >= 1:
        return np.diag(masses)
    factor = copula_factor(masses, visible)
    joint: Floats = (1 - REVEALED_SHARE) * (factor.T @ factor) + REVEALED_SHARE * np.diag(masses)
    return joint


def visible_bias_factor(masses: Floats, visible: float) -> Floats:
    """Return a matrix F with F'F = J, the matrix of `visible_bias_matrix`.

    Parameters
    ----------
    masses : array of float64
        The probability of each label.
    visible : float
        The share of the label's variance that the features explain, between 0 and 1.

    Returns
    -------
    array of float64
        Each row is the distribution of labels at one value of x, times the square root of the weight of that value.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.design.visibility import visible_bias_factor, visible_bias_matrix
    >>> masses = np.array([0.5, 0.3, 0.2])
    >>> factor = visible_bias_factor(masses, visible=0.5)
    >>> np.allclose(factor.T @ factor, visible_bias_matrix(masses, visible=0.5))
    True
    """
    label = np.diag(np.sqrt(masses))
    if visible >= 1:
        return label
    return np.vstack([np.sqrt(1 - REVEALED_SHARE) * copula_factor(masses, visible), np.sqrt(REVEALED_SHARE) * label])


def copula_factor(masses: Floats, visible: float) -> Floats:
    """Return the rows of F for the records whose features do not reveal the label.

    Parameters
    ----------
    masses : array of float64
        The probability of each label.
    visible : float
        The square of the correlation of the features and the label's normal score, below 1.

    Returns
    -------
    array of float64
        As for `visible_bias_factor`.
    """
    edges = np.r_[-np.inf, normal_quantiles(np.clip(np.cumsum(masses)[:-1], 0.0, 1.0)), np.inf]
    signal = np.linspace(-5, 5, _NODES)
    weight = np.exp(-(signal**2) / 2)
    below = normal_chances((edges - np.sqrt(visible) * signal[:, None]) / np.sqrt(1 - visible))
    factor: Floats = np.diff(below, axis=1) * np.sqrt(weight / weight.sum())[:, None]
    return factor


def normal_chances(scores: Floats) -> Floats:
    """Return the probability that a normal score is at most each of `scores`, to the last digits of a float.

    SciPy takes less for each, but as long as a third of a small release for its import.
    """
    if scores.size > _FEW:
        from scipy.special import ndtr

        return np.asarray(ndtr(scores))
    scaled = (scores / -math.sqrt(2)).ravel().tolist()
    return np.fromiter(map(math.erfc, scaled), np.float64, scores.size).reshape(scores.shape) / 2


def normal_quantiles(chances: Floats) -> Floats:
    """Return the scores with these probabilities, computed like `normal_chances`."""
    if chances.size > _FEW:
        from scipy.special import ndtri

        return np.asarray(ndtri(chances))
    quantile, ends = NormalDist().inv_cdf, {0.0: -math.inf, 1.0: math.inf}
    return np.array([ends[one] if one in ends else quantile(one) for one in chances.tolist()], np.float64)


def best_values(matrix: Floats, joint: Floats, masses: Floats, tau: float, targets: Floats) -> Floats:
    """Return the values for the codes of a channel from which a model learns a function of the label best.

    A model trained on values u keeps the bias b = M·u − h that is visible to its features, and averages the rest. So u
    minimises b'Jb + τ·(E[u²] − (M·u)'J(M·u)), the criterion of `BiasVariance`, with the channel fixed and h in place of
    the label.

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
    >>> from labeldp.design.visibility import best_values, visible_bias_matrix
    >>> masses, keep = np.array([0.5, 0.5]), 0.75
    >>> matrix = np.array([[keep, 1 - keep], [1 - keep, keep]])
    >>> joint = visible_bias_matrix(masses, visible=1)
    >>> best_values(matrix, joint, masses, 1e-9, np.array([0.0, 10.0])).round(3)  # without bias: 0.75·15 − 0.25·5 = 10
    array([-5., 15.])
    """
    seen = matrix.T @ joint
    system = (1 - tau) * (seen @ matrix) + tau * np.diag(masses @ matrix)
    centre = masses @ targets  # constants are fitted exactly, so subtracting the mean avoids cancellation
    # Nearly equal codes make the system nearly singular. The smallest solution then gives them the same value.
    solved = least_squares(system, seen @ (targets - centre), rcond=1e-12)
    return np.asarray(solved + centre)
