"""The paper's data: loaders for its files, generators and public stand-ins, calibrated priors, and its printed figures."""

from labeldp.paper.calibrated import (
    CALIBRATED,
    CENSUS_TRAIN_ROWS,
    CRITEO_CLIP,
    CRITEO_TRAIN_ROWS,
    Calibrated,
    census_prior,
    criteo_prior,
)
from labeldp.paper.data.app_ads import app_ads_like
from labeldp.paper.data.census import load_census
from labeldp.paper.data.criteo import criteo_batches, load_criteo
from labeldp.paper.data.criteo_generated import criteo_like, criteo_like_batches, criteo_like_labels, write_criteo_like
from labeldp.paper.data.dataset import Dataset
from labeldp.paper.data.published import CensusFigures, CriteoFigures, published_census, published_criteo
from labeldp.paper.data.standins import fertility, rand_hie

__all__ = [
    "CALIBRATED",
    "CENSUS_TRAIN_ROWS",
    "CRITEO_CLIP",
    "CRITEO_TRAIN_ROWS",
    "Calibrated",
    "CensusFigures",
    "CriteoFigures",
    "Dataset",
    "app_ads_like",
    "census_prior",
    "criteo_batches",
    "criteo_like",
    "criteo_like_batches",
    "criteo_like_labels",
    "criteo_prior",
    "fertility",
    "load_census",
    "load_criteo",
    "published_census",
    "published_criteo",
    "rand_hie",
    "write_criteo_like",
]
