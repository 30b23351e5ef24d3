"""RRWithPrior: randomized response on the most likely values, best for the zero-one loss (Ghazi et al. 2021)."""

from math import isqrt

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.encoders import Thresholds
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior
from labeldp.sampling import WeightTable
from labeldp.sampling.table import MAX_ENTRIES

MOST_ANSWERS = isqrt(MAX_ENTRIES) - 1
"""With one more row for all other labels the table has at most `MAX_ENTRIES` entries."""


@mechanism(
    "rr-with-prior",
    title="RRWithPrior",
    help="randomized response on the likeliest values, the least chance of a wrong label",
    make=lambda r: RRWithPrior(r.known_prior, r.epsilon, domain=r.domain),
    needs_prior=True,
    colour="#f36f1b",
)
class RRWithPrior(FiniteMechanism):
    """Randomized response on the most likely values of a prior; any other label gets one of them at random.

    Values are categories here: how far apart they are does not count. The paper compares with it.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    epsilon : float, str, Decimal or Fraction
        What each label costs.
    top : int, optional
        How many values are answered with. By default the number that is right most often, the maximum of
        Σ_top p · e^ε/(e^ε + top − 1), which is optimal for the zero-one loss.
    domain : Domain or (lower, upper), optional
        The public bounds of the labels.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import Prior, RRWithPrior
    >>> RRWithPrior(Prior([0, 10, 50], [6, 3, 1]), epsilon=1)
    RRWithPrior(epsilon=1, outputs=[0, 10])
    """

    def __init__(
        self,
        prior: Prior,
        epsilon: Epsilon,
        *,
        top: int | None = None,
        domain: Domain | tuple[float, float] | None = None,
    ) -> None:
        expect_prior(prior)
        budget = exact_epsilon(epsilon)
        likely = np.argsort(-prior.masses, kind="stable")
        if top is None:
            top = _best_top(prior.masses[likely], float(budget))
        if not 1 <= top <= prior.values.size:
            raise InvalidInput(f"top must lie from 1 to the prior's {prior.values.size} values, got {top}")
        if top > MOST_ANSWERS:
            raise InvalidInput(
                f"rr-with-prior has a table of values by values, so it answers with at most {MOST_ANSWERS:,} of them, not {top:,}: give fewer "
                "cells, or a smaller top"
            )
        chosen = np.sort(likely[:top])
        row_of_value = np.full(prior.values.size, top)  # one row for all labels outside the chosen
        row_of_value[chosen] = np.arange(top)
        boost = np.expm1(float(budget))
        rows = np.ones((top + 1, top)) if top < prior.values.size else np.ones((top, top))
        rows[np.arange(top), np.arange(top)] += boost
        rows /= rows.sum(axis=1, keepdims=True)
        super().__init__(
            encoder=Thresholds(_between(prior.values), row_of_value.astype(np.uint32)),
            table=WeightTable.from_probabilities(rows, budget),
            outputs=prior.values[chosen],
            epsilon_exact=budget,
            domain=None if domain is None else Domain.of(domain),
            prior=prior,
            parameters=(("top", int(top)),),
        )


def _best_top(masses: Floats, epsilon: float) -> int:
    counts = np.arange(1, masses.size + 1)
    return int(np.argmax(np.cumsum(masses) / (np.exp(epsilon) + counts - 1))) + 1


def _between(values: Floats) -> Floats:
    return values[:-1] + np.diff(values) / 2
