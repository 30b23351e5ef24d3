"""labeldp: train regression models when the labels are private.

Start with `LabelRandomizer` (labels in an array), `privatize` (labels in a file) or `LabelDPRegressor` (both sides in one
hand); `docs/` explains what stands behind them. Names are imported when first used.

Examples
--------
>>> import numpy as np, labeldp
>>> labels = np.minimum(np.random.default_rng(0).exponential(90, 100_000), 400)
>>> private = labeldp.LabelRandomizer(epsilon=1.0, domain=(0, 400)).randomize(labels)
>>> private.values().shape
(100000,)
"""

from importlib import import_module
from typing import Any

_NAMES_IN = {
    "advice": "Advice Risk advise",
    "audit": "Measurement measure verify",
    "binning": "Bins optimal_bins",
    "central.held_out": "HeldOutError held_out_error",
    "central.private_sums": "PrivateSums",
    "domain": "Domain",
    "engines.arrow.source": "LabelSource",
    "errors": "ClippingWarning InsufficientBudget InvalidInput LabelDPError PrivacyRefused RepeatedRelease",
    "evaluation.estimates": "ErrorEstimate Estimate estimate_error estimate_gain estimate_mean estimate_r2",
    "evaluation.scoring": "LossEstimate estimate_loss noise_corrected_scorer",
    "evaluation.summary": "cross_validated_error",
    "losses": "Loss get_loss",
    "mechanisms": "BiasVariance ContinuousExponential DiscreteLaplace DiscreteStaircase Exponential FiniteMechanism Laplace Mechanism PrivateLabels RPWithPrior RROnBins RRWithPrior RandomizedResponse Staircase Unbiased",
    "mechanisms.auto": "Choice alternatives choose",
    "mechanisms.comparison": "Comparison compare",
    "mechanisms.decoding": "code_values posterior_means refined_means",
    "mechanisms.finite": "Proof",
    "mechanisms.prediction": "label_share",
    "message": "Message",
    "priors": "BudgetWarning Prior private_prior",
    "randomizer": "LabelRandomizer",
    "release.apply": "apply",
    "release.ledger": "Ledger key_fingerprint",
    "release.outcome": "ReleaseOutcome",
    "release.labels": "privatize",
    "sampling": "KeyedRandomness OsEntropy",
    "training.conditional": "ConditionalRegressor",
    "training.joined_features": "Joined join",
    "training.learners": "BoostingRegressor",
    "training.regressor": "LabelDPRegressor",
    "training.saved": "SavedModel",
    "training.sizing": "boosting_settings",
    "training.suspects": "FeatureWarning",
    "training.train": "TrainingResult train",
}
"""The room of every public name; `__init__.pyi` says the same to type checkers."""
_ROOM_OF = {name: room for room, names in _NAMES_IN.items() for name in names.split()}

__all__ = sorted(_ROOM_OF)  # noqa: PLE0605 - one list, not two


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("labeldp")
    if name == "spark":  # a room of its own names, beside those of one machine
        return import_module("labeldp.spark")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    return getattr(import_module(f"labeldp.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
