"""The size of a learner for noisy labels, from the share of a true label that a private value is worth (`label_share`)."""

from typing import Any


def boosting_settings(records: int, share: float = 1.0) -> dict[str, Any]:
    """Return settings of scikit-learn's `HistGradientBoostingRegressor` for training on private labels.

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
    >>> from labeldp.learn import boosting_settings
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
    """Return `boosting_settings` for the residuals of a straight line: down to a third of the trees while labels are worth little."""
    settings = boosting_settings(records, share)
    part = min(1.0, max(1 / 3, share, records * share / 6000))
    return settings | {"max_iter": max(5, int(settings["max_iter"] * part))}
