"""The ways to make private training labels that the paper compares, and our own beside them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms import MECHANISMS, ContinuousMechanism, FiniteMechanism, Mechanism, Request, design
from labeldp.mechanisms.catalogue import Entry
from labeldp.mechanisms.decoding import code_values
from labeldp.priors import BudgetSplit, BudgetWarning, Prior
from labeldp.randomizer import LabelRandomizer
from labeldp.training.sizing import label_share

NOT_PRIVATE = "not-private"


@dataclass(frozen=True, eq=False)
class Targets:
    """What a model trains on, and the share of a true label that each value is worth (None: trained as in the paper)."""

    values: Floats
    share: float | None = None


@dataclass(frozen=True)
class Method:
    """A mechanism of the catalogue, by name, and what its outputs stand for in training.

    Mechanisms that need a prior buy one with a part of ε; the others know only the domain and get all of it. Models on
    the values of `ours` are sized by what these are worth; the others are trained as in the paper.
    """

    name: str
    title: str
    mechanism_name: str
    decoder: str = "bins"
    ours: bool = False
    clip: bool = True
    dark: bool = False

    @property
    def entry(self) -> Entry:
        """Its mechanism in the catalogue."""
        return MECHANISMS[self.mechanism_name]

    @property
    def colour(self) -> str:
        """Of its curves: the mechanism's, or grey for other values of the same message."""
        return "#444c56" if self.dark else self.entry.colour

    def split(self, domain: Domain, epsilon: Epsilon, records: int) -> BudgetSplit | None:
        """How ε is divided; None where no prior is bought. Refuses a grid too fine for the records."""
        return self.entry.split_for(Request(domain, epsilon, records=records))

    def mechanism(self, prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> Mechanism:
        """The mechanism for this very prior, after paying for it. For exact figures: no noise is added to the prior."""
        split = self.split(domain, epsilon, records)
        if split is None:
            return self._plain(domain, epsilon)
        return design(self.mechanism_name, Request(domain, split.epsilon_labels, prior=prior, records=records))

    def expected_loss(self, prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> float:
        """E[(value − y)²] under the prior, computed and not sampled."""
        mechanism = self.mechanism(prior, domain, epsilon, records)
        if isinstance(mechanism, ContinuousMechanism) and not mechanism.clip:
            # Noise that is added and left alone does not depend on the label.
            return float(mechanism.conditional_loss(prior.values[:1])[0])
        if self.decoder == "bins":
            return mechanism.expected_loss(prior)
        assert isinstance(mechanism, FiniteMechanism)
        held = prior.masses > 0
        points, masses = prior.values[held], prior.masses[held]
        means, variances = mechanism.conditional_moments(points, code_values(mechanism, self.decoder))
        return float(masses @ (variances + (means - points) ** 2))

    def targets(self, labels: Floats, domain: Domain, epsilon: Epsilon, generator: np.random.Generator) -> Targets:
        """Private values for labels: the paper's two steps where a prior is bought, one draw otherwise.

        Exact mechanisms and the histogram draw from the operating system, as in a release; float mechanisms draw from
        `generator`.
        """
        if not self.entry.needs_prior:
            plain = self._plain(domain, epsilon)
            return Targets(plain.randomize(labels, randomness=None if plain.exact else generator))  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # many runs would say the same
            private = LabelRandomizer(epsilon, domain, mechanism=self.mechanism_name).randomize(labels)
        values = code_values(private.mechanism, self.decoder)
        return Targets(values[private.codes], label_share(private.mechanism, values) if self.ours else None)

    def _plain(self, domain: Domain, epsilon: Epsilon) -> Mechanism:
        """Made for the domain alone; a staircase then has the step that minimises the variance of its noise."""
        if self.clip:
            made: Mechanism = self.entry.make(Request(domain, epsilon))
        else:
            assert self.entry.cls is not None
            made = self.entry.cls(domain, epsilon, clip=False)
        return made


VARIANTS = (
    Method("laplace-unclipped", "Laplace, not clipped", "laplace", clip=False),
    Method("staircase-unclipped", "staircase, not clipped", "staircase", clip=False),
    Method("debiased", "RR-on-Bins, debiased", "rr-on-bins", decoder="debiased", ours=True, dark=True),
    Method("positive", "RR-on-Bins, debiased, positive", "rr-on-bins", decoder="positive", ours=True, dark=True),
)
"""Besides the mechanisms as they are: without clipping, and with other values for the codes of one message."""


def get_method(name: str) -> Method:
    """The method of that name: a mechanism of the catalogue, or one of the variants. `ours` go past the paper."""
    for variant in VARIANTS:
        if variant.name == name:
            return variant
    entry = MECHANISMS[name]
    return Method(name, entry.title, name, ours=entry.for_training)


def check_methods(names: Iterable[str], known: tuple[str, ...]) -> None:
    """Refuse a method that the experiment does not have."""
    for name in names:
        if name not in known:
            raise InvalidInput(f"unknown mechanism {name!r} for this experiment; it has {', '.join(known)}")
