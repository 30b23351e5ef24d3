"""The ways to make private training labels that the paper compares, and our own beside them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labeldp.choice import label_share
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
    Staircase,
    design,
)
from labeldp.prior import BudgetSplit, BudgetWarning, Prior
from labeldp.randomizer import LabelRandomizer

if TYPE_CHECKING:
    from labeldp.arrays import Floats
    from labeldp.budget import Epsilon

Plain = Callable[[Domain, "Epsilon"], Mechanism]


@dataclass(frozen=True, eq=False)
class Targets:
    """What a model trains on, and the share of a true label that each value is worth (None: trained as in the paper)."""

    values: Floats
    share: float | None = None


@dataclass(frozen=True)
class Method:
    """A mechanism and what its outputs stand for in training.

    Either `plain`, a mechanism that knows only the domain and gets all of ε, or `designed`, the name of one that
    `LabelRandomizer` makes for a private prior, which costs a part of ε. Models on the values of `ours` are sized by what
    these are worth (`labeldp.choice`); the others are trained as in the paper.
    """

    name: str
    title: str
    plain: Plain | None = None
    designed: str = ""
    decoder: str = "bins"
    ours: bool = False

    def split(self, domain: Domain, epsilon: Epsilon, records: int) -> BudgetSplit | None:
        """How ε is divided; None where no prior is bought. Refuses a grid too fine for the records."""
        if self.plain is not None:
            return None
        return LabelRandomizer(epsilon, domain, mechanism=self.designed).plan(records)[1]

    def mechanism(self, prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> Mechanism:
        """The mechanism for this very prior, after paying for it. For exact figures: no noise is added to the prior."""
        split = self.split(domain, epsilon, records)
        if self.plain is not None:
            return self.plain(domain, epsilon)
        assert split is not None
        return design(self.designed, domain, split.labels, prior=prior, records=records)

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

    def targets(self, labels: Floats, domain: Domain, epsilon: Epsilon, generator: np.random.Generator) -> Targets:
        """Private values for labels: the paper's two steps where a prior is bought, one draw otherwise.

        Exact mechanisms and the histogram draw from the operating system, as in a release; float mechanisms draw from
        `generator`.
        """
        if self.plain is not None:
            plain = self.plain(domain, epsilon)
            return Targets(plain.randomize(labels, randomness=None if plain.exact else generator))  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # many runs would say the same
            private = LabelRandomizer(epsilon, domain, mechanism=self.designed).randomize(labels)
        values = code_values(private.mechanism, self.decoder)
        return Targets(values[private.codes], label_share(private.mechanism, values) if self.ours else None)


NOT_PRIVATE = "not-private"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("rr-on-bins", "RR-on-Bins", designed="rr-on-bins"),
        Method("laplace", "Laplace", plain=Laplace),
        Method("staircase", "staircase", plain=Staircase),
        Method("exponential", "exponential", plain=ContinuousExponential),
        Method("laplace-unclipped", "Laplace, not clipped", plain=lambda d, e: Laplace(d, e, clip=False)),
        Method("staircase-unclipped", "staircase, not clipped", plain=lambda d, e: Staircase(d, e, clip=False)),
        Method("discrete-laplace", "discrete Laplace", plain=DiscreteLaplace),
        Method("discrete-staircase", "discrete staircase", plain=DiscreteStaircase),
        Method("discrete-exponential", "exponential", plain=Exponential),
        Method("rr-with-prior", "RRWithPrior", designed="rr-with-prior"),
        Method("debiased", "RR-on-Bins, debiased", designed="rr-on-bins", decoder="debiased", ours=True),
        Method("positive", "RR-on-Bins, debiased, positive", designed="rr-on-bins", decoder="positive", ours=True),
        Method("unbiased", "unbiased", designed="unbiased", ours=True),
        Method("auto", "auto", designed="auto", ours=True),
    )
}
"""By name. `ours` go past the paper; the staircase has the step that minimises the variance of its noise."""


def check_methods(names: Iterable[str], known: tuple[str, ...]) -> None:
    """Refuses a method that the experiment does not have."""
    for name in names:
        if name not in known:
            raise InvalidInput(f"unknown mechanism {name!r} for this experiment; it has {', '.join(known)}")
