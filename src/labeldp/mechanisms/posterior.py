"""The expected label behind a code: post-processing that takes noise out again and spends no privacy.

- `posterior_means`: the best guess of the label behind each code, given the prior.
- `refined_means`: the same for each record, starting from what a model predicts for it.

Posterior means estimate single labels best and train models worst, because they carry the prior's bias. Refined means
repair much of that for a message of RR-on-Bins, and add nothing to what `auto` sends. docs/concepts/beyond-the-paper.md has figures.
"""

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior

_TILTS = 129


def posterior_means(mechanism: FiniteMechanism, prior: Prior | None = None) -> Floats:
    """E[label | code] for each code: the guess of least squared error for a single label.

    Parameters
    ----------
    mechanism : FiniteMechanism
        What randomized the labels.
    prior : Prior, optional
        The distribution of the labels; the mechanism's own by default.

    Returns
    -------
    array of float64
        One guess a code.

    Examples
    --------
    >>> from labeldp import Prior, RROnBins, posterior_means
    >>> posterior_means(RROnBins([0, 10], epsilon=1), Prior([0, 10], [1, 1])).round(2)
    array([2.69, 7.31])
    """
    known = mechanism.prior if prior is None else prior
    if known is None:
        raise InvalidInput("posterior means need a prior, and this mechanism carries none: give prior=…")
    joint = known.masses[:, None] * mechanism.matrix(known.values)
    means: Floats = (known.values @ joint) / joint.sum(axis=0)
    return means


def refined_means(
    mechanism: FiniteMechanism, codes: NDArray[np.uint32], predictions: Floats, prior: Prior | None = None
) -> Floats:
    """E[label | code, prediction] for each record, to train on once more: one step of the idea behind ALIBI.

    What is known about a record's label before its code is seen is the prior, tilted so that its mean is the prediction.

    Parameters
    ----------
    mechanism : FiniteMechanism
        What randomized the labels.
    codes : array of uint32
        The record's codes.
    predictions : array of float64
        What a first model predicts; clipped into the range of the labels.
    prior : Prior, optional
        The distribution of the labels; the mechanism's own by default.

    Returns
    -------
    array of float64
        One guess a record.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import Prior, RROnBins, refined_means
    >>> mechanism, prior = RROnBins([0, 10], epsilon=1), Prior([0, 10], [1, 1])
    >>> refined_means(mechanism, np.array([0, 0, 1]), np.array([1.0, 5.0, 9.0]), prior).round(1)
    array([0.4, 2.7, 9.6])
    """
    known = mechanism.prior if prior is None else prior
    if known is None:
        raise InvalidInput("refined means need a prior, and this mechanism carries none: give prior=…")
    held = known.masses > 0
    labels, masses = known.values[held], known.masses[held]
    if labels.size == 1:
        return np.full(codes.shape, labels[0])
    unit = (labels - known.mean) / np.sqrt(known.variance)
    # A family of tilts exp(θ·y), close enough together to interpolate between.
    angles = 12 * np.linspace(-1, 1, _TILTS) ** 3
    exponents = angles[:, None] * unit
    tilted = masses * np.exp(exponents - exponents.max(axis=1, keepdims=True))
    tilted /= tilted.sum(axis=1, keepdims=True)
    channel = mechanism.matrix(labels)
    means = (tilted * labels) @ channel / (tilted @ channel)
    place = np.interp(predictions, tilted @ labels, np.arange(_TILTS))
    low = np.minimum(place.astype(np.int64), _TILTS - 2)
    share = place - low
    refined: Floats = (1 - share) * means[low, codes] + share * means[low + 1, codes]
    return refined
