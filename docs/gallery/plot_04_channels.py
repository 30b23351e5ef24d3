"""
Mechanisms as pictures
======================

Each panel shows true labels from left to right and reported values from bottom to top. Dark colours are pairs that occur often. All mechanisms cost
the same ε = 3. A good mechanism for a model has its mass along the diagonal or evenly around it.
"""

import numpy as np

from labeldp import Domain, Prior, plots
from labeldp.mechanisms import (
    BiasVariance,
    DiscreteLaplace,
    DiscreteStaircase,
    Exponential,
    RandomizedResponse,
    RROnBins,
    RRWithPrior,
    Unbiased,
)

domain, epsilon = Domain.integers(0, 52), 3
weeks = np.arange(53)
prior = Prior(weeks, np.exp(-(((weeks - 22) / 11) ** 2) / 2))
mechanisms = [
    RROnBins.optimal(prior, epsilon),
    BiasVariance.optimal(prior, epsilon, tau=0.02),
    Unbiased.optimal(prior, epsilon),
    RRWithPrior(prior, epsilon),
    RandomizedResponse(domain, epsilon),
    DiscreteLaplace(domain, epsilon),
    DiscreteStaircase(domain, epsilon),
    Exponential(domain, epsilon),
]

picture = plots.new_figure(5.2, 10.4)
for axes, mechanism in zip(picture.subplots(4, 2, sharex=True, sharey=True).flat, mechanisms, strict=True):
    mechanism.plot(prior, view="joint", ax=axes)
    axes.set_title(f"{type(mechanism).__name__}\nerror of a label {mechanism.expected_loss(prior):,.0f}", fontsize=9)
    axes.label_outer()
in_words = (
    f"Panels of true against reported weeks worked at ε = {epsilon}. Mean squared errors of a label: "
    + ", ".join(f"{type(mechanism).__name__} {mechanism.expected_loss(prior):,.0f}" for mechanism in mechanisms)
)
