"""Mechanisms: one file each, all with the same small interface (`base.Mechanism`)."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from labeldp.budget import Epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.bias_variance import BiasVariance
from labeldp.mechanisms.continuous import ContinuousMechanism
from labeldp.mechanisms.discrete_laplace import DiscreteLaplace
from labeldp.mechanisms.discrete_staircase import DiscreteStaircase
from labeldp.mechanisms.exponential import Exponential
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.laplace import ContinuousExponential, Laplace
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.rr_on_bins import RROnBins
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.mechanisms.staircase import Staircase
from labeldp.mechanisms.unbiased import Unbiased

if TYPE_CHECKING:
    from labeldp.mechanisms.base import LossLike
    from labeldp.prior import Prior

EXACT: dict[str, type[FiniteMechanism]] = {
    mechanism.kind: mechanism
    for mechanism in (
        RROnBins,
        Unbiased,
        BiasVariance,
        RandomizedResponse,
        RRWithPrior,
        DiscreteLaplace,
        DiscreteStaircase,
        Exponential,
    )
}
COMPARISON_ONLY: dict[str, type[ContinuousMechanism]] = {
    mechanism.kind: mechanism for mechanism in (Laplace, Staircase, ContinuousExponential)
}
AUTO = "auto"
"""Not a mechanism but a choice among them, made by `labeldp.choice` for training a model."""
NEEDS_PRIOR = frozenset({AUTO, "rr-on-bins", "unbiased", "bias-variance", "rr-with-prior"})


def design(
    kind: str,
    domain: Domain,
    epsilon: Epsilon,
    *,
    prior: Prior | None = None,
    loss: LossLike = "squared",
    records: int | None = None,
) -> FiniteMechanism:
    """The exact mechanism named `kind` for a domain with a grid.

    `prior` is needed by those in `NEEDS_PRIOR`, the number of `records` by those that are designed for training on them.
    """
    check_kind(kind)
    if kind in NEEDS_PRIOR:
        if prior is None:
            raise InvalidInput(f"{kind} needs a prior")
        return _for_prior(kind, domain, epsilon, prior, loss, records)
    return EXACT[kind](domain, epsilon)  # type: ignore[call-arg,arg-type]


def _for_prior(
    kind: str, domain: Domain, epsilon: Epsilon, prior: Prior, loss: LossLike, records: int | None
) -> FiniteMechanism:
    if kind == "rr-on-bins":
        return RROnBins.optimal(prior, epsilon, loss, domain=domain)
    if kind == "rr-with-prior":
        return RRWithPrior(prior, epsilon, domain=domain)
    if kind == "unbiased":
        return Unbiased.optimal(prior, epsilon, loss, domain=domain)
    from labeldp.choice import choose, weight_of_variance

    if records is None:
        raise InvalidInput(f"{kind} is designed for training on a number of records: give records")
    if kind == "bias-variance":
        return BiasVariance.optimal(prior, epsilon, weight_of_variance(records), domain=domain)
    return choose(prior, epsilon, records, loss, domain=domain).mechanism


def check_kind(kind: str) -> None:
    """Refuses what may not be released, and names that nobody knows."""
    if kind == AUTO:
        return
    if kind in COMPARISON_ONLY:
        raise PrivacyRefused(
            f"the {kind} mechanism draws floats, whose low bits leak the label, so it is for comparison only. "
            f"Choose one of {', '.join(EXACT)}."
        )
    if kind not in EXACT:
        close = get_close_matches(kind, [AUTO, *EXACT], n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise InvalidInput(f"unknown mechanism {kind!r}.{hint} Known: {', '.join([AUTO, *EXACT])}.")


__all__ = [
    "AUTO",
    "COMPARISON_ONLY",
    "EXACT",
    "NEEDS_PRIOR",
    "BiasVariance",
    "ContinuousExponential",
    "ContinuousMechanism",
    "DiscreteLaplace",
    "DiscreteStaircase",
    "Exponential",
    "FiniteMechanism",
    "Laplace",
    "Mechanism",
    "RROnBins",
    "RRWithPrior",
    "RandomizedResponse",
    "Staircase",
    "Unbiased",
    "check_kind",
    "design",
]
