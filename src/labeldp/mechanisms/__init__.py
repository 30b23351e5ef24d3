"""Mechanisms: one file each, all frozen values with the same small interface, and the catalogue that lists them.

`auto` chooses one for training, `decoding` says what codes stand for, `proof` proves ε. May import `binning`, `channels`,
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
