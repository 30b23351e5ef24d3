"""Randomized response: Warner's on a grid, on the likeliest values (Ghazi et al. 2021), and on bins (the paper)."""

from __future__ import annotations

from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np

from labeldp.arrays import label_array
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.design.bins import optimal_bins
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import LossLike, get_loss
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_cells import grid_parts, gridded
from labeldp.mechanisms.mechanism import Thresholds
from labeldp.mechanisms.registry import check_loss, mechanism
from labeldp.priors import Prior
from labeldp.priors.prior import expect_prior
from labeldp.sampling import ResponseTable, WeightTable
from labeldp.sampling.table import MAX_ENTRIES

MOST_ANSWERS = isqrt(MAX_ENTRIES) - 1
"""The most answers of `RRWithPrior`: with one more row for all other labels its table has at most `MAX_ENTRIES` entries."""


@mechanism(
    "randomized-response",
    title="randomized response",
    help="Warner's: keep the cell or take any other at random",
    make=lambda r: RandomizedResponse(r.domain, r.epsilon),
    training_values="debiased",
    colour="#994506",
)
class RandomizedResponse(FiniteMechanism):
    """Warner's randomized response: keeps the label's cell with weight e^ε and returns any other cell with weight 1.

    Parameters
    ----------
    domain : Domain or (lower, upper)
        The public bounds and the grid of cells; 1,001 cells by default.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of each label.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import Domain
    >>> from labeldp.mechanisms import RandomizedResponse
    >>> RandomizedResponse(Domain.integers(0, 3), epsilon=1)
    RandomizedResponse(epsilon=1, outputs=[0, 1, 2, 3])
    """

    def __init__(self, domain: Domain | tuple[float, float], epsilon: Epsilon) -> None:
        budget, frame = exact_epsilon(epsilon), gridded(domain)
        super().__init__(**grid_parts(frame, budget, ResponseTable(frame.count, budget)))


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

    Values are treated as categories: their distances are ignored. The paper compares with this mechanism.

    Parameters
    ----------
    prior : Prior
        The distribution of the labels.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of each label.
    top : int, optional
        The number of possible outputs. By default the number that is right most often, the maximum of Σ_top p ·
        e^ε/(e^ε + top − 1), which is optimal for the zero-one loss.
    domain : Domain or (lower, upper), optional
        The public bounds of the labels.

    Privacy
    -------
    ε-DP for each label, exact in integers.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import RRWithPrior
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
            chances = np.cumsum(prior.masses[likely]) / (np.exp(float(budget)) + np.arange(likely.size))
            top = int(np.argmax(chances)) + 1  # the number of answers that most often includes the label
        if not 1 <= top <= prior.values.size:
            raise InvalidInput(f"top must lie from 1 to the prior's {prior.values.size} values, got {top}")
        if top > MOST_ANSWERS:
            raise InvalidInput(
                f"rr-with-prior has a table of values by values, so it answers with at most {MOST_ANSWERS:,} of them, not {top:,}: give fewer "
                "cells, or a smaller top"
            )
        chosen = np.sort(likely[:top])
        row_of_value = np.full(prior.values.size, top)  # one row for all labels that were not chosen
        row_of_value[chosen] = np.arange(top)
        boost = np.expm1(float(budget))
        rows = np.ones((top + 1, top)) if top < prior.values.size else np.ones((top, top))
        rows[np.arange(top), np.arange(top)] += boost
        rows /= rows.sum(axis=1, keepdims=True)
        super().__init__(
            encoder=Thresholds(prior.values[:-1] + np.diff(prior.values) / 2, row_of_value.astype(np.uint32)),
            table=WeightTable.from_probabilities(rows, budget),
            outputs=prior.values[chosen],
            epsilon_exact=budget,
            domain=None if domain is None else Domain.of(domain),
            prior=prior,
            parameters=(("top", int(top)),),
        )


@mechanism(
    "rr-on-bins",
    title="RR-on-Bins",
    help="the paper's: randomized response on bins, the least error of the labels",
    make=lambda r: RROnBins.optimal(r.known_prior, r.epsilon, r.loss, domain=r.domain),
    check=check_loss,
    needs_prior=True,
    training_values="debiased",
    colour="#ce4a13",
    rank=1,
)
class RROnBins(FiniteMechanism):
    """Randomized response on bins: keeps the output of the label's bin with weight e^ε and returns any other with weight 1.

    `RROnBins.optimal` finds the bins of least expected loss. By the paper's theorem no ε-DP mechanism does better.

    Parameters
    ----------
    outputs : array-like
        The output of each bin, strictly increasing.
    epsilon : float, str, Decimal or Fraction
        The privacy budget of each label.
    thresholds : array-like, optional
        The borders between bins. By default a label belongs to the output with the least loss.
    loss : str, Loss or callable
        The loss that determines the default borders.
    domain : Domain or (lower, upper), optional
        The public bounds of the labels.
    prior : Prior, optional
        The distribution that the bins were made for.

    Privacy
    -------
    ε-DP for each label. The integer table keeps the output with weight `a` and returns each other output with weight
    `b`, out of 2^64, and `a ≤ e^ε·b` holds exactly.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import RROnBins
    >>> RROnBins([10, 100], epsilon=1)
    RROnBins(epsilon=1, outputs=[10, 100], loss=squared)
    >>> RROnBins.optimal(Prior([0, 10, 100], [1, 1, 1]), epsilon=3).outputs.round(1)
    array([ 7.3, 91.4])
    """

    def __init__(
        self,
        outputs: Any,
        epsilon: Epsilon,
        *,
        thresholds: Any = None,
        loss: LossLike = "squared",
        domain: Domain | tuple[float, float] | None = None,
        prior: Prior | None = None,
    ) -> None:
        values = label_array(outputs, "outputs")
        measure = get_loss(loss)
        if values.size == 0:
            raise InvalidInput("RR-on-Bins needs at least one output")
        if not (np.diff(values) > 0).all():
            raise InvalidInput("the outputs of RR-on-Bins must strictly increase")
        if thresholds is None:
            switches = [measure.threshold(low, high) for low, high in pairwise(values)]
        else:
            switches = label_array(thresholds, "thresholds").tolist()
        if len(switches) != values.size - 1:
            raise InvalidInput(f"{values.size} outputs need {values.size - 1} thresholds, got {len(switches)}")
        budget = exact_epsilon(epsilon)
        super().__init__(
            encoder=Thresholds(np.asarray(switches, np.float64)),
            table=ResponseTable(values.size, budget),
            outputs=values,
            epsilon_exact=budget,
            domain=None if domain is None else Domain.of(domain),
            prior=prior,
            loss=measure.name,
        )

    @classmethod
    def optimal(
        cls,
        prior: Prior,
        epsilon: Epsilon,
        loss: LossLike = "squared",
        *,
        domain: Domain | tuple[float, float] | None = None,
    ) -> RROnBins:
        """Find the bins of least expected loss under a prior, in O(k log k).

        Parameters
        ----------
        prior : Prior
            The distribution of the labels.
        epsilon : float, str, Decimal or Fraction
            The privacy budget of each label.
        loss : str, Loss or callable
            The loss to minimise.
        domain : Domain or (lower, upper), optional
            The public bounds of the labels.

        Returns
        -------
        RROnBins
        """
        budget = exact_epsilon(epsilon)
        bins = optimal_bins(prior, budget, loss)
        return cls(bins.outputs, budget, thresholds=bins.thresholds, loss=loss, domain=domain, prior=prior)
