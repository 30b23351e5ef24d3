"""The test error of a model from noisy sums of held-out labels, with the noise and the sampling in its intervals.

`held_out_sums.py` has the mathematics, for classes `class_sums.py`. `score.py` releases the same figures to another party.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from labeldp.arrays import Floats, label_array, offending_rows
from labeldp.budget import Epsilon
from labeldp.domain import Domain, named_classes
from labeldp.errors import InvalidInput
from labeldp.evaluate.class_sums import ClassError, ClassSums, checked_rates
from labeldp.evaluate.held_out_sums import HeldOutError, HeldOutSums
from labeldp.release.grid_labels import SumsBudget, on_grid, require_several
from labeldp.release.group_sums import Rows
from labeldp.release.ledger import Ledger
from labeldp.release.randomizer import numbered_persons

FURTHEST = 1e4
"""Predictions may lie outside of the bounds by this multiple of the labels' range. Beyond that, noise would dominate."""


@overload
def held_out_error(
    model: Any,
    X: Any,
    y: Any,
    epsilon: Epsilon,
    domain: Domain | tuple[float, float],
    *,
    persons: Any = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> HeldOutError: ...


@overload
def held_out_error(
    model: Any,
    X: Any,
    y: Any,
    epsilon: Epsilon,
    domain: None = None,
    *,
    persons: Any = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> ClassError: ...


def held_out_error(
    model: Any,
    X: Any,
    y: Any,
    epsilon: Epsilon,
    domain: Domain | tuple[float, float] | None = None,
    *,
    persons: Any = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> HeldOutError | ClassError:
    """Estimate the test error of any fitted regressor or classifier from noisy sums of held-out labels.

    Parameters
    ----------
    model : regressor or classifier
        Anything with `predict(X)`: a `LabelDPRegressor` by labels or by sums, or another model. A classifier has
        `predict_proba(X)` and `classes_`, which are public.
    X : table or array
        The features of records that the model was not trained on.
    y : array-like
        Their true labels, at least two.
    epsilon : float, str, Decimal or Fraction
        The total cost of all figures.
    domain : Domain or (lower, upper), optional
        The public bounds of the labels, never computed from them. Labels outside are moved to the nearer bound. A regressor needs
        them; for a classifier, leave them out.
    persons : array-like, optional
        The person of each row, integers or text. ε is then for all labels of a person together: a person with k rows
        counts as one, each row with a weight of 1/k, and the figures are means over persons.
    ledger : Ledger, optional
        Charge ε to `dataset` in this ledger before anything is drawn.
    dataset : str, optional
        The dataset in `ledger` to charge.

    Returns
    -------
    HeldOutError or ClassError
        For a regressor `mse`, `mse_of_mean`, `gain`, `r2`, `mae` and `bias`; for a classifier `log_loss`, `gain`, `brier`, `auc`, `rate` and `calibration`. Each has a standard error and a 95 % interval for the
        population that the records were drawn from. With few records and a small ε, an estimate may lie outside of the
        possible range, because it is unbiased.

    Notes
    -----
    Intervals assume normal sampling errors. If a few rare labels make up most of an error, the intervals of `mse` and
    `mse_of_mean` are too narrow at a large ε: in simulations at ε = 40, intervals covered 0.92 to 0.94 instead of 0.95
    with three to five rare labels among 2,000, and 0.95 with thirty or more. At ε = 1 the noise dominates, and all
    covered at least 0.95.

    Raises
    ------
    InvalidInput
        If the model cannot predict, predictions do not match the labels, or labels or settings are invalid. Nothing is
        charged then.
    InsufficientBudget
        If the ledger has less than ε left.

    Privacy
    -------
    ε-DP for replacing one held-out label by another valid one, or all labels of one person. If these labels are in no other release, this ε is spent on them
    alone: a training label was seen through the model's ε, a held-out label through this one, and no label through both (parallel
    composition). Records that the model was trained on, or whose labels are released elsewhere, pay the sum, and
    the error would be too small. Predictions must not depend on these labels.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import LabelDPRegressor, held_out_error
    >>> X = np.random.default_rng(0).random((12_000, 2))
    >>> y = np.clip(60 * X[:, 0] + np.random.default_rng(1).normal(20, 10, 12_000), 0, 100)
    >>> model = LabelDPRegressor(epsilon=1, domain=(0, 100)).fit(X[:8000], y[:8000])
    >>> found = held_out_error(model, X[8000:], y[8000:], epsilon=1, domain=(0, 100))
    >>> bool(found.gain.lower > 0)  # the model is better than a constant
    True

    A classifier:

    >>> from labeldp import LabelDPClassifier
    >>> bought = np.where(y > 60, "yes", "no")
    >>> model = LabelDPClassifier(epsilon=1, classes=["no", "yes"]).fit(X[:8000], bought[:8000])
    >>> bool(held_out_error(model, X[8000:], bought[8000:], epsilon=1).auc["yes"].lower > 0.8)
    True
    """
    classifies = callable(getattr(model, "predict_proba", None))
    if classifies == (domain is not None):
        raise InvalidInput(
            "the classes are those of the classifier: leave out domain"
            if classifies
            else "give domain, the public bounds of the labels, such as domain=(0, 400)"
        )
    predictions = _rates(model, X) if classifies else _predictions(model, X)
    bounds = named_classes(np.asarray(model.classes_)) if domain is None else Domain.of(domain)
    labels = bounds.check(y)
    if len(predictions) != labels.size:
        raise InvalidInput(
            f"one prediction for each label is needed: the model gave {len(predictions):,} for {labels.size:,} labels"
        )
    require_several(labels.size)
    unit = "record" if persons is None else "person"
    budget = SumsBudget(epsilon, ledger, dataset, unit)
    owners = None if persons is None else numbered_persons(persons, labels.size)
    together = np.zeros(labels.size, np.int64)
    Rows.of(together, owners)  # raises errors about persons before the charge
    if bounds.classes is not None:
        if predictions.shape[1] != bounds.count:
            raise InvalidInput("predict_proba(X) must have a column for each of the classes_ of the model")
        rates, _ = checked_rates(predictions[None], "of the model", "use a classifier of probabilities")
        ClassSums.check(1, bounds.count, labels.size, budget.epsilon)
        budget.charge(on_grid(bounds), labels.size)
        counted = ClassSums.ask(budget, budget.epsilon, labels, rates, together, owners)
        return counted.group(0).error(0, bounds, budget.epsilon)
    width = bounds.upper - bounds.lower
    far = np.abs(predictions - (bounds.lower + bounds.upper) / 2) > FURTHEST * width
    if far.any():
        raise InvalidInput(
            f"predictions lie far outside of the bounds {bounds.lower:g} to {bounds.upper:g}: {offending_rows(far)}. Are they in the unit "
            "of the labels? If they are correct, clip them first"
        )
    HeldOutSums.check(1, labels.size, budget.epsilon)
    y, f = ((one - bounds.lower) / width for one in (labels, predictions))
    budget.charge(on_grid(bounds), labels.size)
    asked = HeldOutSums.ask(budget, budget.epsilon, y, f[None], together, owners)
    return asked.group(0).error(0, bounds, budget.epsilon)


def _predictions(model: Any, X: Any) -> Floats:
    if not callable(getattr(model, "predict", None)):
        raise InvalidInput(f"model must be a fitted regressor with predict(X), got {type(model).__name__}")
    return label_array(model.predict(X), "predictions")


def _rates(model: Any, X: Any) -> Floats:
    if not hasattr(model, "classes_"):
        raise InvalidInput(f"model must be a fitted classifier with classes_, got {type(model).__name__}")
    rates = np.asarray(model.predict_proba(X))
    if rates.ndim != 2 or rates.dtype.kind != "f" or not np.isfinite(rates).all():
        raise InvalidInput("predict_proba(X) must be numbers, with a row for each record and a column for each class")
    return rates.astype(np.float64)
