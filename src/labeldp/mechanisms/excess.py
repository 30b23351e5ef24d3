"""What a set of code values costs a model: the bias it keeps and the variance it averages."""

from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.channels.visibility import visible_bias_matrix
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior


@dataclass(frozen=True)
class Excess:
    """The bias that a model keeps and the variance that it averages, for features x that explain a share of the label.

    Attributes
    ----------
    squared_bias : float
        E[(E[bias | x])²].
    variance : float
        E[Var(value | x)], which includes the spread of the labels around E[y | x].
    """

    squared_bias: float
    variance: float

    def test_error(self, tau: float, floor: float = 0.0) -> float:
        """Squared bias plus τ times variance plus `floor`, the error of a model trained on endless true labels."""
        return floor + self.squared_bias + tau * self.variance


def expected_excess(mechanism: FiniteMechanism, values: Floats, prior: Prior, *, visible: float) -> Excess:
    """The excess of training on `values[code]`, under `prior`, for features that explain the share `visible`."""
    held = prior.masses > 0
    labels, masses = prior.values[held], prior.masses[held]
    channel = mechanism.matrix(labels)
    center = float(masses @ labels)  # nothing depends on where zero is, but large numbers would cancel
    means = channel @ (values - center)
    joint = visible_bias_matrix(masses, visible)
    bias = means - (labels - center)
    second = float(masses @ (channel @ np.square(values - center)))
    return Excess(float(bias @ joint @ bias), second - float(means @ joint @ means))
