"""`advise`: which ε? Checks what is asked and puts the answer together."""

from __future__ import annotations

from collections.abc import Iterable

from labeldp.advice.advice import Advice, Outlook
from labeldp.advice.predictions import Predictor
from labeldp.advice.shapes import shaped_prior
from labeldp.advice.targets import target_of, wanted_r2
from labeldp.advice.words import Risk
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""What is looked at unless somebody asks for others."""
EXPLAINED = 0.5
"""The share of the labels' variance that features are taken to explain unless somebody knows better."""
MOST_RECORDS = 10**15
"""More records than this are a mistake."""
BEYOND = 1e-9
"""A prior may leave the bounds by so much of their distance, which is rounding."""


def advise(
    domain: Domain | tuple[float, float],
    records: int,
    *,
    explained: float = EXPLAINED,
    epsilons: Iterable[Epsilon] = EPSILONS,
    prior: Prior | None = None,
    shape: str | None = None,
    target_r2: float | None = None,
    target_error: float | None = None,
    rows_per_person: int = 1,
    value: float | None = None,
) -> Advice:
    """Predict what models will be worth at several ε, before anything is released. Labels are not read.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds of the labels.
    records : int
        How many records a model will be trained on.
    explained : float
        The share of the labels' variance that the best model of the features explains, from 0 to 1: the R² that you hope for with endless records.
    epsilons : iterable of float, str, Decimal or Fraction
        The ε to look at.
    prior : Prior, optional
        The distribution of the labels, as far as it is public or was released before.
    shape : str, optional
        The same in words: "uniform", "normal:mean=80,sd=30", "log-normal:mean=80,sd=90", "gamma:mean=80,sd=60", "exponential:mean=90" or "poisson:mean=3". Without a prior and
        a shape, labels are taken as uniform between the bounds, and the result is a rough guide.
    target_r2 : float, optional
        The R² that a model shall reach: the least ε and the least numbers of records are found.
    target_error : float, optional
        The same as a root mean squared error, in the unit of the labels.
    rows_per_person : int
        How many labels belong to one person, for what ε risks.
    value : float, optional
        Risks are told about labels above this; by default the middle of the bounds.

    Returns
    -------
    Advice

    Raises
    ------
    InvalidInput
        If a number is out of its range, or the prior does not lie within the bounds.

    Privacy
    -------
    Costs nothing: no label is read. An `explained` that was measured on true labels is not public; guess it, or measure it on private ones.

    Examples
    --------
    >>> from labeldp import advise
    >>> advice = advise((0, 400), records=50_000, shape="log-normal:mean=80,sd=90", target_r2=0.4)
    >>> advice.target.epsilon_labels
    0.21
    >>> print(advice.outlooks[2].risk.sentence("more than 200"))
    Someone who knows all other records and gives 50 % to "more than 200" before will give at most 73 % after, and at least 27 %.
    """
    frame = Domain.of(domain)
    _check_numbers(records, explained)
    budgets = _budgets(epsilons)
    middle = (frame.lower + frame.upper) / 2 if value is None else _within(value, frame)
    predictor = Predictor(_distribution(prior, shape, frame), frame, float(explained))
    wanted = wanted_r2(predictor, target_r2, target_error)
    outlooks = tuple(
        Outlook(
            epsilon,
            predictor.labels(epsilon, records),
            predictor.paper(epsilon, records),
            predictor.sums(epsilon, records),
            Risk(epsilon, rows_per_person),
        )
        for epsilon in budgets
    )
    unit = f" {frame.unit}" if frame.unit else ""
    return Advice(
        records=int(records),
        explained=float(explained),
        prior=predictor.prior,
        assumed=prior is None and shape is None,
        outlooks=outlooks,
        not_private=predictor.not_private(records),
        mean_only=predictor.mean_only(),
        statement=f"more than {middle:g}{unit}",
        target=None if wanted is None else target_of(predictor, records, budgets, wanted),
    )


def _check_numbers(records: object, explained: object) -> None:
    if isinstance(records, bool) or not isinstance(records, int) or not 1 <= records <= MOST_RECORDS:
        raise InvalidInput(f"records must be a whole number from 1 to 10^15, got {described(records)}")
    if isinstance(explained, bool) or not isinstance(explained, (int, float)) or not 0 <= explained <= 1:
        raise InvalidInput(
            f"explained must be a share from 0 to 1, got {described(explained)}: it is the R² of the best model of the features"
        )


def _budgets(epsilons: Iterable[Epsilon]) -> list[float]:
    if isinstance(epsilons, (str, bytes)) or not isinstance(epsilons, Iterable):
        raise InvalidInput(f"epsilons must be a list, as in [0.5, 1, 2], got {described(epsilons)}")
    budgets = sorted({float(exact_epsilon(epsilon)) for epsilon in epsilons})
    if not budgets:
        raise InvalidInput("epsilons must have at least one value")
    return budgets


def _within(value: object, domain: Domain) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not domain.lower <= value < domain.upper:
        raise InvalidInput(
            f"value must lie within the bounds, from {domain.lower:g} to below {domain.upper:g}, got {described(value)}: nobody "
            "learns anything from what is certain"
        )
    return float(value)


def _distribution(prior: Prior | None, shape: str | None, domain: Domain) -> Prior:
    if prior is not None and shape is not None:
        raise InvalidInput("give one distribution of the labels: a prior or a shape, not both")
    if prior is None:
        return shaped_prior("uniform" if shape is None else shape, domain)
    expect_prior(prior)
    slack = BEYOND * (domain.upper - domain.lower)
    held = prior.values[prior.masses > 0]
    if held[0] < domain.lower - slack or held[-1] > domain.upper + slack:
        raise InvalidInput(
            f"the prior has labels from {held[0]:g} to {held[-1]:g}, and the bounds are {domain.lower:g} to {domain.upper:g}: "
            "give bounds that hold them all, or a prior in the unit of the bounds"
        )
    return prior
