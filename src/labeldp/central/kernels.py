"""How the mean label may differ between cells, before anything is known: smoothly along numbers, freely between categories."""

from __future__ import annotations

import numpy as np

from labeldp.arrays import Floats
from labeldp.linear_algebra import eigh

LINE = 0.4
"""The share of a numeric column's variance that is thought to be a straight line."""
KEPT = 1e-3
"""Directions with less than this share of the variance are left out."""


def kernel(weights: Floats, *, ordered: bool, missing: bool = False, centres: Floats | None = None) -> Floats:
    """The prior covariance of the effects of cells with these shares of the records.

    Over the records, effects have mean zero and variance one. Along numbers they follow a line in the numbers themselves and two
    Matérn processes in their ranks; the effect of missing numbers is free of them. Effects of categories are independent.
    """
    cells = len(weights)
    along = cells - 1 if missing else cells
    smooth = ordered and along > 2 and weights[:along].sum() > 0
    plain = np.eye(cells)
    if smooth:
        shares = weights[:along] / weights[:along].sum()
        ranks = np.cumsum(shares) - shares / 2
        distance = np.abs(np.subtract.outer(ranks, ranks))
        slow = np.sqrt(3) * distance / 0.5
        plain[:along, :along] = 0.6 * (1 + slow) * np.exp(-slow) + 0.4 * np.exp(-distance / 0.3)
    centred = np.eye(cells) - weights[None, :]
    covariance = _scaled(centred @ plain @ centred.T, weights)
    if smooth and centres is not None:
        line = np.zeros(cells)
        unit = centres / max(float(np.abs(centres).max()), 1e-300)  # huge numbers have no squares
        line[:along] = unit - np.average(unit, weights=weights[:along])
        peak = float(np.abs(line).max())
        line = line / peak if peak > 1e-12 else np.zeros(cells)
        covariance = (1 - LINE) * covariance + LINE * _scaled(np.outer(line, line), weights)
    return covariance


def roots(covariance: Floats) -> Floats:
    """A matrix with few columns whose product with its transpose is nearly the covariance."""
    values, vectors = eigh(covariance)
    kept = values > KEPT * max(values.sum(), 1e-300)
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def _scaled(covariance: Floats, weights: Floats) -> Floats:
    """A covariance of variance one over the records, unless all records lie in one cell."""
    variance = float(weights @ np.diag(covariance))
    return np.asarray(covariance / variance if variance > 1e-12 else covariance)
