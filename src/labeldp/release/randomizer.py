"""Randomization of labels in an array: draw a private prior, design the best mechanism for it, draw one private label for each."""

import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.mechanisms import FiniteMechanism, PrivateLabels, Request, design, releasable
from labeldp.mechanisms.prediction import ModelErrors, entries_per_person
from labeldp.priors import BudgetSplit, BudgetWarning, Prior, histogram
from labeldp.priors.prior import expect_prior
from labeldp.sampling import EntryChoice, OsEntropy, Randomness, choose_entries, person_sizes
from labeldp.sampling.randomness import source_of

CLASSES = "randomized-response"
"""The mechanism for classes."""


@dataclass(frozen=True)
class Plan:
    """The plan for a release of labels, from the settings and the number of records only. It does not depend on labels.

    Attributes
    ----------
    mechanism : str
        The mechanism's name in the catalogue.
    request : Request
        The grid, ε of one label, the loss, the public prior if there is one, and the number of labels to randomize.
    split : BudgetSplit or None
        The split of one label's ε between a private prior and the label; None if nothing is spent on a prior.
    entries : int
        The maximum number of randomized labels per unit of privacy: 1 for a record, several for a person.
    repeated : bool
        Whether some person has more than one label. It is true if the unit is a record.
    """

    mechanism: str
    request: Request
    split: BudgetSplit | None
    entries: int = 1
    repeated: bool = True

    @property
    def epsilon(self) -> Fraction:
        """The total cost of each record, or of each person."""
        return self.entries * exact_epsilon(self.request.epsilon)

    @property
    def grid(self) -> Domain:
        """The bounds and the cells."""
        return self.request.domain

    @property
    def epsilon_prior(self) -> Fraction:
        """The part of ε for the private prior."""
        return Fraction(0) if self.split is None else self.split.epsilon_prior

    @property
    def epsilon_labels(self) -> Fraction:
        """The part of ε for each randomized label."""
        return exact_epsilon(self.request.epsilon) if self.split is None else self.split.epsilon_labels

    def warn(self, stacklevel: int = 2) -> None:
        """Warn about valid but unwise settings. Call this once, before anything is spent."""
        if self.split is not None:
            self.split.warn(stacklevel=stacklevel + 1)
        if not self.repeated:
            _warn_of_single_rows(stacklevel + 1)

    def design(self, counts: NDArray[np.int64] | None = None) -> FiniteMechanism:
        """Design the mechanism. If it needs a private prior, draw it from exact counts of the labels on `grid`.

        Privacy: costs `epsilon_prior`.
        """
        if self.split is None:
            return design(self.mechanism, self.request)
        assert counts is not None, "a private prior is drawn from counts"
        return self.design_for(self.draw_prior(counts, self.split))

    def draw_prior(self, counts: NDArray[np.int64], split: BudgetSplit) -> Prior:
        """Draw the private prior from exact counts of the labels on `grid`. Costs `epsilon_prior`."""
        prior = releasable(self.mechanism).fit_prior(counts, split.scale, self.request)
        if prior.epsilon_exact != split.epsilon_prior:
            raise PrivacyRefused(f"the prior of {self.mechanism} cost another epsilon than its share of the budget")
        return prior

    def fit(self, values: Floats) -> FiniteMechanism:
        """Design the mechanism for checked labels. Costs `epsilon_prior`."""
        return self.design(None if self.split is None else histogram(values, self.grid))

    def design_for(self, prior: Prior) -> FiniteMechanism:
        """Design the mechanism for a given prior, at the part of ε for the labels."""
        return design(self.mechanism, replace(self.request, epsilon=self.epsilon_labels, prior=prior))


