"""Mechanisms: one file each, all with the same small interface (`base.Mechanism`)."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from labeldp.budget import Epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.mechanisms.base import Mechanism
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

if TYPE_CHECKING:
    from labeldp.mechanisms.base import LossLike
    from labeldp.prior import Prior

EXACT: dict[str, type[FiniteMechanism]] = {
    mechanism.kind: mechanism
    for mechanism in (RROnBins, RandomizedResponse, RRWithPrior, DiscreteLaplace, DiscreteStaircase, Exponential)
}
COMPARISON_ONLY: dict[str, type[ContinuousMechanism]] = {
    mechanism.kind: mechanism for mechanism in (Laplace, Staircase, ContinuousExponential)
}
NEEDS_PRIOR = frozenset({"rr-on-bins", "rr-with-prior"})


def design(
    kind: str, domain: Domain, epsilon: Epsilon, *, prior: Prior | None = None, loss: LossLike = "squared"
) -> FiniteMechanism:
    """The exact mechanism named `kind` for a domain with a grid; `prior` is needed by those in `NEEDS_PRIOR`."""
    check_kind(kind)
    if kind in NEEDS_PRIOR and prior is None:
        raise InvalidInput(f"{kind} needs a prior")
    if prior is not None and kind == "rr-on-bins":
        return RROnBins.optimal(prior, epsilon, loss, domain=domain)
    if prior is not None and kind == "rr-with-prior":
        return RRWithPrior(prior, epsilon, domain=domain)
    return EXACT[kind](domain, epsilon)  # type: ignore[call-arg,arg-type]


def check_kind(kind: str) -> None:
    """Refuses what may not be released, and names that nobody knows."""
    if kind in COMPARISON_ONLY:
        raise PrivacyRefused(
            f"the {kind} mechanism draws floats, whose low bits leak the label, so it is for comparison only. "
            f"Choose one of {', '.join(EXACT)}."
        )
    if kind not in EXACT:
        close = get_close_matches(kind, EXACT, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise InvalidInput(f"unknown mechanism {kind!r}.{hint} Known: {', '.join(EXACT)}.")


__all__ = [
    "COMPARISON_ONLY",
    "EXACT",
    "NEEDS_PRIOR",
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
    "check_kind",
    "design",
]
