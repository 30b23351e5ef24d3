"""The criterion of bias-variance designs, computed from its definition."""

from __future__ import annotations

import numpy as np

from labeldp.design.visibility import visible_bias_matrix


def visible_bias_and_variance(mechanism, values, prior, visible):
    """Return the two terms of the criterion, E[(E[bias | x])²] and E[Var(value | x)], for training on `values[code]`."""
    held = prior.masses > 0
    labels, masses = prior.values[held], prior.masses[held]
    center = float(masses @ labels)  # the result does not depend on the zero point, but large numbers would cancel
    means, variances = mechanism.conditional_moments(labels, values)
    means, bias = means - center, means - labels
    joint = visible_bias_matrix(masses, visible)
    second = float(masses @ (variances + np.square(means)))
    return float(bias @ joint @ bias), second - float(means @ joint @ means)
