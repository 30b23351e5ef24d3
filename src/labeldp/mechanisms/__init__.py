"""Mechanisms: immutable objects with one small interface, and the registry that lists them.

`auto` chooses one for training, `decoding` turns codes into values, `proof` proves ε.
"""

from labeldp.mechanisms.auto import Choice, alternatives, choose
from labeldp.mechanisms.bias_variance import BiasVariance, Unbiased
from labeldp.mechanisms.continuous import ContinuousExponential, ContinuousMechanism, Laplace, Staircase
from labeldp.mechanisms.decoding import code_values, posterior_means, refined_means
from labeldp.mechanisms.finite import AUTO, FiniteMechanism, design, releasable
from labeldp.mechanisms.grid_noise import DiscreteLaplace, DiscreteStaircase, Exponential
from labeldp.mechanisms.mechanism import Mechanism
from labeldp.mechanisms.prediction import Prediction, label_share
from labeldp.mechanisms.private_labels import PrivateLabels
from labeldp.mechanisms.proof import Proof, verify
from labeldp.mechanisms.randomized_response import RandomizedResponse, RROnBins, RRWithPrior
from labeldp.mechanisms.registry import MECHANISMS, Request
from labeldp.mechanisms.rp_with_prior import RPWithPrior

__all__ = [
    "AUTO",
    "MECHANISMS",
    "BiasVariance",
    "Choice",
    "ContinuousExponential",
    "ContinuousMechanism",
    "DiscreteLaplace",
    "DiscreteStaircase",
    "Exponential",
    "FiniteMechanism",
    "Laplace",
    "Mechanism",
    "Prediction",
    "PrivateLabels",
    "Proof",
    "RPWithPrior",
    "RROnBins",
    "RRWithPrior",
    "RandomizedResponse",
    "Request",
    "Staircase",
    "Unbiased",
    "alternatives",
    "choose",
    "code_values",
    "design",
    "label_share",
    "posterior_means",
    "refined_means",
    "releasable",
    "verify",
]
