"""Randomized response on bins: the paper's mechanism, optimal for the error of the labels."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from labeldp.arrays import label_array
from labeldp.binning import optimal_bins
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import LossLike, get_loss
from labeldp.mechanisms.catalogue import check_loss, mechanism
from labeldp.mechanisms.encoders import Thresholds
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior
from labeldp.sampling import ResponseTable


@mechanism(
    "rr-on-bins",
    title="RR-on-Bins",
    help="the paper's: randomized response on bins, the least error of the labels",
    make=lambda r: RROnBins.optimal(r.known_prior, r.epsilon, r.loss, domain=r.domain),
    needs_prior=True,
    training_values="debiased",
    colour="#ce4a13",
    check=check_loss,
    rank=1,
)
class RROnBins(FiniteMechanism):
    """Randomized response on bins: keeps the output of the label's bin with weight e^ε, takes any other with weight 1.

    `RROnBins.optimal` finds the bins of least expected loss. By the paper's theorem no ε-DP mechanism does better.

    Parameters
    ----------
    outputs : array-like
        What each bin is answered with, strictly increasing.
    epsilon : float, str, Decimal or Fraction
        What each label costs.
    thresholds : array-like, optional
        The borders between bins. By default a label goes to the output where it loses least.
    loss : str, Loss or callable
        The loss that decides the default borders.
    domain : Domain or (lower, upper), optional
        The public bounds of the labels.
    prior : Prior, optional
        The distribution that the bins were made for.

    Privacy
    -------
    ε-DP for each label. The integer table keeps with `a` and changes to another output with `b` of 2^64 chances, and
    `a ≤ e^ε·b` holds exactly.

    Examples
    --------
    >>> from labeldp import Prior, RROnBins
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
            What each label costs.
        loss : str, Loss or callable
            What is minimised.
        domain : Domain or (lower, upper), optional
            The public bounds of the labels.

        Returns
        -------
        RROnBins
        """
        budget = exact_epsilon(epsilon)
        bins = optimal_bins(prior, budget, loss)
        return cls(bins.outputs, budget, thresholds=bins.thresholds, loss=loss, domain=domain, prior=prior)
