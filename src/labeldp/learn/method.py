"""The choice between noisy sums, noisy labels and both for `LabelDPRegressor`, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.learn.sums.partitions import MOST_COLUMNS
from labeldp.mechanisms.prediction import ModelErrors, entries_per_person
from labeldp.release.grid_labels import FINE_CELLS, WIDEST_WEIGHTED
from labeldp.release.noisy_sums import SCORES
from labeldp.sampling.integer_noise import WIDEST

METHODS = ("auto", "labels", "sums", "both")
ENOUGH_FOR_LABELS = 60_000
"""The worth of all labels (`labels_worth`) from which sums and then labels are better than sums alone. On ten real data sets at ε = 1, 2
and 4, sums were better in most cells up to 54,000, and both in most from 68,000 on."""
ENOUGH_SIGNAL = 10_000
"""The signal from which randomized labels of two classes are better than sums. In 13 cells of generated data (3,000 to
50,000 records, rates of 3 and 20 %, ε from 0.5 to 4) sums were better in all up to 8,040 and labels in all from 8,690
on, there by 0.3 to 0.5 %, including the cost of the counts. More classes have the same limit, a compromise: with three, labels were better
from 3,400 on for one generated set and sums up to 8,400 for three others; with five and ten, sums up to 41,000 and labels at 390,000."""
WIDEST_RANGE = 1e60
"""Labels whose range is wider than this, or narrower than its inverse, are not summed: inference squares their variances."""


@dataclass(frozen=True)
class Method:
    """How `LabelDPRegressor` or `LabelDPClassifier` was fitted.

    Attributes
    ----------
    name : {"labels", "sums", "both", "either"}
        Noisy labels, noisy sums of labels, or sums first and then labels. For classes, noisy counts of them may decide between
        labels and sums ("either"); a fitted classifier has the decision.
    why : str
        The reason in words.

    Examples
    --------
    >>> from labeldp.learn.method import choose_method
    >>> from labeldp import Domain
    >>> [choose_method(10_000, epsilon, 20, Domain(0, 400)).name for epsilon in (0.5, 8)]
    ['sums', 'both']
    """

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def check_method(method: object) -> None:
    """Raise `InvalidInput` unless `method` is one of `METHODS`."""
    if not (isinstance(method, str) and method in METHODS):
        raise InvalidInput(f"unknown method {described(method)}; choose from {', '.join(METHODS)}")


def fits_sums(domain: Domain) -> bool:
    """Return whether floats can hold what is inferred from sums of labels of this range."""
    return 1 / WIDEST_RANGE <= domain.upper - domain.lower <= WIDEST_RANGE


def grid_for_sums(domain: Domain, epsilon: Fraction, weight: int = 1) -> Domain:
    """Return the bounds with the grid on which labels are summed.

    A fine grid costs nothing, so cells that the user gave for a prior do not count; whole labels keep theirs. At a tiny ε the
    grid is coarser, so that noise of a hundredth of ε on hundreds of sums fits into 64-bit integers. `weight` is that of a person.
    """
    most = max(2, _most_cells(epsilon, weight))
    if domain.classes is not None or (domain.whole and domain.count <= most):
        return replace(domain, unit=None)
    return Domain(domain.lower, domain.upper, min(FINE_CELLS, most))


def fits_scores(epsilon: Fraction, weight: int = 1) -> bool:
    """Return whether sums of normal scores with this ε fit into 64-bit integers: their grid is the same for every ε."""
    return _most_cells(epsilon, weight) >= SCORES.count


def _most_cells(epsilon: Fraction, weight: int) -> int:
    return min(int(epsilon * WIDEST // 100 // 300), WIDEST_WEIGHTED) // weight


def choose_method(
    records: int, epsilon: float, columns: int, domain: Domain, sizes: NDArray[np.int64] | None = None
) -> Method:
    """Return the method of the smaller expected error for a mean model without an estimator of the user's own.

    Where labels are worth enough, they are randomized one by one, after sums. Elsewhere the prediction of `labeldp.advise` for bounds
    alone decides between sums and labels: labels are uniform, and features explain half of their variance. Classes have their own
    rule (`labels_pay`).

    Parameters
    ----------
    records : int
        The number of labels.
    epsilon : float
        The budget.
    columns : int
        The number of columns of the features.
    domain : Domain
        The public bounds of the labels.
    sizes : array of int64, optional
        The number of persons by their number of records (`person_sizes`), where a person is the unit of privacy.

    Returns
    -------
    Method
    """
    if columns > MOST_COLUMNS:
        return Method("labels", f"there are {columns:,} columns of features, and sums are for at most {MOST_COLUMNS}")
    if domain.classes is not None:
        if labels_pay(records, epsilon, np.full(domain.count, 1 / domain.count)):
            return Method("either", "the rates of the classes decide")
        return Method(
            "sums", "labels are too noisy at this epsilon and number of records, for any rates of the classes"
        )
    models = ModelErrors(None, domain=domain)
    total, entries, size, of = exact_epsilon(epsilon), 1, records, "records"
    if sizes is not None:
        (entries, records), size, of = entries_per_person(sizes, total, models), int(sizes.sum()), "persons"
    if labels_worth(records, epsilon / entries) > ENOUGH_FOR_LABELS:
        return Method("both", f"{size:,} {of} at epsilon = {epsilon:g} are enough for labels, after sums")
    sums, labels = models.sums(total, size), models.labels(total / entries, records)
    return Method(
        "sums" if sums.mse <= labels.mse else "labels",
        f"for {size:,} {of} at epsilon = {epsilon:g} a model is predicted to reach R² = {sums.r2:.3f} with sums and {labels.r2:.3f} with labels",
    )


def labels_worth(records: int, epsilon: float, classes: int = 2) -> float:
    """Return n·(e^ε − 1)²/(e^ε + K − 2): the number of labels over the noise of a randomized response of K classes."""
    epsilon = min(epsilon, 100.0)
    return records * 2 * (math.cosh(epsilon) - 1) / (1 + (classes - 2) * math.exp(-epsilon))


def labels_pay(records: int, epsilon: float, rates: Floats) -> bool:
    """Return whether randomized labels give a smaller log loss than sums, given the rates of the K classes.

    Whether a label is of a class of rate p has variance p(1 − p), and randomized response adds noise of variance
    (e^ε + K − 2)/(e^ε − 1)², for a rare class. So all labels together are worth n·p(1 − p)·(e^ε − 1)²/(e^ε + K − 2) in units of that noise,
    of which the mean over the classes counts, the *signal*. Where it is large, the misfit of a model from sums costs more than noise.
    """
    signal = float(np.mean(rates * (1 - rates))) * labels_worth(records, epsilon, len(rates))
    return signal > ENOUGH_SIGNAL
