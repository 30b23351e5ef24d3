"""Mechanisms: one file each, all frozen values with the same small interface, and the catalogue that lists them.

`auto` chooses one for training, `decoding` says what codes stand for, `proof` proves ε. May import `binning`, `channels`,
`sampling`, `priors`, `plots` and below.
"""

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.bias_variance import BiasVariance
from labeldp.mechanisms.by_name import AUTO, design, releasable
from labeldp.mechanisms.catalogue import MECHANISMS, Request
from labeldp.mechanisms.continuous import ContinuousMechanism
from labeldp.mechanisms.discrete_laplace import DiscreteLaplace
from labeldp.mechanisms.discrete_staircase import DiscreteStaircase
from labeldp.mechanisms.exponential import Exponential
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.laplace import ContinuousExponential, Laplace
from labeldp.mechanisms.private_labels import PrivateLabels
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.rp_with_prior import RPWithPrior
from labeldp.mechanisms.rr_on_bins import RROnBins
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.mechanisms.staircase import Staircase
from labeldp.mechanisms.unbiased import Unbiased

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
