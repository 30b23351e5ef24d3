"""`advise`: predictions for a list of ε, the requirements of a target, and the risk of each ε, with a table and a picture."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import digamma

from labeldp.artifact import Message
from labeldp.budget import MIN_EPSILON, Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.evaluate.foreseen import Foreseen, Target, foresee, target_of, wanted_r2
from labeldp.evaluate.risk import Risk
from labeldp.evaluate.shapes import shaped_prior
from labeldp.formatting import Tabular, count_of, percent
from labeldp.mechanisms.prediction import EXPLAINED, ModelErrors, Prediction, check_share, entries_per_person
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior
from labeldp.sampling.randomness import MOST_ENTRIES

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The ε that are compared by default."""
MOST_RECORDS = 10**15
"""The maximum number of records: more are a mistake."""
BEYOND = 1e-9
"""The share of the range by which a prior may exceed the bounds because of rounding."""
NARROWEST = 1e-6
"""Labels whose standard deviation is less than this share of the bounds are all in one cell."""
ENOUGH = 0.8
"""The share of R² without privacy that a recommended ε keeps."""


@dataclass(frozen=True)
class Outlook:
    """The predictions at one ε, and its risk.

    Attributes
    ----------
    epsilon : float
        The ε of one label, or of one person.
    labels : Prediction
        A model trained on labels that `auto` made private.
    paper : Prediction
        A model trained on the outputs of the paper's RR-on-Bins, without decoding. With persons, ε is divided among all
        rows of a person.
    sums : Prediction
        A model fitted to noisy sums, by a team that has features and labels.
    risk : Risk
        The risk at this ε.
    records : int
        The number of labels that a release would randomize.
    entries : int
        The number of these labels per person; 1 without persons.
    """

    epsilon: float
    labels: Prediction
    paper: Prediction
    sums: Prediction
    risk: Risk
    records: int
    entries: int = 1


