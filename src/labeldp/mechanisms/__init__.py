"""Mechanisms: frozen values with one small interface, and the registry that lists them.

`auto` chooses one for training, `decoding` turns codes into values, `finite` proves ε. May import `binning`, `channels`,
`sampling`, `priors`, `plots` and below.
"""

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.bias_variance import BiasVariance, Unbiased
from labeldp.mechanisms.continuous import ContinuousExponential, ContinuousMechanism, Laplace, Staircase
from labeldp.mechanisms.finite import AUTO, FiniteMechanism, design, releasable
from labeldp.mechanisms.grid_noise import DiscreteLaplace, DiscreteStaircase, Exponential
from labeldp.mechanisms.private_labels import PrivateLabels
from labeldp.mechanisms.randomized_response import RandomizedResponse, RROnBins, RRWithPrior
from labeldp.mechanisms.registry import MECHANISMS, Request
from labeldp.mechanisms.rp_with_prior import RPWithPrior

__all__ = [
    "AUTO",
    "MECHANISMS",
    "BiasVariance",
    "ContinuousExponential",
    "ContinuousMechanism",
    "DiscreteLaplace",
    "DiscreteStaircase",
    "Exponential",
    "FiniteMechanism",
    "Laplace",
    "Mechanism",
    "PrivateLabels",
    "RPWithPrior",
    "RROnBins",
    "RRWithPrior",
    "RandomizedResponse",
    "Request",
    "Staircase",
    "Unbiased",
    "design",
    "releasable",
]
