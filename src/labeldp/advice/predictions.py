"""Predicted test errors of models on private labels, on the paper's bins and on noisy sums, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from labeldp.advice.learned import Learned, error_of_model
from labeldp.arrays import Floats
from labeldp.budget import MIN_EPSILON, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.mechanisms.auto import MOST_FOR_PRIOR
from labeldp.mechanisms.bias_variance import VISIBLE, BiasVariance, weight_of_variance
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.randomized_response import RROnBins
from labeldp.priors import Prior

CELLS = 101
"""About so many labels are told apart: a prediction changes by a tenth of a percent, and designs take milliseconds."""
ANCHORS = 21
"""Of a design that is only judged and never released."""
NARROWEST = 1e-6
"""Labels whose standard deviation is less than this share of the bounds are all in one cell."""
DESIGNS = 512
"""How many designs are kept for the next question."""

SUMS_FACTOR, SUMS_POWER = 0.0011, 0.75
"""The error that the noise of sums adds, in squares of the clipped range: 0.0011·(10,000 / (n·ε))^0.75, fitted to measured errors."""
SUMS_ASTRAY = 1300
"""Where n·ε is small, noise also misleads the clip, the mean and the choice of columns: 1,300/(n·ε)² in squares of the range."""
MISFIT = 0.005
"""The share of the features' signal that effects of columns and of pairs cannot express, on the data that was measured."""


@dataclass(frozen=True)
class Prediction:
    """A predicted squared test error.

    Attributes
    ----------
    mse : float
        The mean squared error.
    spread : float
        The variance of the labels, the squared error of answering their mean.

    Examples
    --------
    >>> from labeldp.advice import Prediction
    >>> prediction = Prediction(mse=2500, spread=10_000)
    >>> prediction.rmse, prediction.r2
    (50.0, 0.75)
    """

    mse: float
    spread: float

    @property
    def rmse(self) -> float:
        """The root of the squared error, in the unit of the labels."""
        return math.sqrt(self.mse)

    @property
    def r2(self) -> float:
        """The share of the labels' variance that the model explains; below 0 it is worse than answering the mean."""
        return 1 - self.mse / self.spread


class Predictor:
    """Predicted test errors for one distribution of the labels and features that explain a share of them.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    domain : Domain
        The public bounds.
    explained : float
        The share of the labels' variance that features explain, from 0 to 1.
    """

    def __init__(self, prior: Prior, domain: Domain, explained: float) -> None:
        self._domain = domain
        self._prior = _coarse(prior)
        if not math.sqrt(self._prior.variance) > NARROWEST * (domain.upper - domain.lower):
            raise InvalidInput(
                "by this distribution all labels are in the same cell, so there is nothing for a model to predict: give narrower bounds, or another "
                "distribution"
            )
        self._learned = Learned.of(self._prior, explained)
        below = np.cumsum(self._prior.masses)
        low, high = np.interp([0.005, 0.995], below, self._prior.values)  # sums are clipped where labels thin out
        self._clipped = max(float(high - low), math.sqrt(self._prior.variance))

    @property
    def prior(self) -> Prior:
        """The distribution of the labels, as coarse as it is used here."""
        return self._prior

    @property
    def explained(self) -> float:
        """The share that features explain."""
        return self._learned.explained

    def mean_only(self) -> Prediction:
        """Answering the mean of the labels."""
        return self._prediction(self._learned.spread)

    def not_private(self, records: int) -> Prediction:
        """A model trained on so many true labels."""
        return self._prediction(self._learned.not_private(records))

    def labels(self, epsilon: float, records: int) -> Prediction:
        """A model trained on labels that `auto` made private. As by default, a part of ε buys the prior."""
        total = exact_epsilon(epsilon)
        left = max(total - min(total / 25, MOST_FOR_PRIOR), MIN_EPSILON)
        tau = weight_of_variance(records)
        mechanism = _designed(self._prior, left, round(-math.log2(tau)))
        return self._prediction(self._learned.error(mechanism, records))

    def paper(self, epsilon: float, records: int) -> Prediction:
        """A model trained on the outputs of RR-on-Bins as they are sent, with the paper's split of ε."""
        total = exact_epsilon(epsilon)
        cells = self._domain.resolve(records, float(total)).count
        spent = min(total / 2, Fraction(math.sqrt(cells / records)).limit_denominator(10**6))
        return self._prediction(self._learned.error(_bins(self._prior, max(total - spent, MIN_EPSILON)), records))

    def sums(self, epsilon: float, records: int) -> Prediction:
        """A model fitted to noisy sums of the labels by a team that holds both sides."""
        learned, range_squared = self._learned, self._clipped**2
        own = error_of_model(learned.signal, learned.floor, records)
        noise = SUMS_FACTOR * range_squared * (1e4 / (records * float(epsilon))) ** SUMS_POWER
        astray = learned.spread / records + SUMS_ASTRAY * range_squared / (records * float(epsilon)) ** 2
        held = astray / (1 + astray / learned.spread)  # figures drowned in noise are not believed
        return self._prediction(learned.with_noise(own + noise + MISFIT * learned.signal, held))

    def _prediction(self, mse: float) -> Prediction:
        return Prediction(max(mse, 0.0), self._learned.spread)


def _coarse(prior: Prior) -> Prior:
    """The prior on about `CELLS` labels: neighbours are merged at their mean, so that no group holds much mass or spans much of the range."""
    held = prior.masses > 0
    values, masses = prior.values[held], prior.masses[held]
    if values.size > CELLS:
        place = (values - values[0]) / (values[-1] - values[0]) + np.cumsum(masses) - masses / 2
        groups = np.unique((place / 2 * CELLS).astype(np.int64), return_inverse=True)[1]
        together: Floats = np.bincount(groups, masses).astype(np.float64)
        values, masses = values[0] + np.bincount(groups, masses * (values - values[0])) / together, together
    return Prior(values, masses)


@lru_cache(maxsize=DESIGNS)
def _designed(prior: Prior, epsilon: Fraction, halvings: int) -> FiniteMechanism:
    """The design of `auto` for τ = 2^−halvings. The nearest power of two is as good as τ itself: the optimum is flat."""
    try:
        return BiasVariance.optimal(prior, epsilon, 2.0**-halvings, visible=VISIBLE, anchors=ANCHORS)
    except InvalidInput:
        raise
    except LabelDPError:  # numbers too far apart for the solver, as at ε = 0.001 with a billion records
        return _designed(prior, epsilon, halvings - 1) if halvings > 1 else _bins(prior, epsilon)


@lru_cache(maxsize=DESIGNS)
def _bins(prior: Prior, epsilon: Fraction) -> FiniteMechanism:
    return RROnBins.optimal(prior, epsilon)
