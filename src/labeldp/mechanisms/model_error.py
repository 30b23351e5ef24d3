"""What `auto`'s rule expects of a model that trains on private labels, for any mechanism: the figure to choose by."""

import numpy as np

from labeldp.arrays import Floats
from labeldp.channels import visible_bias_matrix
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.bias_variance import VISIBLE, weight_of_variance
from labeldp.mechanisms.cells import coarse_prior
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.excess import Excess
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior


class ModelErrors:
    """Expected squared test errors of models, under one prior and for one number of training records.

    They follow the rule of `labeldp.mechanisms.auto`, for features that explain VISIBLE of the label. The prior's labels
    are a matrix of pairs here, so a fine prior is rounded to 1,001 cells, as in a design.
    """

    def __init__(self, prior: Prior, records: int) -> None:
        prior, _ = coarse_prior(prior)
        held = prior.masses > 0
        self._labels, self._masses = prior.values[held], prior.masses[held]
        self._centred = self._labels - prior.mean  # large numbers would cancel
        self._joint = visible_bias_matrix(self._masses, VISIBLE)
        self._tau = weight_of_variance(records)

    def of(self, mechanism: Mechanism) -> float:
        """The error of a model trained on the mechanism's training values, `code_values(mechanism, "auto")`."""
        values = code_values(mechanism, "auto") if isinstance(mechanism, FiniteMechanism) else None
        return self.error(self.excess(mechanism, values))

    def excess(self, mechanism: Mechanism, values: Floats | None) -> Excess:
        """The bias that a model keeps and the variance that it averages; without values, on the mechanism's outputs."""
        if isinstance(mechanism, FiniteMechanism):
            means, variances = mechanism.conditional_moments(self._labels, values)
        else:
            means, variances = mechanism.conditional_moments(self._labels)
        return self._excess(means - self._labels, variances)

    def error(self, excess: Excess) -> float:
        """The test error with that excess."""
        floor = self.mean_only - float(self._centred @ self._joint @ self._centred)
        return excess.test_error(self._tau, floor)

    @property
    def not_private(self) -> float:
        """The error of a model trained on the labels themselves."""
        return self.error(self._excess(np.zeros_like(self._labels), np.zeros_like(self._labels)))

    @property
    def mean_only(self) -> float:
        """The error of answering the mean of the prior: its variance. A mechanism above it is of no use to a model."""
        return float(self._masses @ np.square(self._centred))

    def _excess(self, bias: Floats, variances: Floats) -> Excess:
        means = self._centred + bias
        spread = float(self._masses @ (variances + np.square(means)) - means @ self._joint @ means)
        return Excess(float(bias @ self._joint @ bias), spread)
