"""Loaders for the paper's files, generators where they cannot be had, and the paper's own figures."""

from __future__ import annotations

from labeldp.data.calibrated import CRITEO_CLIP, CRITEO_TRAIN_ROWS, criteo_masses, criteo_prior
from labeldp.data.published import CensusFigures, CriteoFigures, published_census, published_criteo

__all__ = [
    "CRITEO_CLIP",
    "CRITEO_TRAIN_ROWS",
    "CensusFigures",
    "CriteoFigures",
    "criteo_masses",
    "criteo_prior",
    "published_census",
    "published_criteo",
]
