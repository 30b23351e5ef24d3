"""The figures that the paper printed, and distributions of the Criteo and census labels that are fitted to them."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from labeldp.catalogue import Catalogue
from labeldp.domain import Domain
from labeldp.priors import Prior

CRITEO_TRAIN_ROWS = 1_386_176
"""Training labels in the paper: 80 % of the conversions. Its prior costs ε₁ = √(401 / this)."""

CRITEO_CLIP = 400.0
"""The paper clips sale amounts at 400 euros."""

CENSUS_TRAIN_ROWS = 40_466_154
"""Training labels in the paper: 80 % of the persons who worked. Its prior costs ε₁ = √(53 / this)."""


def criteo_prior() -> Prior:
    """Return the calibrated distribution of Criteo sale amounts on 0, 1 … 400 euros, clipped at 400.

    It was not read off the data set. It was fitted so that the clipped Laplace mechanism and RR-on-Bins give all
    24 mechanism errors of the paper's Criteo table within 0.042 %. Its mass at 400 came out at 4.9 %, where the paper
    says 5 %.

    Returns
    -------
    Prior
        401 values and their masses.

    Examples
    --------
    >>> from labeldp.paper.data import criteo_prior
    >>> prior = criteo_prior()
    >>> round(prior.masses[-1], 3)
    np.float64(0.049)

    """
    return _prior("criteo_prior.csv")


def census_prior() -> Prior:
    """Return the calibrated distribution of weeks worked on 1, 2 … 52. The paper drops persons who did not work.

    It was not read off the census. It was fitted so that RR-on-Bins and RRWithPrior give all ten mechanism errors of the
    paper's census table within 0.064 %. Its mass at 52, the whole year, came out at 54.6 %.

    Returns
    -------
    Prior
        52 values and their masses.

    Examples
    --------
    >>> from labeldp.paper.data import census_prior
    >>> prior = census_prior()
    >>> round(prior.masses[-1], 3)
    np.float64(0.546)

    """
    return _prior("census_prior.csv")


@dataclass(frozen=True)
class Calibrated:
    """A distribution of labels that comes with labeldp, and the public facts of its experiment.

    Parameters
    ----------
    name : str
        The name of the experiment: "criteo" or "census".
    prior : callable
        Returns the distribution.
    domain : Domain
        The label range of the experiment. It may be wider than the values of the distribution.
    train_rows : int
        The number of training labels in the paper.

    Examples
    --------
    >>> from labeldp.paper.data import CALIBRATED
    >>> CALIBRATED["census"].train_rows
    40466154

    """

    name: str
    prior: Callable[[], Prior]
    domain: Domain
    train_rows: int


CALIBRATED: Catalogue[Calibrated] = Catalogue("dataset", __package__)
"""The calibrated distributions by name. The command line and the experiments read them here."""

CALIBRATED.add(Calibrated("criteo", criteo_prior, Domain(0, CRITEO_CLIP, cells=401), CRITEO_TRAIN_ROWS))
CALIBRATED.add(Calibrated("census", census_prior, Domain.integers(0, 52), CENSUS_TRAIN_ROWS))


@cache
def _prior(name: str) -> Prior:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    values, masses = np.array([line.split(",") for line in text.split()], dtype=np.float64).T
    return Prior(values, masses / masses.sum())


@dataclass(frozen=True)
class CriteoFigures:
    """One row of the paper's Criteo table: squared errors at one ε, with standard deviations over its runs.

    Attributes
    ----------
    epsilon : float
        The privacy budget. It is infinite in the last row, which is without privacy.
    mechanism_laplace, mechanism_laplace_std : float
        The error of the private training labels of the Laplace mechanism.
    mechanism_rr_on_bins, mechanism_rr_on_bins_std : float
        The error of the private training labels of RR-on-Bins.
    test_laplace, test_laplace_std : float
        The test error of the network trained on labels of the Laplace mechanism.
    test_rr_on_bins, test_rr_on_bins_std : float
        The test error of the network trained on labels of RR-on-Bins.

    Examples
    --------
    >>> from labeldp.paper.data import published_criteo
    >>> published_criteo()[-1].test_rr_on_bins
    4319.86

    """

    epsilon: float
    mechanism_laplace: float
    mechanism_laplace_std: float
    mechanism_rr_on_bins: float
    mechanism_rr_on_bins_std: float
    test_laplace: float
    test_laplace_std: float
    test_rr_on_bins: float
    test_rr_on_bins_std: float


@dataclass(frozen=True)
class CensusFigures:
    """One row of the paper's census table: squared errors in weeks² at one ε.

    Attributes
    ----------
    epsilon : float
        The privacy budget. It is infinite in the last row, which is without privacy.
    mechanism_rr_with_prior, mechanism_rr_on_bins : float
        The errors of the private training labels.
    test_rr_with_prior, test_rr_on_bins : float
        The test errors of the networks trained on them.

    Examples
    --------
    >>> from labeldp.paper.data import published_census
    >>> published_census()[0].mechanism_rr_with_prior
    274.11

    """

    epsilon: float
    mechanism_rr_with_prior: float
    mechanism_rr_on_bins: float
    test_rr_with_prior: float
    test_rr_on_bins: float


def published_criteo() -> list[CriteoFigures]:
    """Return the paper's Criteo table.

    Returns
    -------
    list of CriteoFigures
        13 rows by rising ε: 0.05 … 8, then infinity.

    Examples
    --------
    >>> from labeldp.paper.data import published_criteo
    >>> [row.epsilon for row in published_criteo()][-3:]
    [6.0, 8.0, inf]

    """
    return [CriteoFigures(**row) for row in _rows("criteo.csv")]


def published_census() -> list[CensusFigures]:
    """Return the paper's census table.

    Returns
    -------
    list of CensusFigures
        6 rows by rising ε: 0.5 … 8, then infinity.

    Examples
    --------
    >>> from labeldp.paper.data import published_census
    >>> [row.epsilon for row in published_census()]
    [0.5, 1.0, 2.0, 4.0, 8.0, inf]

    """
    return [CensusFigures(**row) for row in _rows("census.csv")]


def _rows(name: str) -> Iterator[dict[str, float]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        yield {column: float(figure) for column, figure in row.items()}
