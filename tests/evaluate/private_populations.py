"""Labels, features and private labels with repeatable noise for the tests of estimates."""

from __future__ import annotations

import numpy as np

from labeldp import Domain, Prior
from labeldp.mechanisms import BiasVariance, PrivateLabels, RROnBins, Unbiased
from seeded_words import SeededWords

VALUES = np.arange(21.0)
PRIOR = Prior(VALUES, np.exp(-VALUES / 5) + 0.03 * (VALUES == 20))
DOMAIN = Domain.integers(0, 20)
GRID = Domain(0, 100, 11)
MECHANISMS = {
    "bins": RROnBins.optimal(PRIOR, 2),
    "auto": BiasVariance.optimal(PRIOR, 2, 0.003, visible=0.7, domain=DOMAIN),
    "unbiased": Unbiased.optimal(PRIOR, 2, domain=DOMAIN),
}


def population(random, size):
    """Labels from the prior and a feature that explains part of them."""
    labels = random.choice(VALUES, size, p=PRIOR.masses)
    return labels, 0.5 * labels + random.normal(0, 1.5, size)


def randomized(mechanism, labels, seed=0):
    """Private labels that are the same in every run of the tests."""
    return PrivateLabels(mechanism.codes(labels, randomness=SeededWords(seed)), mechanism)
