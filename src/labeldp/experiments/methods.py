"""The ways to make private training labels that the paper compares, and our own beside them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labeldp.decode import code_values
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms import (
    ContinuousExponential,
    ContinuousMechanism,
    DiscreteLaplace,
    DiscreteStaircase,
    Exponential,
    FiniteMechanism,
    Laplace,
    Mechanism,
    RROnBins,
    RRWithPrior,
    Staircase,
)
from labeldp.prior import BudgetSplit, BudgetWarning, Prior, histogram, prior_from_counts, split_budget

if TYPE_CHECKING:
    from labeldp.arrays import Floats
    from labeldp.budget import Epsilon

Plain = Callable[[Domain, "Epsilon"], Mechanism]
Designed = Callable[[Prior, Domain, "Epsilon", int], FiniteMechanism]


@dataclass(frozen=True)
class Method:
    """A mechanism and what its outputs stand for in training.

    Either `plain`, a mechanism that knows only the domain and gets all of ε, or `designed`, one made for a prior, whose
    private histogram costs ε₁ = √(cells/records) of it.
    """

    name: str
    title: str
    plain: Plain | None = None
    designed: Designed | None = None
    decoder: str = "bins"
    ours: bool = False

    def split(self, domain: Domain, epsilon: Epsilon, records: int) -> BudgetSplit | None:
        """How ε is divided; None where no prior is bought. Refuses a grid too fine for the records."""
        if self.designed is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # the command says it once for all runs
            return split_budget(epsilon, len(domain.grid), records)

    def mechanism(self, prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> Mechanism:
        """The mechanism for this very prior, after paying for it. For exact figures: no noise is added to the prior."""
        split = self.split(domain, epsilon, records)
        if split is None:
            assert self.plain is not None
            return self.plain(domain, epsilon)
        assert self.designed is not None
        return self.designed(prior, domain, split.labels, records)

    def expected_loss(self, prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> float:
        """E[(value − y)²] under the prior, computed and not sampled."""
        mechanism = self.mechanism(prior, domain, epsilon, records)
        if isinstance(mechanism, ContinuousMechanism) and not mechanism.clip:
            # Noise that is added and left alone does not depend on the label.
            return float(mechanism.conditional_loss(prior.values[:1])[0])
        if self.decoder == "bins":
            return mechanism.expected_loss(prior)
        assert isinstance(mechanism, FiniteMechanism)
        values = code_values(mechanism, self.decoder)
        held = prior.masses > 0
        points, masses = prior.values[held], prior.masses[held]
        squares = (values[None, :] - points[:, None]) ** 2
        return float(masses @ (mechanism.matrix(points) * squares).sum(axis=1))

    def private_values(
        self, labels: Floats, domain: Domain, epsilon: Epsilon, generator: np.random.Generator
    ) -> Floats:
        """What a model trains on: the paper's two steps where a prior is bought, one draw otherwise.

        Exact mechanisms and the histogram draw from the operating system, as in a release; float mechanisms draw from
        `generator`.
        """
        split = self.split(domain, epsilon, labels.size)
        if split is None:
            assert self.plain is not None
            plain = self.plain(domain, epsilon)
            return plain.randomize(labels, randomness=None if plain.exact else generator)  # type: ignore[arg-type]
        assert self.designed is not None
        prior = prior_from_counts(histogram(labels, domain), domain, split.scale)
        mechanism = self.designed(prior, domain, split.labels, labels.size)
        return code_values(mechanism, self.decoder)[mechanism.codes(labels)]


def _auto(prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> FiniteMechanism:
    from labeldp.choice import choose

    return choose(prior, epsilon, records, domain=domain).mechanism


def _unbiased(prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> FiniteMechanism:
    from labeldp.mechanisms.unbiased import Unbiased

    del records
    return Unbiased.optimal(prior, epsilon, domain=domain)


def _rr_on_bins(prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> FiniteMechanism:
    del records
    return RROnBins.optimal(prior, epsilon, domain=domain)


def _rr_with_prior(prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> FiniteMechanism:
    del records
    return RRWithPrior(prior, epsilon, domain=domain)


NOT_PRIVATE = "not-private"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("rr-on-bins", "RR-on-Bins", designed=_rr_on_bins),
        Method("laplace", "Laplace", plain=Laplace),
        Method("staircase", "staircase", plain=Staircase),
        Method("exponential", "exponential", plain=ContinuousExponential),
        Method("laplace-unclipped", "Laplace, not clipped", plain=lambda d, e: Laplace(d, e, clip=False)),
        Method("staircase-unclipped", "staircase, not clipped", plain=lambda d, e: Staircase(d, e, clip=False)),
        Method("discrete-laplace", "discrete Laplace", plain=DiscreteLaplace),
        Method("discrete-staircase", "discrete staircase", plain=DiscreteStaircase),
        Method("discrete-exponential", "exponential", plain=Exponential),
        Method("rr-with-prior", "RRWithPrior", designed=_rr_with_prior),
        Method("debiased", "RR-on-Bins, debiased", designed=_rr_on_bins, decoder="debiased", ours=True),
        Method("positive", "RR-on-Bins, debiased, positive", designed=_rr_on_bins, decoder="positive", ours=True),
        Method("unbiased", "unbiased", designed=_unbiased, ours=True),
        Method("auto", "auto", designed=_auto, ours=True),
    )
}
"""By name. `ours` go past the paper; the staircase has the step that minimises the variance of its noise."""


def check_methods(names: Iterable[str], known: tuple[str, ...]) -> None:
    """Refuses a method that the experiment does not have."""
    for name in names:
        if name not in known:
            raise InvalidInput(f"unknown mechanism {name!r} for this experiment; it has {', '.join(known)}")
