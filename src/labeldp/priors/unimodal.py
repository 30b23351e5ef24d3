"""Distributions from noisy histograms: a projection, and a fit with one mode.

Purchase values, durations and counts are common around one value and become rarer away from it. Noise added to hundreds of
empty cells looks like a long tail instead, and a mechanism designed for a tail that does not exist wastes its range. So the
noisy counts are fitted by curves that rise to one mode and fall after it. Real histograms differ from such a curve, so:

- the first and the last cell, where clipped labels pile up, keep their counts;
- cells that differ from the curve by more than noise does keep their counts (zero visits, 40 hours, 52 weeks);
- where the position of the mode is uncertain, the fits for all positions are averaged, weighted by how well they fit. With
  very few records the average is nearly flat, with many it is a single curve;
- if most labels are at a bound (zero, for rare counts and amounts), the others are assumed to become rarer away from
  it, unless the counts clearly contradict this;
- the share scale/n of the mass, which is the size of the noise in one cell, is spread evenly over all cells.

A projection (`project_counts`) describes labels with several broad modes better, and all others much worse. See
docs/concepts/beyond-the-paper.md for figures.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, compiled
from labeldp.errors import InvalidInput

_MOST_MODES = 200
_MOST_WORK = 20_000_000
"""Cells times modes: with more cells, fewer modes are tried."""
_FALSE_OUTLIERS = 0.1
"""The expected number of cells that stand out because of noise alone."""
_AWAY_FROM_ATOM = 10.0
"""The weight of the fit that falls away from a bound with most of the labels, relative to all other fits together."""
_VARIANCE_FACTOR = 4.0
"""Fits are compared as if the noise had its variance times this factor, because the best of many modes also fits noise."""


def project_counts(noisy: NDArray[np.int64] | Floats, records: int) -> Floats:
    """Return the probabilities that are nearest to a noisy histogram, in least squares.

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
        If the number of records is below 1.

    Privacy
    -------
    It uses only the noisy counts and a public number, so it costs nothing.

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


def unimodal_masses(noisy: NDArray[np.int64] | Floats, records: int, scale: float) -> Floats:
    """Return the probabilities of a noisy histogram, under the assumption that most labels have one mode.

    Parameters
    ----------
    noisy : array of int or float
        Counts with Laplace noise.
    records : int
        The number of labels, which is public.
    scale : float
        The scale of the noise.

    Returns
    -------
    array of float64
        The probability of each cell; they sum to one.

    Privacy
    -------
    It uses only the noisy counts and public numbers, so it costs nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.priors import unimodal_masses
    >>> noisy = np.array([40, 160, 420, 210, 90, 55, 12, -9, 11, -8])
    >>> unimodal_masses(noisy, records=1000, scale=10.0).round(2).tolist()
    [0.04, 0.16, 0.42, 0.21, 0.09, 0.06, 0.01, 0.0, 0.0, 0.0]
    """
    counts = np.asarray(noisy, np.float64)
    flat = min(1.0, scale / records)
    masses = _average_fit(counts, records, scale) if counts.size >= 5 else project_counts(counts, records)
    return (1 - flat) * masses + flat / counts.size


def _average_fit(counts: Floats, records: int, scale: float) -> Floats:
    """Return the average of the fits for all modes, weighted by how well they fit."""
    kept = np.zeros(counts.size, bool)
    kept[[0, -1]] = True
    errors = _errors(counts[~kept])
    best = _fit(counts[~kept], min(errors, key=errors.__getitem__))
    outliers = np.abs(counts[~kept] - best) > scale * np.log(counts.size / _FALSE_OUTLIERS)
    if outliers.any() and not outliers.all():
        kept[np.flatnonzero(~kept)[outliers]] = True
        errors = _errors(counts[~kept])
    least = min(errors.values())
    near = {mode for mode, end in ((min(errors), 0), (max(errors), -1)) if counts[end] > records / 2}
    masses, total = np.zeros(counts.size), 0.0
    for mode, error in errors.items():
        weight = float(np.exp((least - error) / (_VARIANCE_FACTOR * 4 * scale**2)))  # noise variance: 2·scale²
        weight *= _AWAY_FROM_ATOM * len(errors) if mode in near else 1.0
        if weight > 1e-3:
            fitted = counts.copy()
            fitted[~kept] = _fit(counts[~kept], mode)
            masses += weight * project_counts(fitted, records)
            total += weight
    return masses / total


def _errors(counts: Floats) -> dict[int, float]:
    """Return the squared error of the best fit for each mode: for all cells as modes, or for evenly spaced ones if there are many."""
    tried = min(counts.size, _MOST_MODES, max(2, _MOST_WORK // counts.size))
    modes = np.unique(np.linspace(0, counts.size - 1, tried).astype(np.int64)).tolist()
    return {mode: float(np.sum((_fit(counts, mode) - counts) ** 2)) for mode in modes}


def _fit(counts: Floats, mode: int) -> Floats:
    """Return the nearest counts that rise up to `mode` and fall after it."""
    fitted = np.empty(counts.size)
    _fit_rising(counts[: mode + 1], fitted[: mode + 1])
    falling = np.empty(counts.size - mode - 1)
    _fit_rising(np.ascontiguousarray(counts[:mode:-1]), falling)
    fitted[mode + 1 :] = falling[::-1]
    return fitted


@compiled
def _fit_rising(values: Any, fitted: Any) -> None:
    """Compute the non-decreasing numbers nearest to `values`, in least squares, by pooling adjacent violators. O(n).

    `scipy.optimize.isotonic_regression` gives the same result, and tests compare them. Its import takes longer than a
    whole small release.
    """
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