@dataclass(frozen=True, repr=False, eq=False)
class Advice(Tabular):
    """Predicted test errors for several ε, from public numbers only. Get one from `advise`.

    `to_arrow`, `to_pandas` and `to_polars` return the predictions as a table.

    Attributes
    ----------
    records : int
        The number of training records.
    explained : float
        The share of the labels' variance that features are assumed to explain.
    prior : Prior
        The distribution of the labels, with the resolution used for predictions.
    assumed : bool
        Whether that distribution is only the uniform one between the bounds, because nothing better was given.
    outlooks : tuple of Outlook
        The predictions at each ε, in increasing order.
    not_private : Prediction
        A model trained on true labels.
    mean_only : Prediction
        Predicting the mean of the labels for every record.
    statement : str
        The statement that risks refer to, such as "more than 200".
    target : Target or None
        The requirements of the target error, if one was given.
    persons : int or None
        The number of persons, if ε is for each person.
    rows_per_person : int
        How many labels belong to one person.
    models : ModelErrors
        The source of the predictions.

    Examples
    --------
    >>> from labeldp import advise
    >>> advice = advise((0, 400), records=50_000, shape="exponential:mean=90", epsilons=[0.5, 1, 2])
    >>> [round(outlook.labels.r2, 2) for outlook in advice.outlooks]
    [0.45, 0.47, 0.48]
    >>> print(advice.recommendation)
    Take ε = 0.5: a model trained on private labels is predicted to reach R² = 0.45, 92 % of the 0.49 without privacy.
    """

    records: int
    explained: float
    prior: Prior
    assumed: bool
    outlooks: tuple[Outlook, ...]
    not_private: Prediction
    mean_only: Prediction
    statement: str
    target: Target | None
    models: ModelErrors
    persons: int | None = None
    rows_per_person: int = 1

    @cached_property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """The expected knowledge about a model at each ε: the interval from `train`, and the interval of a score. Takes seconds."""
        rows = 1 if self.persons is None else self.rows_per_person
        return tuple(
            foresee(
                self.models,
                exact_epsilon(each.epsilon) / each.entries,
                each.records,
                each.labels.r2,
                score=exact_epsilon(each.epsilon) / rows,
                score_records=self.records,
            )
            for each in self.outlooks
        )

    @property
    def recommended(self) -> Outlook | None:
        """The smallest listed ε that protects and keeps most of the variance explained without privacy, or None."""
        return next((each for each in self._good_enough("labels") if each.risk.protects), None)

    @property
    def recommendation(self) -> str:
        """A recommendation in one or two sentences."""
        best, most = self.recommended, self.not_private.r2
        if most <= 0:
            return f"No ε helps: even without privacy {count_of(self.records, 'record')} {'does' if self.records == 1 else 'do'} not teach a model more than the mean."
        sums = next((each for each in self._good_enough("sums") if each.risk.protects), None)
        team = ""
        if sums is not None and (best is None or sums.epsilon < best.epsilon):
            team = f" A team that holds features and labels reaches R² = {sums.sums.r2:.2f} at ε = {sums.epsilon:g} with noisy sums."
        if best is not None:
            return (
                f"Take ε = {best.epsilon:g}{self._whose(best)}: a model trained on private labels is predicted to reach R² = {best.labels.r2:.2f}, "
                f"{percent(min(1.0, best.labels.r2 / most))} of the {most:.2f} without privacy.{team}"
            )
        enough, last = self._good_enough("labels"), self.outlooks[-1]
        found = f"ε = {last.epsilon:g} is predicted to reach {last.labels.r2:.2f}"
        if enough:
            found = f"ε = {enough[0].epsilon:g} would, but that is hardly any protection"
        return (
            f"With private labels none of these ε protects and keeps {percent(ENOUGH)} of the R² = {most:.2f} without privacy: {found}. More "
            f"records help most.{team}"
        )

    def log_loss(self, prediction: Prediction) -> float | None:
        """Return the log loss that goes with a prediction, if labels are two classes: that of calibrated probabilities with the same R².

        Parameters
        ----------
        prediction : Prediction
            One of the predictions.

        Returns
        -------
        float or None
            None if labels are numbers. Probabilities are taken to follow a Beta distribution with the rate as its mean. On six data sets
            the log loss of fitted models was 0 to 13 % larger than this at their R², and 0 to 4 % in five of them.
        """
        if self.models.domain is None or self.models.domain.classes is None:
            return None
        rate, r2 = self.prior.mean, min(max(prediction.r2, 1e-9), 1 - 1e-9)
        size = 1 / r2 - 1
        return float(sum(p * (digamma(size + 1) - digamma(p * size + 1)) for p in (rate, 1 - rate)))

    def _whose(self, best: Outlook) -> str:
        """Return the unit of an ε, if a person has several rows."""
        if self.persons is not None:
            return " for each person"
        if self.rows_per_person == 1:
            return ""
        return f" for each record, which is {best.risk.total:g} for a person with {self.rows_per_person} rows"

    def _good_enough(self, method: str) -> list[Outlook]:
        """Return the outlooks where a method keeps most of the variance explained without privacy."""
        wanted = ENOUGH * self.not_private.r2
        return [each for each in self.outlooks if getattr(each, method).r2 >= wanted > 0]

    def table(self) -> list[dict[str, Any]]:
        """Return the predictions as rows of plain numbers. `foreseen` has the expected intervals.

        Returns
        -------
        list of dict
            For each ε the squared error, its root and R² of each method.
        """
        return [
            {"epsilon": each.epsilon}
            | {
                f"{name}_{figure}": getattr(getattr(each, name), figure)
                for name in ("labels", "paper", "sums")
                for figure in ("mse", "rmse", "r2")
            }
            for each in self.outlooks
        ]

    def to_arrow(self) -> pa.Table:
        """Return the rows of `table` as an Arrow table.

        Returns
        -------
        pyarrow.Table
            One row for each ε.
        """
        import pyarrow as pa

        return pa.Table.from_pylist(self.table())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the predicted errors against ε, with lines for no privacy and for predicting the mean.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib axes
        """
        from labeldp import plots
        from labeldp.mechanisms import MECHANISMS

        lines = {
            "private labels (auto)": [each.labels.rmse for each in self.outlooks],
            "the paper's bins": [each.paper.rmse for each in self.outlooks],
            "noisy sums (one team)": [each.sums.rmse for each in self.outlooks],
            "no privacy": [self.not_private.rmse] * len(self.outlooks),
            "the mean for all": [self.mean_only.rmse] * len(self.outlooks),
        }
        references = ("no privacy", "the mean for all")
        colours = {
            "private labels (auto)": MECHANISMS["auto"].colour,
            "the paper's bins": MECHANISMS["rr-on-bins"].colour,
            "noisy sums (one team)": plots.CURVES[3],
        } | dict.fromkeys(references, plots.QUIET)
        return plots.curves(
            [each.epsilon for each in self.outlooks],
            lines,
            colours=colours,
            dashed=references,
            ylabel="predicted error (RMSE)",
            title=f"{self.records:,} records, features explain {self.explained:g}",
            ax=ax,
        )

    def _facts(self) -> dict[str, str]:
        return {
            "records": f"{self.records:,}",
            "explained": f"{self.explained:g}",
            "not_private": f"R² {self.not_private.r2:.2f}",
            **{f"ε = {each.epsilon:g}": f"R² {each.labels.r2:.2f}" for each in self.outlooks},
            "recommended": "none" if self.recommended is None else f"ε = {self.recommended.epsilon:g}",
        }


def advise(
    domain: Domain | tuple[float, float],
    records: int | None = None,
    *,
    persons: int | None = None,
    explained: float = EXPLAINED,
    epsilons: Iterable[Epsilon] = EPSILONS,
    prior: Prior | None = None,
    shape: str | None = None,
    target_r2: float | None = None,
    target_error: float | None = None,
    rows_per_person: int = 1,
    value: float | None = None,
    public: bool = False,
) -> Advice:
    """Predict the errors of models at several ε, before anything is released. Labels are not read.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds of the labels.
    records : int, optional
        The number of records that a model will be trained on.
    persons : int, optional
        Instead of `records`: the number of persons, with `rows_per_person` records each. ε is then the total cost of
        all labels of a person, as in a release with persons.
    explained : float
        The share of the labels' variance that the best model of the features explains, from 0 to 1: the R² that you
        expect with unlimited records.
    epsilons : iterable of float, str, Decimal or Fraction
        The values of ε to compare.
    prior : Prior, optional
        The distribution of the labels, if it is public or was released before.
    shape : str, optional
        The same in words: "uniform", "normal:mean=80,sd=30", "log-normal:mean=80,sd=90", "gamma:mean=80,sd=60",
        "exponential:mean=90" or "poisson:mean=3". Without a prior and a shape, labels are assumed to be uniform between
        the bounds, and the result is a rough guide.
    target_r2 : float, optional
        The target R² of a model: the smallest ε and the smallest numbers of records are found.
    target_error : float, optional
        The same as a root mean squared error, in the unit of the labels.
    rows_per_person : int
        How many labels belong to one person. Without `persons`, each costs ε, which affects the risk.
    value : float, optional
        Risks are stated for labels above this value; by default the middle of the bounds.
    public : bool
        Whether a release will use the distribution as its public prior, so that all of ε goes to the labels.

    Returns
    -------
    Advice

    Raises
    ------
    InvalidInput
        If a number is out of its range, or the prior does not lie within the bounds.

    Privacy
    -------
    Costs nothing: labels are not read. An `explained` that was measured on true labels is not public; guess it, or
    measure it on private ones.

    Examples
    --------
    >>> from labeldp import advise
    >>> advice = advise((0, 400), records=50_000, shape="log-normal:mean=80,sd=90", target_r2=0.4)
    >>> advice.target.epsilon_labels
    0.21
    >>> print(advice.outlooks[2].risk.sentence("more than 200"))
    Someone who knows all other records and considers "more than 200" 50 % likely will consider it at most 73 % likely after reading the message, and at least 27 %.
    """
    frame = Domain.of(domain)
    if frame.classes is not None and frame.count > 2:
        raise InvalidInput(
            "advice is for numbers and for two classes: give the class that matters most, and all others as the first one"
        )
    if (records is None) == (persons is None):
        raise InvalidInput("give the number of records that a model will be trained on, or the number of persons")
    _check_number(records if persons is None else persons, "records" if persons is None else "persons")
    _check_number(rows_per_person, "rows per person")
    if persons is not None and (target_r2 is not None or target_error is not None):
        raise InvalidInput("a target can only be used with records: leave it out, or give records instead of persons")
    count = persons * rows_per_person if records is None else records  # type: ignore[operator] # one of them is given
    check_share(explained)
    budgets = _budgets(epsilons)
    middle = (frame.lower + frame.upper) / 2 if value is None else _within(value, frame)
    known = _distribution(prior, shape, frame)
    models = ModelErrors(known, float(explained), domain=frame, public=public)
    if not math.sqrt(models.prior.variance) > NARROWEST * (frame.upper - frame.lower):
        raise InvalidInput(
            "by this distribution all labels are in the same cell, so there is nothing for a model to predict: give narrower bounds, or another "
            "distribution"
        )
    wanted = wanted_r2(models, target_r2, target_error)
    outlooks = tuple(
        _outlook(models, epsilon, count, rows_per_person)
        if persons is None
        else _outlook_of_persons(models, epsilon, persons, rows_per_person)
        for epsilon in budgets
    )
    unit = f" {frame.unit}" if frame.unit else ""
    return Advice(
        records=int(count),
        explained=float(explained),
        prior=models.prior,
        assumed=prior is None and shape is None,
        outlooks=outlooks,
        not_private=models.not_private(count),
        mean_only=models.mean_only(),
        statement=f"more than {middle:g}{unit}" if frame.classes is None else frame.classes[-1],
        target=None if wanted is None else target_of(models, count, budgets, wanted),
        models=models,
        persons=persons,
        rows_per_person=rows_per_person,
    )


def _outlook(models: ModelErrors, epsilon: float, records: int, rows: int) -> Outlook:
    """Return the predictions if ε is for each record."""
    labels, paper, sums = (predict(epsilon, records) for predict in (models.labels, models.paper, models.sums))
    return Outlook(epsilon, labels, paper, sums, Risk(epsilon, rows), records)


def _outlook_of_persons(models: ModelErrors, epsilon: float, persons: int, rows: int) -> Outlook:
    """Return the predictions if ε is for each person."""
    total, sizes = exact_epsilon(epsilon), np.zeros(MOST_ENTRIES + 1, np.int64)
    sizes[min(rows, MOST_ENTRIES)] = persons
    entries, records = entries_per_person(sizes, total, models)
    divided = models.paper(max(total / rows, MIN_EPSILON), persons * rows)
    labels = models.labels(total / entries, records)
    return Outlook(epsilon, labels, divided, models.sums(total, persons), Risk(epsilon, 1), records, entries)


def _check_number(number: object, name: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_RECORDS:
        raise InvalidInput(f"{name} must be a whole number from 1 to 10^15, got {described(number)}")


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
            f"value must lie within the bounds, from {domain.lower:g} to below {domain.upper:g}, got {described(value)}: outside of "
            "them the answer is known already"
        )
    return float(value)


def _distribution(prior: Prior | None, shape: str | None, domain: Domain) -> Prior | None:
    """Return the given distribution, or None."""
    if prior is not None and shape is not None:
        raise InvalidInput("give one distribution of the labels: a prior or a shape, not both")
    if prior is None:
        return None if shape is None else shaped_prior(shape, domain)
    expect_prior(prior)
    slack = BEYOND * (domain.upper - domain.lower)
    held = prior.values[prior.masses > 0]
    if held[0] < domain.lower - slack or held[-1] > domain.upper + slack:
        raise InvalidInput(
            f"the prior has labels from {held[0]:g} to {held[-1]:g}, and the bounds are {domain.lower:g} to {domain.upper:g}: "
            "give bounds that hold them all, or a prior in the unit of the bounds"
        )
    return prior


def known_from_message(path: str | os.PathLike[str]) -> tuple[Domain, int, Prior]:
    """Return bounds, number of records and prior of a message. Its private labels are not read.

    Parameters
    ----------
    path : str or Path
        The message's folder.

    Returns
    -------
    domain : Domain
        The bounds of the labels.
    records : int
        The number of records.
    prior : Prior
        The distribution that the mechanism was designed for.

    Raises
    ------
    InvalidInput
        If the folder is not a message, or its mechanism was not designed for a prior.
    """
    message = Message.open(path)
    prior, domain = message.mechanism.prior, message.mechanism.domain
    if prior is None:
        raise InvalidInput(
            f"the mechanism of {path} was not designed for a prior, so the message does not contain one: give bounds and a shape instead "
            "(--lower, --upper, --shape), or for classes their names and the rate (--classes, --rate)"
        )
    return domain or Domain(float(prior.values[0]), float(prior.values[-1])), message.records, prior
