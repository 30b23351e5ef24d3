"""The compiled loop of `unimodal`. Imported on first use, because numba takes long to load.

`scipy.optimize.isotonic_regression` gives the same result, and tests compare them. Its import takes longer than a whole
small release.
"""

from typing import Any

import numba as nb
import numpy as np


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def fit_rising(values: Any, fitted: Any) -> None:  # pragma: no cover - compiled
    """Compute the non-decreasing numbers nearest to `values`, in least squares, by pooling adjacent violators. O(n)."""
    sums, counts = np.empty(values.size, np.float64), np.empty(values.size, np.int64)
    pools = 0
    for i in range(values.size):
        total, count = values[i], 1
        while pools > 0 and sums[pools - 1] * count >= total * counts[pools - 1]:
            pools -= 1
            total += sums[pools]
            count += counts[pools]
        sums[pools], counts[pools] = total, count
        pools += 1
    i = 0
    for pool in range(pools):
        for _ in range(counts[pool]):
            fitted[i] = sums[pool] / counts[pool]
            i += 1
