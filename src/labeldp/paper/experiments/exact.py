"""The mechanism half of the paper's evaluation: the error of the private labels, computed exactly and never sampled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from labeldp.domain import Domain
from labeldp.paper.experiments.methods import get_method
from labeldp.paper.experiments.tasks import LabelDistribution


@dataclass(frozen=True)
class ExactLoss:
    """E[(private value − label)²] of one method at one ε."""

    method: str
    epsilon: float
    loss: float


def exact_losses(
    source: LabelDistribution, domain: Domain, methods: Iterable[str], epsilons: Iterable[float]
) -> Iterator[ExactLoss]:
    """Each method at each ε under the source's distribution of labels, as `source.records` labels would be treated.

    Methods that are made for a prior get ε − ε₁, ε₁ = √(cells/records), and the distribution itself: what the histogram
    costs is counted, its noise is not (it adds about a thousandth at the paper's size; trained runs have it).
    """
    for name in methods:
        for epsilon in epsilons:
            loss = get_method(name).expected_loss(source.prior, domain, epsilon, source.records)
            yield ExactLoss(name, epsilon, loss)
