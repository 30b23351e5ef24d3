"""What a set of code values costs a model: the bias it keeps and the variance it averages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.channels.visibility import visible_bias_matrix
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior


@dataclass(frozen=True)
class Excess:
    """E[(E[bias | x])²] and E[Var(value | x)], for features x that explain a given share of the label.

    The variance includes what the labels themselves vary around E[y | x].
    """

    squared_bias: float
    variance: float

    def test_error(self, tau: float, floor: float = 0.0) -> float:
        """`floor` (the error of a model trained on true labels without end) plus squared bias plus τ times variance."""
        return floor + self.squared_bias + tau * self.variance


def expected_excess(mechanism: FiniteMechanism, values: Floats, prior: Prior, *, visible: float) -> Excess:
    """Bias and variance under `prior` of training on `values[code]`, as features that explain `visible` see them."""
    held = prior.masses > 0
    labels, masses = prior.values[held], prior.masses[held]
    channel = mechanism.matrix(labels)
    center = float(masses @ labels)  # nothing depends on where zero is, but large numbers would cancel
    means = channel @ (values - center)
    joint = visible_bias_matrix(masses, visible)
    bias = means - (labels - center)
    second = float(masses @ (channel @ np.square(values - center)))
    return Excess(float(bias @ joint @ bias), second - float(means @ joint @ means))
