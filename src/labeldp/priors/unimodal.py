"""A prior from a noisy histogram that has few records for its cells: the shape of most labels, used to take noise out.

Purchase values, durations and counts pile up somewhere and thin out. Noise does not: added to hundreds of empty cells it
looks like a long tail, and a mechanism designed for labels that are not there is far too wide. So the noisy counts are
fitted by curves that rise to one mode and fall after it. Not every histogram is such a curve, so:

- the two ends, where clipped labels heap up, are taken as they are;
- cells that stand out more than noise does are taken as they are (zero visits, 40 hours, 52 weeks);
- where the mode is doubtful, the fits for all modes are averaged by how well they fit. With very few records that is
  nearly flat, with many it is one curve;
- the share scale/n, which noise as large as one cell's makes uncertain, is spread over all cells.

Labels with several broad modes are described less well than by a projection (`denoise.project_counts`), and all others
much better. All of this reads the noisy counts and public numbers alone and costs no privacy. docs/beyond-the-paper.md
has figures.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from labeldp.arrays import Floats
from labeldp.priors.projection import project_counts

_MODES = 200
_WORK = 20_000_000
_FALSE_SPIKES = 0.1
"""Expected number of cells that noise alone makes stand out."""
_DOUBT = 4.0
"""Fits are compared at this multiple of the noise's variance, because the best of many modes also fits noise."""


def unimodal_masses(noisy: NDArray[np.int64] | Floats, records: int, scale: float) -> Floats:
    """Masses for a histogram of `records` labels with Laplace noise of `scale` on each cell."""
    counts = np.asarray(noisy, np.float64)
    flat = min(1.0, scale / records)
    masses = _shaped(counts, records, scale) if counts.size >= 5 else project_counts(counts, records)
    return (1 - flat) * masses + flat / counts.size


def _shaped(counts: Floats, records: int, scale: float) -> Floats:
    """The masses of the fits with one mode, averaged."""
    alone = np.zeros(counts.size, bool)
    alone[[0, -1]] = True
    errors = _errors(counts[~alone])
    best = _fit(counts[~alone], min(errors, key=errors.__getitem__))
    standing_out = np.abs(counts[~alone] - best) > scale * np.log(counts.size / _FALSE_SPIKES)
    if standing_out.any() and not standing_out.all():
        alone[np.flatnonzero(~alone)[standing_out]] = True
        errors = _errors(counts[~alone])
    least = min(errors.values())
    masses, total = np.zeros(counts.size), 0.0
    for mode, error in errors.items():
        weight = float(np.exp((least - error) / (_DOUBT * 4 * scale**2)))  # Laplace noise has variance 2·scale²
        if weight > 1e-3:
            fitted = counts.copy()
            fitted[~alone] = _fit(counts[~alone], mode)
            masses += weight * project_counts(fitted, records)
            total += weight
    return masses / total


def _errors(counts: Floats) -> dict[int, float]:
    """The squared error of the best fit for each mode tried: all of them, or evenly spaced ones where there are many."""
    tried = min(counts.size, _MODES, max(2, _WORK // counts.size))
    modes = np.unique(np.linspace(0, counts.size - 1, tried).astype(np.int64)).tolist()
    return {mode: float(np.sum((_fit(counts, mode) - counts) ** 2)) for mode in modes}


def _fit(counts: Floats, mode: int) -> Floats:
    """The nearest counts that rise up to `mode` and fall after it."""
    rising = isotonic_regression(counts[: mode + 1]).x
    if mode + 1 == counts.size:
        return np.asarray(rising)
    return np.concatenate([rising, isotonic_regression(counts[mode + 1 :], increasing=False).x])