@dataclass(frozen=True)
class LabelRandomizer:
    """A randomizer of labels in two steps: ε₁ pays for a prior, and ε₂ = ε − ε₁ for the mechanism designed for it.

    Parameters
    ----------
    epsilon : float, str, Decimal or Fraction
        The total budget of each label, or of each person. A float means its decimal form: 0.1 is 1/10.
    domain : Domain or (lower, upper)
        The public bounds of the labels, never computed from them.
    loss : str, Loss or callable
        The loss for which the mechanism is designed. A callable is called as loss(output, label).
    mechanism : str
        A name in the catalogue. "auto", the default, is best for models that are trained on the labels. "rr-on-bins" is
        the paper's mechanism and keeps the labels themselves close to the truth. Classes are always released by
        "randomized-response": every other ε-DP mechanism for two classes is a post-processing of it.
    prior : Prior, optional
        Public knowledge about the labels. It costs nothing and leaves all of ε to the labels.
    out_of_range : {"clip", "clip-all", "error"}
        How to handle labels outside the bounds. "clip" moves them to the bounds, warns if they are more than 5 %, and
        raises an error if they are more than 20 %. "clip-all" moves any number of them. "error" raises an error.

    Privacy
    -------
    `randomize` is ε-label-DP for replacing one label: a private histogram of ε₁ and a mechanism of ε₂ on each label, ε₁
    + ε₂ ≤ ε as exact fractions. With persons it is ε-DP for replacing all labels of one person: at most m of them are
    used, each at ε/m. Every call of `fit` or `randomize` is a new release with a new cost.

    Examples
    --------
    >>> from labeldp import LabelRandomizer
    >>> private = LabelRandomizer(epsilon=1.0, domain=(0, 400)).randomize(range(400))
    >>> len(private.values())
    400
    """

    epsilon: Epsilon
    domain: Domain | tuple[float, float]
    loss: LossLike = "squared"
    mechanism: str = "auto"
    prior: Prior | None = None
    out_of_range: OutOfRange = "clip"

    def __post_init__(self) -> None:
        exact_epsilon(self.epsilon)
        releasable(self.mechanism)
        get_loss(self.loss)
        check_out_of_range(self.out_of_range)
        if self.prior is not None:
            expect_prior(self.prior)
        if self.prior is not None and self.prior.epsilon_exact > 0:
            raise InvalidInput(
                f"this prior was estimated from labels and cost ε = {self.prior.epsilon:.4g}: it is not public. Leave it out and "
                "one is drawn within the budget, or design the mechanism from it yourself (RROnBins.optimal) and add the costs"
            )
        object.__setattr__(self, "domain", Domain.of(self.domain))
        check_bounds(get_loss(self.loss), self._domain)
        if self._domain.classes is not None:
            if self.mechanism not in ("auto", CLASSES) or self.prior is not None:
                raise InvalidInput(
                    f"classes are released by {CLASSES}, without a prior: leave out the mechanism and the prior"
                )
            object.__setattr__(self, "mechanism", CLASSES)
        if self.prior is not None:
            inside = (self.prior.values >= self._domain.lower) & (self.prior.values <= self._domain.upper)
            if self.prior.masses[inside].sum() < 0.5:
                raise InvalidInput(
                    f"most of the prior's mass lies outside the bounds {self._domain.lower:g} to {self._domain.upper:g}: is it in the "
                    "same unit?"
                )

    def fit(self, labels: Any) -> FiniteMechanism:
        """Draw the private prior and design the mechanism for it.

        Parameters
        ----------
        labels : array-like
            The true labels.

        Returns
        -------
        FiniteMechanism
            The mechanism, of ε₂; its `prior` cost ε₁.

        Privacy
        -------
        Costs ε₁. Randomizing the same labels with the mechanism costs another ε₂, ε in total.
        """
        return self._fit(self.checked(labels))

    def randomize(
        self, labels: Any, ids: Any = None, randomness: Randomness | None = None, *, persons: Any = None
    ) -> PrivateLabels:
        """Draw a private label for each label. With `mechanism="rr-on-bins"` this is the paper's Algorithm 3.

        Parameters
        ----------
        labels : array-like
            The true labels.
        ids : array-like, optional
            One id per record, for `KeyedRandomness`.
        randomness : OsEntropy or KeyedRandomness, optional
            Where the random bits come from; the operating system by default.
        persons : array-like, optional
            The person of each label, integers or text. All labels of a person then cost ε in total: a few of them are
            chosen, independently of labels, and only these get private labels (`PrivateLabels.rows`).

        Returns
        -------
        PrivateLabels

        Privacy
        -------
        Costs ε for each record, or for each person if `persons` are given. The result contains no true labels. Which
        records exist, and whom they belong to, is not protected.
        """
        source = source_of(randomness, ids)
        values = self.checked(labels)
        if persons is None:
            return self.randomize_checked(values, ids, source)
        choice = EntryChoice.of(source)
        words = person_words(choice, persons, values.size)
        plan = self.plan(values.size, person_sizes(words))
        rows = chosen_rows(choice, words, plan.entries, ids)
        plan.warn()
        mechanism = plan.fit(values[rows])
        known = None if ids is None else source.identify(ids, digest=mechanism.digest_bytes)
        records = None if known is None else known[rows].without_duplicates()
        return PrivateLabels(mechanism.codes(values[rows], records, source), mechanism, rows, plan.entries)

    def randomize_checked(self, values: Floats, ids: Any = None, randomness: Randomness | None = None) -> PrivateLabels:
        """Randomize labels that `checked` returned.

        Parameters
        ----------
        values : array of float64
            Checked labels.
        ids : array-like, optional
            One id per record, for `KeyedRandomness`.
        randomness : OsEntropy or KeyedRandomness, optional
            Where the random bits come from; the operating system by default.

        Returns
        -------
        PrivateLabels

        Privacy
        -------
        Costs ε. The result contains no true labels.
        """
        mechanism = self._fit(values)
        return PrivateLabels(mechanism.codes(values, ids, randomness), mechanism)

    def checked(self, labels: Any) -> Floats:
        """Return labels as finite floats within the bounds.

        Parameters
        ----------
        labels : array-like
            The true labels: numbers, or durations if the domain has a unit.

        Returns
        -------
        array of float64

        Raises
        ------
        InvalidInput
            If a label is missing, not a number, or outside the bounds where that is an error.

        Warns
        -----
        ClippingWarning
            If more than 5 % of the labels lie outside the bounds.
        """
        found = self._domain.check(labels, self.out_of_range)
        if self._domain.classes is not None and found.size:
            self._domain.require_every_class(np.bincount(found.astype(np.int64), minlength=self._domain.count))
        return found

    def plan(self, records: int, sizes: NDArray[np.int64] | None = None, entries: int | None = None) -> Plan:
        """Plan a release of this number of records, before labels are read.

        Parameters
        ----------
        records : int
            The number of labels.
        sizes : array of int64, optional
            The number of persons by their number of labels (`person_sizes`), if the unit of privacy is a person. The
            number of randomized labels per person is then chosen by the predicted error of a model.
        entries : int, optional
            The number of randomized labels per person, if it is already fixed. `records` is then the number of chosen labels.

        Returns
        -------
        Plan

        Raises
        ------
        InvalidInput
            If the settings cannot work for this number of records.
        """
        epsilon, repeated = self.epsilon, True
        if sizes is not None:
            repeated = bool(sizes[2:].any())
            _check_several_persons(int(sizes.sum()), repeated=repeated)
            if entries is None:
                bounds = Domain(self._domain.lower, self._domain.upper)
                models = ModelErrors(self.prior, domain=bounds, public=self.prior is not None)
                entries, records = entries_per_person(sizes, exact_epsilon(epsilon), models)
            epsilon = exact_epsilon(epsilon) / entries
        grid = self._domain.resolve(records, float(exact_epsilon(epsilon)))
        request, entry = Request(grid, epsilon, self.loss, self.prior, records), releasable(self.mechanism)
        entry.check(request)
        return Plan(self.mechanism, request, entry.split_for(request), entries or 1, repeated)

    def rehearse(self, records: int) -> FiniteMechanism:
        """Design a mechanism for this number of records without any labels. Costs nothing.

        Parameters
        ----------
        records : int
            The number of labels.

        Returns
        -------
        FiniteMechanism
        """
        plan = self.plan(records)
        plan.warn(stacklevel=3)
        return plan.design(np.zeros(plan.grid.count, np.int64))

    def _fit(self, values: Floats) -> FiniteMechanism:
        if values.size == 0:
            raise InvalidInput("labels must contain at least one label to randomize")
        plan = self.plan(values.size)
        plan.warn(stacklevel=4)
        return plan.fit(values)

    @property
    def _domain(self) -> Domain:
        return Domain.of(self.domain)


