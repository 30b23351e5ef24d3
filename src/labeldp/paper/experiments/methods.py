"""The methods that the experiments compare: ways to make private training values from labels."""

import warnings
from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon
from labeldp.domain import Domain
from labeldp.mechanisms import MECHANISMS, ContinuousMechanism, FiniteMechanism, Mechanism, Request, design
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.prediction import label_share
from labeldp.mechanisms.registry import Entry
from labeldp.priors import BudgetSplit, BudgetWarning, Prior
from labeldp.release.randomizer import LabelRandomizer

NOT_PRIVATE = "not-private"


@dataclass(frozen=True, eq=False)
class Targets:
    """What a model trains on, and the share of a true label that each value is worth (None: train as in the paper)."""

    values: Floats
    share: float | None = None


@dataclass(frozen=True)
class Method:
    """A mechanism of the catalogue, and which values its codes are decoded to.

    A mechanism that needs a prior pays for one with a part of ε. The others know only the domain and get all of ε.
    """

    name: str
    title: str
    mechanism_name: str
    decoder: str = "bins"
    clip: bool = True
    own_colour: str = ""

    @property
    def entry(self) -> Entry:
        """The mechanism's entry in the catalogue."""
        return MECHANISMS[self.mechanism_name]

    @property
    def ours(self) -> bool:
        """Whether it goes beyond the paper. Models are then sized by what the values are worth."""
        return self.decoder != "bins" or self.entry.for_training

    @property
    def colour(self) -> str:
        """The colour of its curves: the mechanism's, or its own for a variant of one."""
        return self.own_colour or self.entry.colour

    def split(self, domain: Domain, epsilon: Epsilon, records: int) -> BudgetSplit | None:
        """Return how ε is divided; None where no prior is paid for. Raises InvalidInput if the grid is too fine for the records."""
        return self.entry.split_for(Request(domain, epsilon, records=records))

    def mechanism(self, prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> Mechanism:
        """Return the mechanism for exactly this prior, after paying for it. For exact figures: the prior gets no noise."""
        split = self.split(domain, epsilon, records)
        if split is None:
            return self._without_prior(domain, epsilon)
        return design(self.mechanism_name, Request(domain, split.epsilon_labels, prior=prior, records=records))

    def values(self, mechanism: Mechanism) -> Floats:
        """Return the values to train on, one for each code; of a continuous mechanism the ends of their range."""
        if self.decoder == "bins":
            return mechanism.outputs
        assert isinstance(mechanism, FiniteMechanism)
        return code_values(mechanism, self.decoder)

    def expected_loss(self, prior: Prior, domain: Domain, epsilon: Epsilon, records: int) -> float:
        """Return E[(value − label)²] under the prior, computed and not sampled."""
        mechanism = self.mechanism(prior, domain, epsilon, records)
        if isinstance(mechanism, ContinuousMechanism) and not mechanism.clip:
            # Additive noise that is not clipped has the same error for every label.
            return float(mechanism.conditional_loss(prior.values[:1])[0])
        if self.decoder == "bins":
            return mechanism.expected_loss(prior)
        assert isinstance(mechanism, FiniteMechanism)
        positive = prior.masses > 0
        labels, masses = prior.values[positive], prior.masses[positive]
        means, variances = mechanism.conditional_moments(labels, self.values(mechanism))
        return float(masses @ (variances + (means - labels) ** 2))

    def targets(self, labels: Floats, domain: Domain, epsilon: Epsilon, generator: np.random.Generator) -> Targets:
        """Private training values for labels: the paper's two steps if a prior is needed, one draw otherwise.

        Exact mechanisms and the histogram draw from the operating system, as in a release. Float mechanisms draw from
        `generator`.
        """
        if not self.entry.needs_prior:
            mechanism = self._without_prior(domain, epsilon)
            return Targets(mechanism.randomize(labels, randomness=None if mechanism.exact else generator))  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # every run would repeat it
            private = LabelRandomizer(epsilon, domain, mechanism=self.mechanism_name).randomize(labels)
        values = self.values(private.mechanism)
        return Targets(values[private.codes], label_share(private.mechanism, values) if self.ours else None)

    def _without_prior(self, domain: Domain, epsilon: Epsilon) -> Mechanism:
        """Made for the domain alone. A staircase then has the step that minimises the variance of its noise."""
        if self.clip:
            made: Mechanism = self.entry.make(Request(domain, epsilon))
        else:
            assert self.entry.cls is not None
            made = self.entry.cls(domain, epsilon, clip=False)
        return made


VARIANTS = {
    variant.name: variant
    for variant in (
        Method("laplace-unclipped", "Laplace, not clipped", "laplace", clip=False, own_colour="#86a2d5"),
        Method("staircase-unclipped", "staircase, not clipped", "staircase", clip=False, own_colour="#82475c"),
        Method("debiased", "RR-on-Bins, debiased", "rr-on-bins", decoder="debiased", own_colour="#bd9062"),
        Method("positive", "RR-on-Bins, debiased, positive", "rr-on-bins", decoder="positive", own_colour="#7f66ef"),
    )
}
"""Mechanisms without clipping, and RR-on-Bins with other values for its codes."""


def get_method(name: str) -> Method:
    """Return the method of that name: one of the variants, or a mechanism of the catalogue with its own outputs."""
    return VARIANTS.get(name) or Method(name, MECHANISMS[name].title, name)
