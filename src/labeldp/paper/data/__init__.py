"""Loaders for the paper's files, generators where they cannot be had, and the paper's own figures."""

from __future__ import annotations

from labeldp.paper.data.app_ads import app_ads_like
from labeldp.paper.data.calibrated import CRITEO_CLIP, CRITEO_TRAIN_ROWS, criteo_masses, criteo_prior
from labeldp.paper.data.census import load_census
from labeldp.paper.data.criteo import criteo_batches, load_criteo
from labeldp.paper.data.criteo_generated import criteo_like, criteo_like_batches, criteo_like_labels, write_criteo_like
from labeldp.paper.data.dataset import Dataset
from labeldp.paper.data.published import CensusFigures, CriteoFigures, published_census, published_criteo
from labeldp.paper.data.standins import fertility, rand_hie

__all__ = [
    "CRITEO_CLIP",
    "CRITEO_TRAIN_ROWS",
    "CensusFigures",
    "CriteoFigures",
    "Dataset",
    "app_ads_like",
    "criteo_batches",
    "criteo_like",
    "criteo_like_batches",
    "criteo_like_labels",
    "criteo_masses",
    "criteo_prior",
    "fertility",
    "load_census",
    "load_criteo",
    "published_census",
    "published_criteo",
    "rand_hie",
    "write_criteo_like",
]