def person_words(choice: EntryChoice, persons: Any, records: int) -> NDArray[np.uint64]:
    """Return the word of each record's person. Raise `InvalidInput` for persons that cannot be distinguished, or too few."""
    try:
        words = choice.persons(persons)
    except InvalidInput as error:  # they are parsed like ids
        raise InvalidInput(str(error).replace("ids must", "persons must", 1)) from None
    if words.size != records:
        raise InvalidInput(
            f"there must be one person for each label: got {words.size:,} persons for {records:,} labels"
        )
    return words


def numbered_persons(persons: Any, records: int) -> NDArray[np.int64]:
    """Return the index of each record's person, if all rows of a person are used. Warn if no person has two rows."""
    words, numbers = np.unique(person_words(EntryChoice.of(OsEntropy()), persons, records), return_inverse=True)
    repeated = words.size < records
    _check_several_persons(words.size, repeated=repeated)
    if not repeated:
        _warn_of_single_rows(stacklevel=3)
    return numbers


def _check_several_persons(persons: int, *, repeated: bool) -> None:
    if persons == 1 and repeated:
        raise InvalidInput(
            "all rows belong to one person, and one person cannot be hidden among others: name the column that "
            "distinguishes persons"
        )


def _warn_of_single_rows(stacklevel: int) -> None:
    warnings.warn(
        "no person has more than one row, so each row is protected as without persons, and all rows are used. Is the column "
        "of persons the right one?",
        BudgetWarning,
        stacklevel=stacklevel + 1,
    )


def chosen_rows(choice: EntryChoice, words: NDArray[np.uint64], entries: int, ids: Any = None) -> NDArray[np.int64]:
    """Return the rows whose labels are randomized, in order: at most `entries` of each person. Row numbers are the ids by default."""
    ranks = choice.ranks(words, np.arange(words.size) if ids is None else ids)
    return np.flatnonzero(choose_entries(words, ranks, entries))


def check_bounds(loss: Loss, domain: Domain) -> None:
    """Raise `InvalidInput` if the loss is not defined for all labels within the bounds."""
    if not loss.valid_labels.contains([domain.lower, domain.upper]).all():
        low = loss.valid_labels.lower
        bound = f"a lower bound {'above' if loss.valid_labels.lower_open else 'of at least'} {low:g}"
        raise InvalidInput(
            f"{loss.name} loss is for labels in {loss.valid_labels}, and the bounds are {domain.lower:g} to {domain.upper:g}: give "
            f"{bound} (--lower), or another loss"
        )
