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
from labeldp.mechanisms.catalogue import mechanism
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
    colour="#c8553d",
    rank=1,
)
class RROnBins(FiniteMechanism):
    """Maps a label to its bin's output, keeps that with weight e^ε and takes any other with weight 1.

    Privacy: ε-DP for each label. The integer table keeps with `a` and changes with `b` of 2^64 chances, and
    `a ≤ e^ε·b` holds exactly.

    `RROnBins(outputs, epsilon)` uses the bins given: `thresholds` between them, or where `loss` switches from one
    output to the next. `RROnBins.optimal(prior, epsilon, loss)` finds the bins of least expected loss, which by the
    paper's theorem no ε-DP mechanism beats.

    >>> RROnBins([10, 100], epsilon=1)
    RROnBins(epsilon=1, outputs=[10, 100], loss=squared)
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
        """The bins of least expected loss under `prior`, in O(k log k)."""
        budget = exact_epsilon(epsilon)
        bins = optimal_bins(prior, budget, loss)
        return cls(bins.outputs, budget, thresholds=bins.thresholds, loss=loss, domain=domain, prior=prior)
