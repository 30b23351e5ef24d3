"""The paper's data: loaders for its files, generators and public stand-ins, calibrated priors, and its printed figures."""

from labeldp.paper.data.census import load_census
from labeldp.paper.data.criteo import (
    criteo_batches,
    criteo_like,
    criteo_like_batches,
    criteo_like_labels,
    load_criteo,
    write_criteo_like,
)
from labeldp.paper.data.dataset import Dataset
from labeldp.paper.data.standins import app_ads_like, fertility, rand_hie
from labeldp.paper.published import (
    CALIBRATED,
    CENSUS_TRAIN_ROWS,
    CRITEO_CLIP,
    CRITEO_TRAIN_ROWS,
    Calibrated,
    CensusFigures,
    CriteoFigures,
    census_prior,
    criteo_prior,
    published_census,
    published_criteo,
)

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
