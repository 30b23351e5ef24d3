"""What a learner makes of noisy values: a curve through measured test errors.

A model trained on n values t of the label y predicts E[t | x], with an error of its own. Three numbers decide its test error: how much of t the
features x explain (the signal A), how E[t | x] goes along with E[y | x] (C), and the variance V of t around E[t | x]. `auto`'s design takes the error
of the model itself as 30·V/n. Learners here are sized by what their values are worth, so their degrees of freedom grow where
values are good. Measured errors of the default learner follow

    N = 1.2·A·(V / (n·A))^0.42

from 100 to 400,000 records, with noise and without. That is 20 to 30 degrees of freedom on very noisy values and more than 1,000 on 400,000
good ones. Exponent and factor were fitted to Criteo-like data (docs/guides/choose-epsilon.md has the check). A learner of noisy values holds back: it shrinks
what it found by A / (A + N). So very noisy values end at answering the mean and not at wild predictions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.channels import visible_bias_factor, visible_bias_matrix
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior

FACTOR, POWER = 1.2, 0.42
"""Of the curve above."""
STEPS = 30
"""Halvings of the interval that holds the correlation of features and labels."""


def error_of_model(signal: float, noise: float, records: int) -> float:
    """N: the error that fitting adds to values with this signal and this variance around it."""
    if signal <= 0 or noise <= 0:
        return 0.0
    return FACTOR * signal * math.pow(noise / (records * signal), POWER)


@dataclass(frozen=True, eq=False)
class Learned:
    """Labels under a prior, and features that explain the share `explained` of their variance.

    How features depend on the label is modelled as in a design (`visible_bias_matrix`): a Gaussian copula, whose correlation is set so that features
    explain just this share.
    """

    prior: Prior
    explained: float
    joint: Floats

    @classmethod
    def of(cls, prior: Prior, explained: float) -> Learned:
        """Find the features that explain the share `explained` of the labels' variance."""
        masses, centred = prior.masses, prior.values - prior.mean
        constant = np.outer(masses, masses)  # features that tell nothing: the mean is all that is seen
        if explained >= 1:
            return cls(prior, 1.0, np.diag(masses))
        least = _share(masses, centred, 0.0)
        if explained <= least:
            part = explained / least
            return cls(prior, explained, part * visible_bias_matrix(masses, 0.0) + (1 - part) * constant)
        low, high = 0.0, 1.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if _share(masses, centred, middle) < explained else (low, middle)
        return cls(prior, explained, visible_bias_matrix(masses, high))

    @property
    def spread(self) -> float:
        """The variance of the labels: the squared error of answering their mean."""
        return self.prior.variance

    @property
    def signal(self) -> float:
        """The variance that features explain."""
        return self.explained * self.spread

    @property
    def floor(self) -> float:
        """The squared error of the best model there is."""
        return (1 - self.explained) * self.spread

    def error(self, mechanism: FiniteMechanism, records: int) -> float:
        """The squared test error of a model trained on so many outputs of a mechanism."""
        masses = self.prior.masses
        centred = self.prior.values - self.prior.mean
        means, variances = mechanism.conditional_moments(self.prior.values)
        means = means - self.prior.mean
        shift = float(masses @ means)
        means = means - shift  # what is left has mean zero, so that J gives variances
        signal, shared = float(means @ self.joint @ means), float(means @ self.joint @ centred)
        whole = float(masses @ (variances + np.square(means)))
        noise = error_of_model(signal, whole - signal, records)
        kept = signal / (signal + noise) if signal > 0 else 0.0
        return self.spread - 2 * kept * shared + kept**2 * (signal + noise) + shift**2 + whole / records

    def not_private(self, records: int) -> float:
        """The squared test error of a model trained on so many true labels."""
        return self.with_noise(error_of_model(self.signal, self.floor, records), self.spread / records)

    def with_noise(self, noise: float, of_mean: float) -> float:
        """The squared test error where fitting adds `noise` to what features tell, and `of_mean` to the mean."""
        kept = self.signal / (self.signal + noise) if self.signal > 0 else 0.0
        return self.floor + (kept * noise if self.signal > 0 else 0.0) + of_mean


def _share(masses: Floats, centred: Floats, visible: float) -> float:
    """The share of the labels' variance that features of this correlation explain."""
    if visible >= 1:
        return 1.0
    return float(np.square(visible_bias_factor(masses, visible) @ centred).sum() / (masses @ np.square(centred)))
