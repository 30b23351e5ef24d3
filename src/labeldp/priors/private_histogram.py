"""A prior estimated by a private histogram: exact counts plus integer Laplace noise."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon, float_up
from labeldp.domain import Domain, OutOfRange
from labeldp.priors.prior import Prior
from labeldp.priors.published_counts import NoisyCounts
from labeldp.sampling.integer_noise import add_laplace

_CACHED_ROWS = 1 << 16
"""So many labels are counted at a time, so that what lies between stays in the cache. With more cells it is as many as those."""


def private_prior(
    labels: Any, domain: Domain | tuple[float, float], epsilon: Epsilon, *, out_of_range: OutOfRange = "clip"
) -> Prior:
    """An ε-label-DP estimate of the distribution of `labels` on the domain's grid.

    Parameters
    ----------
    labels : array-like
        A list, or a NumPy, pandas, polars or Arrow array of numbers.
    domain : Domain or tuple of (float, float)
        The public bounds. Without a number of cells, it is chosen from the number of labels and ε.
    epsilon : float, int, str, Decimal or Fraction
        What the estimate may cost.
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
    The estimate is ε-DP with respect to replacing one label. That moves two counts by one each, so every count gets integer
    Laplace noise of scale 2/ε from OpenDP's exact sampler. Clipping at zero and normalising are post-processing.

    Examples
    --------
    >>> from labeldp import Domain, private_prior
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
    """The number of labels in each cell of a grid.

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
    """The private prior from exact counts: noise is added, negative counts become zero.

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
    """The counts plus integer Laplace noise from OpenDP's exact sampler.

    Parameters
    ----------
    counts : array of int64
        The exact count of each cell.
    scale : float
        The scale of the noise.

    Returns
    -------
    array of int64
        Noisy counts, some of which may be negative.

    Privacy
    -------
    2/scale-DP with respect to replacing one label, which moves two counts by one each.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.priors import noisy_counts
    >>> noisy_counts(np.array([500, 300, 200]), scale=1e-3).tolist()
    [500, 300, 200]
    """
    return add_laplace(counts, scale)
