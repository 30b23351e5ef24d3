"""labeldp: train regression models when the labels are private.

    >>> import numpy as np, labeldp
    >>> labels = np.minimum(np.random.default_rng(0).exponential(90, 100_000), 400)
    >>> private = labeldp.LabelRandomizer(epsilon=1.0, domain=(0, 400)).randomize(labels)
    >>> private.values("debiased").shape
    (100000,)

Start with `LabelRandomizer`; `docs/` explains what stands behind it. Names are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.binning import Bins, optimal_bins
    from labeldp.domain import Domain
    from labeldp.learn.regressor import LabelDPRegressor
    from labeldp.ledger import Ledger
    from labeldp.mechanisms import (
        BiasVariance,
        ContinuousExponential,
        DiscreteLaplace,
        DiscreteStaircase,
        Exponential,
        Laplace,
        Mechanism,
        RandomizedResponse,
        RROnBins,
        RRWithPrior,
        Staircase,
        Unbiased,
    )
    from labeldp.prior import Prior, private_prior
    from labeldp.randomizer import LabelRandomizer, PrivateLabels
    from labeldp.sampling import KeyedRandomness, OsEntropy

_ROOMS = {
    "labeldp.binning": ("Bins", "optimal_bins"),
    "labeldp.domain": ("Domain",),
    "labeldp.learn.regressor": ("LabelDPRegressor",),
    "labeldp.ledger": ("Ledger",),
    "labeldp.mechanisms": (
        "BiasVariance",
        "ContinuousExponential",
        "DiscreteLaplace",
        "DiscreteStaircase",
        "Exponential",
        "Laplace",
        "Mechanism",
        "RROnBins",
        "RRWithPrior",
        "RandomizedResponse",
        "Staircase",
        "Unbiased",
    ),
    "labeldp.prior": ("Prior", "private_prior"),
    "labeldp.randomizer": ("LabelRandomizer", "PrivateLabels"),
    "labeldp.sampling": ("KeyedRandomness", "OsEntropy"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "BiasVariance",
    "Bins",
    "ContinuousExponential",
    "DiscreteLaplace",
    "DiscreteStaircase",
    "Domain",
    "Exponential",
    "KeyedRandomness",
    "LabelDPRegressor",
    "LabelRandomizer",
    "Laplace",
    "Ledger",
    "Mechanism",
    "OsEntropy",
    "Prior",
    "PrivateLabels",
    "RROnBins",
    "RRWithPrior",
    "RandomizedResponse",
    "Staircase",
    "Unbiased",
    "optimal_bins",
    "private_prior",
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
