"""The private histogram that estimates a prior: exact counts plus integer Laplace noise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats, label_array
from labeldp.budget import Epsilon, exact_epsilon, float_up
from labeldp.domain import Domain, OutOfRange
from labeldp.priors.prior import Prior


def private_prior(
    labels: Any, domain: Domain | tuple[float, float], epsilon: Epsilon, *, out_of_range: OutOfRange = "clip"
) -> Prior:
    """An ε-label-DP estimate of the distribution of `labels` on the domain's grid.

    Privacy: replacing one label moves two counts by one, so integer Laplace noise of scale 2/ε on every cell (OpenDP's
    exact sampler) makes the histogram ε-DP; clipping at zero and normalising are post-processing. `epsilon_exact` of
    the result is 2/scale, never above the ε asked for.
    """
    budget = exact_epsilon(epsilon)
    values = label_array(labels)
    grid = Domain.of(domain).resolve(values.size, float(budget))
    counts = histogram(grid.check(values, out_of_range), grid)
    return prior_from_counts(counts, grid, float_up(2 / budget))


def histogram(labels: Floats, domain: Domain) -> NDArray[np.int64]:
    """Exact counts per cell: as private as the labels themselves."""
    return np.bincount(domain.cell(labels), minlength=len(domain.grid)).astype(np.int64)


def prior_from_counts(counts: NDArray[np.int64], domain: Domain, scale: float) -> Prior:
    """The private prior from exact counts and a noise scale: 2/scale-DP. Nothing left after clipping: uniform."""
    noisy = np.maximum(noisy_counts(counts, scale), 0)
    masses = noisy.astype(np.float64) if noisy.any() else np.ones(noisy.size)
    return Prior(domain.grid, masses, 2 / Fraction(scale))


def noisy_counts(counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Counts with integer Laplace noise from OpenDP's exact sampler: 2/scale-DP for replacing one label."""
    from opendp.domains import atom_domain, vector_domain  # the prelude would load scikit-learn as well
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    noisy = make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)
    return np.asarray(noisy(counts.tolist()), np.int64)
