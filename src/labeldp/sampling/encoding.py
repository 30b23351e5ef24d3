"""Labels to symbols: how many thresholds lie below each label."""

import numpy as np
from numpy.typing import NDArray

FEW = 24
"""Up to this many thresholds, counting is faster than bisection."""

BLOCK = 1 << 14
"""Labels per pass over the thresholds, so that a block stays in the first-level cache."""


def count_below(labels: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.uint32]:
    """The number of thresholds below each label: `np.searchsorted(thresholds, labels)`, but many times faster for few of them.

    Parameters
    ----------
    labels : array of float64
        The labels. NaN gives 0, so validate them first.
    thresholds : array of float64
        The thresholds in increasing order. A label on a threshold is not above it.

    Returns
    -------
    array of uint32
        A symbol for each label.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.sampling import count_below
    >>> count_below(np.array([0.5, 2.0, 9.0]), np.array([2.0, 5.0])).tolist()
    [0, 0, 2]
    """
    if thresholds.size > FEW:
        return np.searchsorted(thresholds, labels, side="left").astype(np.uint32)
    from labeldp.sampling._kernels import count_below_few

    labels = np.ascontiguousarray(labels, dtype=np.float64)
    thresholds = np.ascontiguousarray(thresholds, dtype=np.float64)
    symbols = np.empty(labels.shape, dtype=np.uint32)
    for start in range(0, labels.size, BLOCK):
        count_below_few(labels[start : start + BLOCK], thresholds, symbols[start : start + BLOCK])
    return symbols
