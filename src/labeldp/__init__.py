"""labeldp: train regression models when the labels are private.

Start with `LabelRandomizer` (labels in an array), `privatize` (labels in a file) or `LabelDPRegressor` (both sides in one
hand); `docs/` explains what stands behind them. Names are imported when first used.

Examples
--------
>>> import numpy as np, labeldp
>>> labels = np.minimum(np.random.default_rng(0).exponential(90, 100_000), 400)
>>> private = labeldp.LabelRandomizer(epsilon=1.0, domain=(0, 400)).randomize(labels)
>>> private.values("debiased").shape
(100000,)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.audit import Measurement, measure, verify
    from labeldp.binning import Bins, optimal_bins
    from labeldp.domain import Domain
    from labeldp.engines.arrow.source import LabelSource
    from labeldp.errors import InsufficientBudget, InvalidInput, LabelDPError, PrivacyRefused
    from labeldp.evaluation.cross_validation import cross_validated_error
    from labeldp.evaluation.estimates import ErrorEstimate, Estimate, estimate_error, estimate_gain, estimate_mean
    from labeldp.evaluation.scorer import noise_corrected_scorer
    from labeldp.losses import Loss, get_loss
    from labeldp.mechanisms import (
        BiasVariance,
        ContinuousExponential,
        DiscreteLaplace,
        DiscreteStaircase,
        Exponential,
        FiniteMechanism,
        Laplace,
        Mechanism,
        PrivateLabels,
        RandomizedResponse,
        RROnBins,
        RRWithPrior,
        Staircase,
        Unbiased,
    )
    from labeldp.mechanisms.auto import Choice, alternatives, choose
    from labeldp.mechanisms.comparison import Comparison, compare
    from labeldp.mechanisms.decoding import code_values
    from labeldp.mechanisms.posterior import posterior_means, refined_means
    from labeldp.mechanisms.proof import Proof
    from labeldp.message import Message
    from labeldp.priors import BudgetWarning, Prior, private_prior
    from labeldp.randomizer import LabelRandomizer
    from labeldp.release.apply import apply
    from labeldp.release.ledger import Ledger, key_fingerprint
    from labeldp.release.privatize import ReleaseOutcome, privatize
    from labeldp.sampling import KeyedRandomness, OsEntropy
    from labeldp.training.boosting import BoostingRegressor
    from labeldp.training.joining import Joined, join
    from labeldp.training.regressor import LabelDPRegressor
    from labeldp.training.saved import SavedModel
    from labeldp.training.sizing import boosting_settings, label_share

_NAMES_IN = {
    "labeldp.audit": "Measurement measure verify",
    "labeldp.binning": "Bins optimal_bins",
    "labeldp.domain": "Domain",
    "labeldp.engines.arrow.source": "LabelSource",
    "labeldp.errors": "InsufficientBudget InvalidInput LabelDPError PrivacyRefused",
    "labeldp.evaluation.cross_validation": "cross_validated_error",
    "labeldp.evaluation.estimates": "ErrorEstimate Estimate estimate_error estimate_gain estimate_mean",
    "labeldp.evaluation.scorer": "noise_corrected_scorer",
    "labeldp.losses": "Loss get_loss",
    "labeldp.mechanisms": "BiasVariance ContinuousExponential DiscreteLaplace DiscreteStaircase Exponential FiniteMechanism Laplace Mechanism PrivateLabels RROnBins RRWithPrior RandomizedResponse Staircase Unbiased",
    "labeldp.mechanisms.auto": "Choice alternatives choose",
    "labeldp.mechanisms.comparison": "Comparison compare",
    "labeldp.mechanisms.decoding": "code_values",
    "labeldp.mechanisms.posterior": "posterior_means refined_means",
    "labeldp.mechanisms.proof": "Proof",
    "labeldp.message": "Message",
    "labeldp.priors": "BudgetWarning Prior private_prior",
    "labeldp.randomizer": "LabelRandomizer",
    "labeldp.release.apply": "apply",
    "labeldp.release.ledger": "Ledger key_fingerprint",
    "labeldp.release.privatize": "ReleaseOutcome privatize",
    "labeldp.sampling": "KeyedRandomness OsEntropy",
    "labeldp.training.boosting": "BoostingRegressor",
    "labeldp.training.joining": "Joined join",
    "labeldp.training.regressor": "LabelDPRegressor",
    "labeldp.training.saved": "SavedModel",
    "labeldp.training.sizing": "boosting_settings label_share",
}
_ROOM_OF = {name: room for room, names in _NAMES_IN.items() for name in names.split()}

__all__ = [
    "BiasVariance",
    "Bins",
    "BoostingRegressor",
    "BudgetWarning",
    "Choice",
    "Comparison",
    "ContinuousExponential",
    "DiscreteLaplace",
    "DiscreteStaircase",
    "Domain",
    "ErrorEstimate",
    "Estimate",
    "Exponential",
    "FiniteMechanism",
    "InsufficientBudget",
    "InvalidInput",
    "Joined",
    "KeyedRandomness",
    "LabelDPError",
    "LabelDPRegressor",
    "LabelRandomizer",
    "LabelSource",
    "Laplace",
    "Ledger",
    "Loss",
    "Measurement",
    "Mechanism",
    "Message",
    "OsEntropy",
    "Prior",
    "PrivacyRefused",
    "PrivateLabels",
    "Proof",
    "RROnBins",
    "RRWithPrior",
    "RandomizedResponse",
    "ReleaseOutcome",
    "SavedModel",
    "Staircase",
    "Unbiased",
    "alternatives",
    "apply",
    "boosting_settings",
    "choose",
    "code_values",
    "compare",
    "cross_validated_error",
    "estimate_error",
    "estimate_gain",
    "estimate_mean",
    "get_loss",
    "join",
    "key_fingerprint",
    "label_share",
    "measure",
    "noise_corrected_scorer",
    "optimal_bins",
    "posterior_means",
    "private_prior",
    "privatize",
    "refined_means",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("labeldp")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    return getattr(import_module(_ROOM_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
