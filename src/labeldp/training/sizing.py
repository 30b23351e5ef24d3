"""How large a learner should be for noisy labels: what a private value is worth, and the settings that follow."""

from typing import Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.mechanisms import FiniteMechanism
from labeldp.priors import Prior


def label_share(mechanism: FiniteMechanism, values: Floats, prior: Prior | None = None) -> float:
    """The share of a true label that one private value is worth: corr(value, label)² under the prior.

    An average of n private values is as accurate as one of n·share true labels.

    Parameters
    ----------
    mechanism : FiniteMechanism
        The mechanism that randomizes the labels.
    values : array of float
        The value that stands for each code in training, see `code_values`.
    prior : Prior, optional
        The distribution of the labels. By default the mechanism's own.

    Returns
    -------
    float
        The share, from 0 to 1. It is 1 if there is no prior.

    Examples
    --------
    >>> from labeldp import Prior, RROnBins, code_values, label_share
    >>> prior = Prior([0, 1, 2], [1, 1, 1])
    >>> weak, strong = RROnBins.optimal(prior, 0.5), RROnBins.optimal(prior, 4)
    >>> round(label_share(weak, code_values(weak, "debiased")), 3)
    0.04
    >>> round(label_share(strong, code_values(strong, "debiased")), 3)
    0.897

    """
    prior = prior or mechanism.prior
    return 1.0 if prior is None else value_share(mechanism, values, prior, prior.values)


def value_share(mechanism: FiniteMechanism, values: Floats, prior: Prior, function: Floats) -> float:
    """corr(value, h(label))² under a prior, for a function h given at the prior's labels: `label_share` of any function."""
    means, variances = mechanism.conditional_moments(prior.values, values)
    centre = float(prior.masses @ function)
    spread = float(prior.masses @ (variances + means**2)) - float(prior.masses @ means) ** 2
    shared = float(prior.masses @ (means * (function - centre)))
    whole = float(prior.masses @ np.square(function - centre))
    if spread <= 0 or whole <= 0:
        return 0.0
    return min(1.0, (shared / spread) * (shared / whole))  # squares of huge labels would overflow


def boosting_settings(records: int, share: float = 1.0) -> dict[str, Any]:
    """Settings of scikit-learn's `HistGradientBoostingRegressor` for training on private labels.

    A leaf holds records worth about twenty true labels. Trees are small and few while there is little to learn from; with
    many records the settings are scikit-learn's defaults. Give categories as ordinary codes, not as
    `categorical_features`: sorting categories by their noisy means fits the noise (docs/concepts/beyond-the-paper.md has the
    figures).

    Parameters
    ----------
    records : int
        The number of private labels.
    share : float
        The share of a true label that each is worth, see `label_share`.

    Returns
    -------
    dict
        Keyword arguments for `HistGradientBoostingRegressor`.

    Examples
    --------
    >>> from labeldp import boosting_settings
    >>> boosting_settings(10_000, share=0.1)
    {'max_leaf_nodes': 3, 'max_iter': 62, 'min_samples_leaf': 200, 'early_stopping': False}

    """
    effective = records * share
    return {
        "max_leaf_nodes": int(min(31, 3 + effective // 1500)),
        "max_iter": int(min(100, max(15, effective / 5), 60 + effective // 500)),
        "min_samples_leaf": int(max(1, min(20 / max(share, 1e-9), records / 4))),
        "early_stopping": False,
    }


def after_a_line(records: int, share: float) -> dict[str, Any]:
    """`boosting_settings` for what a straight line leaves: down to a third of the trees while labels are worth little."""
    settings = boosting_settings(records, share)
    part = min(1.0, max(1 / 3, share, records * share / 6000))
    return settings | {"max_iter": max(5, int(settings["max_iter"] * part))}
