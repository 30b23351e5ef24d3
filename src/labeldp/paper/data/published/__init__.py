"""The figures that the paper printed, carried as data so that every table of ours can stand beside them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class CriteoFigures:
    """One row of the paper's Criteo table: squared errors at one ε, mean and standard deviation over its runs.

    `mechanism_*` is the error of the private training labels, `test_*` the test error of the network trained on
    them. `epsilon` is infinite in the last row (no privacy).
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
    """One row of the paper's census table (RRWithPrior against RR-on-Bins): squared errors in weeks² at one ε."""

    epsilon: float
    mechanism_rr_with_prior: float
    mechanism_rr_on_bins: float
    test_rr_with_prior: float
    test_rr_on_bins: float


def published_criteo() -> list[CriteoFigures]:
    """The paper's Criteo table, 13 rows by rising ε (0.05 … 8, then infinity)."""
    return [CriteoFigures(**row) for row in _rows("criteo.csv")]


def published_census() -> list[CensusFigures]:
    """The paper's census table, 6 rows by rising ε (0.5 … 8, then infinity)."""
    return [CensusFigures(**row) for row in _rows("census.csv")]


def _rows(name: str) -> Iterator[dict[str, float]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        yield {column: float(figure) for column, figure in row.items()}
