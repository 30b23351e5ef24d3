"""The distribution that is nearest to a noisy histogram."""

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput


def project_counts(noisy: NDArray[np.int64] | Floats, records: int) -> Floats:
    """The probabilities that are nearest to a noisy histogram, in least squares.

    Negative counts alone could be clipped to zero, but then the positive noise of every empty cell would stay as mass, and many
    empty cells would look like a long tail. The number of records is public, so the true counts are known to sum to it. The
    nearest such counts are found by subtracting one constant from all cells before clipping: a projection onto the
    simplex, in O(k log k).

    Parameters
    ----------
    noisy : array of int or float
        The noisy count of each cell.
    records : int
        The number of labels, which is public.

    Returns
    -------
    array of float64
        The probability of each cell; they sum to one.

    Raises
    ------
    InvalidInput
        If there are no records.

    Privacy
    -------
    It reads the noisy counts and a public number only, so it costs nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.priors import project_counts
    >>> project_counts(np.array([60, 50, 5, -5]), records=100).tolist()
    [0.55, 0.45, 0.0, 0.0]
    """
    if records < 1:
        raise InvalidInput(f"the number of records must be at least 1, got {records}")
    counts = np.asarray(noisy, np.float64)
    counts = counts - counts.max()  # the answer is the same; only the rounding improves
    falling = np.sort(counts)[::-1]
    surplus = (np.cumsum(falling) - records) / np.arange(1, counts.size + 1)
    kept = np.flatnonzero(falling > surplus)[-1]
    masses = np.maximum(counts - surplus[kept], 0.0)
    return np.asarray(masses / masses.sum())
