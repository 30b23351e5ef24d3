"""How large a learner noisy labels deserve: what a private value is worth, and the settings that follow from it."""

from __future__ import annotations

from typing import Any

from labeldp.arrays import Floats
from labeldp.mechanisms import FiniteMechanism
from labeldp.priors import Prior


def label_share(mechanism: FiniteMechanism, values: Floats, prior: Prior | None = None) -> float:
    """The share of a true label that a private value tells about a mean: corr(value, label)² under the prior.

    n private values are worth n·share true labels. The prior is the mechanism's own unless given; without any, 1.
    """
    prior = prior or mechanism.prior
    if prior is None:
        return 1.0
    means, variances = mechanism.conditional_moments(prior.values, values)
    spread = float(prior.masses @ (variances + means**2)) - float(prior.masses @ means) ** 2
    shared = float(prior.masses @ (means * (prior.values - prior.mean)))
    if spread <= 0 or prior.variance <= 0:
        return 0.0
    return min(1.0, shared**2 / (spread * prior.variance))


def boosting_settings(records: int, share: float = 1.0) -> dict[str, Any]:
    """Parameters of scikit-learn's `HistGradientBoostingRegressor` for `records` values, each worth `share` of a true label.

    A leaf should hold about twenty true labels' worth of records, and the trees stay small and few while there are few
    of those; with many the defaults come back. Give categories as ordinary codes, not as `categorical_features`: sorting
    categories by their noisy means fits the noise (docs/beyond-the-paper.md has the figures).
    """
    effective = records * share
    return {
        "max_leaf_nodes": int(min(31, 3 + effective // 1500)),
        "max_iter": int(min(100, max(15, effective / 5), 60 + effective // 500)),
        "min_samples_leaf": int(max(1, min(20 / max(share, 1e-9), records / 4))),
        "early_stopping": False,
    }
