"""Priors estimated by a private histogram: how ε is split, exact counts plus integer Laplace noise, and a fit with one mode.

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

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, compiled
from labeldp.budget import Epsilon, exact_epsilon, float_up
from labeldp.domain import Domain, OutOfRange
from labeldp.errors import InvalidInput
from labeldp.priors.prior import NoisyCounts, Prior
from labeldp.sampling.integer_noise import add_laplace

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


MAX_PRIOR_CELLS = 10_000_000

_CACHED_ROWS = 1 << 16
"""The number of labels counted at a time, so that intermediate arrays stay in the cache; the number of cells if that is larger."""


class BudgetWarning(UserWarning):
    """The budget is spent in a way that the user may want to change.

    Examples
    --------
    >>> import warnings
    >>> from labeldp import BudgetWarning
    >>> from labeldp.priors import split_budget
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     split_budget(1, cells=400, records=1000).warn()
    >>> issubclass(caught[0].category, BudgetWarning)
    True
    """


@dataclass(frozen=True)
class BudgetSplit:
    """A split of ε between the prior and the labels.

    Attributes
    ----------
    epsilon : fractions.Fraction
        The whole budget, exactly `epsilon_prior + epsilon_labels`.
    epsilon_prior : fractions.Fraction
        The cost of the private histogram: 2/scale.
    epsilon_labels : fractions.Fraction
        The rest, for the labels.
    scale : float
        The scale of the Laplace noise on each count of the histogram.
    advice : str or None
        A suggestion for the user. The code that spends the budget calls `warn` once, before it does.

    Examples
    --------
    >>> from labeldp.priors import split_budget
    >>> split = split_budget(1, cells=100, records=10_000)
    >>> float(split.epsilon_prior), float(split.epsilon_labels)
    (0.1, 0.9)
    """

    epsilon: Fraction
    epsilon_prior: Fraction
    epsilon_labels: Fraction
    scale: float
    advice: str | None = None

    @classmethod
    def spending(cls, most: Fraction, total: Fraction, advice: str | None) -> BudgetSplit:
        """Return the split that gives the prior at most `most`, and the labels the rest.

        Parameters
        ----------
        most : fractions.Fraction
            The most that the prior may cost. It costs slightly less if 2/most is not a float.
        total : fractions.Fraction
            The whole budget.
        advice : str or None
            The text for `warn`.

        Returns
        -------
        BudgetSplit
            With `epsilon_prior <= most`.
        """
        scale = float_up(2 / most)
        spent = 2 / Fraction(scale)
        return cls(total, spent, total - spent, scale, advice)

    def warn(self, stacklevel: int = 2) -> None:
        """Issue the advice, if there is any, as a `BudgetWarning`.

        Parameters
        ----------
        stacklevel : int, default 2
            The frame that the warning points at, as for `warnings.warn` in the caller.
        """
        if self.advice is not None:
            warnings.warn(self.advice, BudgetWarning, stacklevel=stacklevel + 1)


def split_budget(epsilon: Epsilon, cells: int, records: int) -> BudgetSplit:
    """Return the paper's split: ε₁ = √(cells/records) for the prior, but at most half of ε, and the rest for the labels.

    Parameters
    ----------
    epsilon : float, int, str, Decimal or Fraction
        The whole budget.
    cells : int
        The number of cells of the histogram.
    records : int
        The number of labels.

    Returns
    -------
    BudgetSplit
        With advice if the prior got only half of ε where the rule asks for more.

    Raises
    ------
    InvalidInput
        If the grid has more than n·ε² cells, because the noise would then drown the histogram.

    Examples
    --------
    >>> from labeldp.priors import split_budget
    >>> split_budget(1, cells=100, records=10_000).scale
    20.0
    """
    total = exact_epsilon(epsilon)
    check_histogram(cells, records)
    most = math.floor(records * total**2)
    if cells > most:
        remedy = (
            f"Use at most {most:,} cells"
            if most >= 2
            else f"Use at least {math.ceil(2 / total**2):,} records or a larger epsilon"
        )
        raise InvalidInput(
            f"{cells:,} cells are too many for {records:,} records at epsilon = {float(total):g}: there must be at most "
            f"records × epsilon² of them. {remedy}, or give a public prior, which costs nothing."
        )
    wanted = math.sqrt(cells / records)
    half = total / 2
    advice = (
        f"a good prior on this grid costs ε₁ = √({cells:,}/{records:,}) = {wanted:.3g}; it gets half of epsilon, {float(half):.3g}. "
        "Fewer cells leave more of the budget for the labels."
    )
    spent = min(half, Fraction(wanted))
    return BudgetSplit.spending(spent, total, advice if Fraction(wanted) > half else None)


def check_histogram(cells: int, records: int) -> None:
    """Raise `InvalidInput` for a private histogram of zero records or too many cells.

    Parameters
    ----------
    cells : int
        The number of cells.
    records : int
        The number of labels.

    Examples
    --------
    >>> from labeldp.priors import check_histogram
    >>> check_histogram(cells=401, records=0)
    Traceback (most recent call last):
    labeldp.errors.InvalidInput: there are no labels: a private prior needs at least one record
    """
    if records < 1:
        raise InvalidInput("there are no labels: a private prior needs at least one record")
    if cells > MAX_PRIOR_CELLS:
        raise InvalidInput(f"a private prior on {cells:,} cells is too large: give at most {MAX_PRIOR_CELLS:,} cells")


def private_prior(
    labels: Any, domain: Domain | tuple[float, float], epsilon: Epsilon, *, out_of_range: OutOfRange = "clip"
) -> Prior:
    """Return an ε-label-DP estimate of the distribution of `labels` on the domain's grid.

    Parameters
    ----------
    labels : array-like
        A list, or a NumPy, pandas, polars or Arrow array of numbers.
    domain : Domain or tuple of (float, float)
        The public bounds. Without a number of cells, it is chosen from the number of labels and ε.
    epsilon : float, int, str, Decimal or Fraction
        The most that the estimate may cost.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        Whether labels outside the bounds are moved to the nearer bound or raise an error.

    Returns
    -------
    Prior
        With `epsilon_exact` set to what the estimate cost, which is never more than `epsilon`.

    Raises
    ------
    InvalidInput
        If a label is missing or not a number, or, with "error", out of bounds.

    Privacy
    -------
    The estimate is ε-DP with respect to replacing one label. That changes two counts by one each, so every
    count gets integer Laplace noise of scale 2/ε from OpenDP's exact sampler. Clipping at zero and normalising are
    post-processing.

    Examples
    --------
    >>> from labeldp import Domain
    >>> from labeldp.priors import private_prior
    >>> prior = private_prior([3, 4, 4, 5] * 1000, Domain.integers(0, 9), epsilon=0.5)
    >>> len(prior), prior.epsilon
    (10, 0.5)
    """
    budget = exact_epsilon(epsilon)
    values = Domain.of(domain).check(labels, out_of_range)
    grid = Domain.of(domain).resolve(values.size, float(budget))
    counts = histogram(values, grid)
    return prior_from_counts(counts, grid, float_up(2 / budget))


def histogram(labels: Floats, domain: Domain) -> NDArray[np.int64]:
    """Return the number of labels in each cell of a grid.

    Parameters
    ----------
    labels : array of float64
        Labels within the domain's bounds.
    domain : Domain
        A domain with a grid.

    Returns
    -------
    array of int64
        The count of each cell.

    Privacy
    -------
    The counts are exact, so they are as sensitive as the labels.

    Examples
    --------
    >>> from labeldp import Domain
    >>> from labeldp.priors import histogram
    >>> histogram([0.1, 0.9, 2.0], Domain.integers(0, 3)).tolist()
    [1, 1, 1, 0]
    """
    counts = np.zeros(domain.count, np.int64)
    step = max(_CACHED_ROWS, counts.size)
    for start in range(0, len(labels), step):
        counts += np.bincount(domain.cell(labels[start : start + step]), minlength=counts.size)
    return counts


def prior_from_counts(counts: NDArray[np.int64], domain: Domain, scale: float) -> Prior:
    """Return the private prior from exact counts: noise is added, negative counts become zero.

    Parameters
    ----------
    counts : array of int64
        The exact count of each cell.
    domain : Domain
        The domain whose grid was counted.
    scale : float
        The scale of the Laplace noise.

    Returns
    -------
    Prior
        Uniform if no noisy count is positive. It carries the noisy counts, as `Prior.counts`.

    Privacy
    -------
    2/scale-DP with respect to replacing one label.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import Domain
    >>> from labeldp.priors import prior_from_counts
    >>> prior_from_counts(np.array([500, 300, 200]), Domain.integers(0, 2), scale=4.0).epsilon
    0.5
    """
    noisy = noisy_counts(counts, scale)
    masses = np.maximum(noisy, 0).astype(np.float64) if (noisy > 0).any() else np.ones(noisy.size)
    return Prior(domain.grid, masses, 2 / Fraction(scale), NoisyCounts(noisy, scale, int(counts.sum())))


def noisy_counts(counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Return the counts plus integer Laplace noise from OpenDP's exact sampler.

    Parameters
    ----------
    counts : array of int64
        The exact count of each cell.
    scale : float
        The scale of the noise.

    Returns
    -------
    array of int64
        Noisy counts. Some may be negative.

    Privacy
    -------
    2/scale-DP with respect to replacing one label, which changes two counts by one each.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.priors import noisy_counts
    >>> noisy_counts(np.array([500, 300, 200]), scale=1e-3).tolist()
    [500, 300, 200]
    """
    return add_laplace(counts, scale)
