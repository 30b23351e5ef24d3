"""The figures that the paper printed, so that every table of ours can show them next to its own."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files


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
