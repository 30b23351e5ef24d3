"""The labels party's whole job on an array: a private prior, the best mechanism for it, one private label each."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact, float_up
from labeldp.domain import Domain, OutOfRange
from labeldp.errors import InvalidInput
from labeldp.mechanisms import AUTO, NEEDS_PRIOR, FiniteMechanism, check_kind, design
from labeldp.prior import BudgetSplit, Prior, histogram, prior_from_counts, split_budget

if TYPE_CHECKING:
    from labeldp.mechanisms.base import LossLike
    from labeldp.sampling import Randomness


@dataclass(frozen=True)
class LabelRandomizer:
    """The paper's two-step randomizer: ε₁ buys a prior, ε₂ = ε − ε₁ randomizes the labels with the mechanism best for it.

    Privacy: `randomize` is ε-label-DP for replacing one label: a private histogram of ε₁ and a mechanism of ε₂ on each
    label, ε₁ + ε₂ ≤ ε as exact fractions. A public `prior` costs nothing and leaves all of ε to the labels. Every call
    of `fit` or `randomize` is a new release and costs again.

    >>> private = LabelRandomizer(epsilon=1.0, domain=(0, 400)).randomize(range(400))
    >>> len(private.values())
    400
    """

    epsilon: Epsilon
    domain: Domain | tuple[float, float]
    loss: LossLike = "squared"
    mechanism: str = "rr-on-bins"
    prior: Prior | None = None
    out_of_range: OutOfRange = "clip"

    def __post_init__(self) -> None:
        exact(self.epsilon)
        check_kind(self.mechanism)
        if self.prior is not None and self.prior.epsilon_exact > 0:
            raise InvalidInput(
                f"this prior was estimated from labels and cost ε = {self.prior.epsilon:.4g}: it is not public. Leave it out and "
                "one is drawn within the budget, or design the mechanism from it yourself (RROnBins.optimal) and add the costs"
            )
        object.__setattr__(self, "domain", Domain.of(self.domain))

    def fit(self, labels: Any) -> FiniteMechanism:
        """Draws the private prior (ε₁) and returns the mechanism (ε₂) designed for it. Costs ε₁.

        Randomizing the same labels with the mechanism returned costs ε₂ once more, ε together.
        """
        return self._fit(self.checked(labels))

    def randomize(self, labels: Any, ids: Any = None, randomness: Randomness | None = None) -> PrivateLabels:
        """The paper's Algorithm 3 whole. Costs ε."""
        values = self.checked(labels)
        mechanism = self._fit(values)
        return PrivateLabels(mechanism.codes(values, ids, randomness), mechanism)

    def checked(self, labels: Any) -> Floats:
        """Labels as finite floats within the bounds."""
        return self._domain.check(labels, self.out_of_range)

    def plan(self, records: int) -> tuple[Domain, BudgetSplit | None]:
        """The grid and the budget split for so many records, before any label is read; no split, nothing spent on a prior."""
        grid = self._domain.resolve(records, float(exact(self.epsilon)))
        if self.prior is not None or self.mechanism not in NEEDS_PRIOR:
            return grid, None
        if self.mechanism == AUTO:
            from labeldp.choice import split_for_training

            return grid, split_for_training(self.epsilon, len(grid.grid), records, self.loss)
        return grid, split_budget(self.epsilon, len(grid.grid), records)

    def rehearse(self, records: int) -> FiniteMechanism:
        """A mechanism for so many records, designed from no label at all. Costs nothing.

        What the settings make impossible is refused and what they make unwise is said, before anything is charged.
        """
        grid, split = self.plan(records)
        if split is not None:
            split.warn(stacklevel=3)
        return self.design(np.zeros(len(grid.grid), np.int64), records)

    def count(self, values: Floats) -> NDArray[np.int64]:
        """What `design` asks of the labels: exact counts on the planned grid, or nothing where no prior is drawn."""
        grid, split = self.plan(values.size)
        return np.empty(0, np.int64) if split is None else histogram(values, grid)

    def design(self, counts: NDArray[np.int64], records: int) -> FiniteMechanism:
        """The mechanism from exact counts on the planned grid: what `fit` does once the labels are counted."""
        grid, split = self.plan(records)
        if split is None:
            return design(self.mechanism, grid, self.epsilon, prior=self.prior, loss=self.loss, records=records)
        if self.mechanism == AUTO:
            from labeldp.choice import choose_privately

            return choose_privately(counts, grid, self.epsilon, records, self.loss).mechanism
        prior = prior_from_counts(counts, grid, split.scale)
        return design(self.mechanism, grid, split.labels, prior=prior, loss=self.loss, records=records)

    def _fit(self, values: Floats) -> FiniteMechanism:
        if values.size == 0:
            raise InvalidInput("there are no labels to randomize")
        _, split = self.plan(values.size)
        if split is not None:
            split.warn(stacklevel=4)
        return self.design(self.count(values), values.size)

    @property
    def _domain(self) -> Domain:
        return Domain.of(self.domain)


@dataclass(frozen=True, eq=False)
class PrivateLabels:
    """Private labels as codes, with the public mechanism that says what they mean. Holds no true label."""

    codes: NDArray[np.uint32]
    mechanism: FiniteMechanism

    @property
    def epsilon_exact(self) -> Fraction:
        """What the labels cost in all: the private prior and the mechanism."""
        prior = self.mechanism.prior
        return self.mechanism.epsilon_exact + (prior.epsilon_exact if prior is not None else 0)

    @property
    def epsilon(self) -> float:
        """`epsilon_exact`, rounded up."""
        return float_up(self.epsilon_exact)

    def values(self, decoder: str = "bins") -> Floats:
        """A number for each record: `bins`, the mechanism's outputs; `auto`, what suits training; see `labeldp.decode`."""
        from labeldp.decode import code_values

        return code_values(self.mechanism, decoder)[self.codes]

    def __len__(self) -> int:
        return self.codes.size

    def __repr__(self) -> str:
        return f"PrivateLabels({self.codes.size:,} labels, epsilon={self.epsilon:g}, {self.mechanism!r})"
