"""Post-processing that takes noise out again, from public numbers alone: no privacy is spent here.

- `project_counts`: a better prior from the same noisy histogram.
- `posterior_means`: the best guess of the label behind each code, given the prior.
- `refined_means`: the same for each record, with a model's own prediction as what is known about it.

What each is good for, with figures, is in docs/beyond-the-paper.md. In short: the first helps every mechanism; posterior
means estimate single labels best and train models worst, because they carry the prior's bias; refined means repair much
of that for a message of RR-on-Bins, and add nothing to what `auto` sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput

if TYPE_CHECKING:
    from labeldp.mechanisms.finite import FiniteMechanism
    from labeldp.prior import Prior

_TILTS = 129


def project_counts(noisy: NDArray[np.int64] | Floats, records: int) -> Floats:
    """The masses nearest to a noisy histogram of `records` labels, in the least-squares sense.

    Clipping at zero and normalising turns the noise of every empty cell into mass; with many cells that is a false tail.
    The number of records is public, so the counts are known to sum to it: the nearest such point subtracts one constant
    from all cells before clipping (projection on the simplex). O(k log k).
    """
    if records < 1:
        raise InvalidInput(f"the number of records must be at least 1, got {records}")
    counts = np.asarray(noisy, np.float64)
    counts = counts - counts.max()  # changes nothing but the rounding
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - records) / np.arange(1, counts.size + 1)
    held = np.flatnonzero(falling > excess)[-1]
    masses = np.maximum(counts - excess[held], 0.0)
    return np.asarray(masses / masses.sum())


def posterior_means(mechanism: FiniteMechanism, prior: Prior | None = None) -> Floats:
    """E[label | code] for each code, the least squared error of single labels under the prior (the mechanism's own)."""
    known = mechanism.prior if prior is None else prior
    if known is None:
        raise InvalidInput("posterior means need a prior, and this mechanism carries none")
    joint = known.masses[:, None] * mechanism.matrix(known.values)
    means: Floats = (known.values @ joint) / joint.sum(axis=0)
    return means


def refined_means(
    mechanism: FiniteMechanism, codes: NDArray[np.uint32], predictions: Floats, prior: Prior | None = None
) -> Floats:
    """E[label | code, prediction] for each record, the label's distribution being the prior tilted to mean `predictions`.

    One step of the idea behind ALIBI: train, take the predictions for what is known of each record, and train again on
    these means. Predictions are clipped into the range of the labels.
    """
    known = mechanism.prior if prior is None else prior
    if known is None:
        raise InvalidInput("refined means need a prior, and this mechanism carries none")
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
