"""The distribution nearest to a noisy histogram."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput


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
