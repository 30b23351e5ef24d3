"""The finitely many labels that a designed mechanism distinguishes, with their prior masses and their encoder."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms.mechanism import Encoder, Grid, Thresholds
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior
from labeldp.sampling import Table

DEFAULT_CELLS = 1001
"""The number of cells of a domain without a grid."""
MOST_LABELS = 2_001
"""The criterion is a matrix over all pairs of labels: beyond this size it takes minutes and gigabytes, and gains nothing."""
DESIGN_CELLS = 1001
"""The number of cells in a design whose domain has too many labels."""


def gridded(domain: Domain | tuple[float, float]) -> Domain:
    """Return the domain with a grid: its own, or `DEFAULT_CELLS` cells."""
    frame = Domain.of(domain)
    return frame if frame.cells is not None else frame.with_cells(DEFAULT_CELLS)


def window_values(domain: Domain, window: int) -> Floats:
    """Return the grid with `window` more cells on either side."""
    grid = domain.grid
    beyond = domain.step * np.arange(1, window + 1)
    return np.concatenate([domain.lower - beyond[::-1], grid, domain.upper + beyond])


def grid_parts(frame: Domain, budget: Fraction, table: Table, window: int = 0) -> dict[str, Any]:
    """Return the parts of a mechanism whose outputs are the cells of a grid, and `window` cells beyond each end."""
    outputs = window_values(frame, window)
    return {"encoder": Grid(frame), "table": table, "outputs": outputs, "epsilon_exact": budget, "domain": frame}


@dataclass(frozen=True, eq=False)
class Cells:
    """Label i is symbol i of `encoder` and has prior mass `masses[i]`."""

    labels: Floats
    masses: Floats
    encoder: Encoder
    domain: Domain | None

    @classmethod
    def of(cls, prior: Prior, domain: Domain | tuple[float, float] | None) -> Cells:
        """Return the cells of the domain, each with the mass of the prior values nearest to it; else the prior's own values."""
        expect_prior(prior)
        if domain is None:
            values = prior.values
            return cls(values, prior.masses, Thresholds((values[:-1] + values[1:]) / 2), None)
        frame = Domain.of(domain)
        if frame.cells is None:
            frame = frame.with_cells(max(2, prior.values.size))
        masses = np.zeros(len(frame.grid))
        np.add.at(masses, frame.cell(prior.values), prior.masses)
        return cls(frame.grid, masses, Grid(frame), frame)


def even_grid(prior: Prior, domain: Domain | tuple[float, float] | None = None) -> Domain:
    """Return the domain with a grid: its own, or one as fine as the prior's values, of at most `DESIGN_CELLS` cells.

    Without a domain, its bounds are the prior's least and greatest values.
    """
    values = prior.values
    if domain is None and values.size < 2:
        raise InvalidInput("a prior with one value does not define a grid: give a domain, for example domain=(0, 400)")
    frame = Domain(float(values[0]), float(values[-1])) if domain is None else Domain.of(domain)
    if frame.cells is not None:
        return frame
    if values.size < 2:
        return frame.with_cells(DESIGN_CELLS)
    cells = round((frame.upper - frame.lower) / float(np.diff(values).min())) + 1
    return frame.with_cells(min(max(cells, 2), DESIGN_CELLS))


def merged_prior(prior: Prior, most: int) -> tuple[Prior, NDArray[np.intp]]:
    """Return the prior on at most `most` labels, and the new index of each label that has mass.

    Neighbours are merged at their mean, so that no group has much mass or spans much of the range. The first and the
    last label stay, because they bound the range.
    """
    held = prior.masses > 0
    values, masses = prior.values[held], prior.masses[held]
    if values.size <= most:
        return Prior(values, masses), np.arange(values.size)
    position = (values - values[0]) / (values[-1] - values[0]) + np.cumsum(masses) - masses / 2
    cells = 1 + (position / 2 * (most - 2)).astype(np.int64)
    cells[0], cells[-1] = 0, most
    groups = np.unique(cells, return_inverse=True)[1]
    together: Floats = np.bincount(groups, masses).astype(np.float64)
    return Prior(values[0] + np.bincount(groups, masses * (values - values[0])) / together, together), groups


def coarse_prior(prior: Prior, domain: Domain | tuple[float, float] | None = None) -> tuple[Prior, Domain | None]:
    """Return prior and domain, moved to 1,001 cells if they have more labels than a design can distinguish.

    Rounding to a thousandth of the range is far below the noise at any ε that protects labels.
    """
    expect_prior(prior)
    frame = Domain.of(domain) if domain is not None else None
    cells = 0 if frame is None or frame.cells is None else frame.cells
    if max(prior.values.size, cells) <= MOST_LABELS:
        return prior, frame
    bounds = frame if frame is not None else Domain(float(prior.values[0]), float(prior.values[-1]))
    coarse = bounds.with_cells(DESIGN_CELLS)
    masses = np.bincount(coarse.cell(prior.values), prior.masses, minlength=DESIGN_CELLS)
    counts = prior.counts if np.array_equal(coarse.grid, prior.values) else None
    return Prior(coarse.grid, masses, prior.epsilon_exact, counts), coarse
