"""Noisy sums or noisy labels: which of the two is expected to train the better model, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from labeldp.central.held_labels import FINE_CELLS
from labeldp.central.partitions import MOST_COLUMNS
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.sampling.integer_noise import WIDEST

METHODS = ("auto", "labels", "sums")
WIDEST_RANGE = 1e60
"""Labels whose range is wider than this, or narrower than its inverse, are not summed: inference squares their variances."""


@dataclass(frozen=True)
class Method:
    """How `LabelDPRegressor` was fitted.

    Attributes
    ----------
    name : {"labels", "sums"}
        Noisy labels, or noisy sums of labels.
    why : str
        The reason in words.

    Examples
    --------
    >>> from labeldp.training.method import choose_method
    >>> choose_method(10_000, 0.5, 20).name, choose_method(10_000, 8, 20).name
    ('sums', 'labels')
    """

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def check_method(method: object) -> None:
    """Refuse what names no method."""
    if not (isinstance(method, str) and method in METHODS):
        raise InvalidInput(f"unknown method {described(method)}; choose from {', '.join(METHODS)}")


def fits_sums(domain: Domain) -> bool:
    """Whether floats can hold what is inferred from sums of labels of this range."""
    return 1 / WIDEST_RANGE <= domain.upper - domain.lower <= WIDEST_RANGE


def grid_for_sums(domain: Domain, epsilon: Fraction) -> Domain:
    """The bounds with the grid on which labels are summed.

    A fine grid costs nothing, so cells that the user gave for a prior do not count; whole labels keep theirs. At a tiny ε the
    grid is coarser, so that noise of a hundredth of ε on hundreds of sums fits into 64-bit integers.
    """
    most = max(2, int(epsilon * WIDEST // 100 // 300))
    if domain.whole and domain.count <= most:
        return replace(domain, unit=None)
    return Domain(domain.lower, domain.upper, min(FINE_CELLS, most))


def choose_method(records: int, epsilon: float, columns: int) -> Method:
    """The method of the smaller expected error for a mean model without an estimator of the user's own.

    Parameters
    ----------
    records : int
        The number of labels.
    epsilon : float
        The budget.
    columns : int
        The number of columns of the features.

    Returns
    -------
    Method
    """
    if columns > MOST_COLUMNS:
        return Method("labels", f"there are {columns:,} columns of features, and sums are for at most {MOST_COLUMNS}")
    sums, labels = excess_of_sums(records, epsilon), excess_of_labels(records, epsilon)
    name = "sums" if sums <= labels else "labels"
    return Method(
        name,
        f"for {records:,} records at epsilon = {epsilon:g} noise is expected to add {sums:.2g} (sums) or {labels:.2g} (labels) to the "
        "mean squared error, in squares of the labels' range",
    )


def excess_of_sums(records: int, epsilon: float) -> float:
    """What sums are expected to add to a model's error: noise, and what effects of cells cannot express, in squares of the range.

    Like `excess_of_labels` it is a curve through errors measured on generated data (docs/guides/one-team.md). Where it is wrong by a factor of
    two, both methods are about as good.
    """
    return 0.0012 * math.pow(1e4 / (records * epsilon), 0.7) + 0.0003


def excess_of_labels(records: int, epsilon: float) -> float:
    """What noisy labels by `auto` are expected to add to a model's error, in squares of the range."""
    return (
        0.003
        * math.pow(1e4 / records, 0.7 if records < 1e4 else 0.3)
        * math.pow(epsilon, -0.8)
        * math.exp(-0.45 * (epsilon - 1))
    )
