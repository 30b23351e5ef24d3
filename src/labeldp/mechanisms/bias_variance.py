"""The dial between RR-on-Bins and the unbiased mechanism: squared bias plus τ times variance, as small as ε allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from labeldp.budget import Epsilon, exact_epsilon
from labeldp.channels import Anchors, best_values, bias_variance_channel, integer_channel, visible_bias_matrix
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.losses import LossLike, get_loss
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.cells import MOST_LABELS, Cells
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_scale import design_scale
from labeldp.mechanisms.rr_on_bins import RROnBins
from labeldp.mechanisms.unbiased import MOST_EPSILON_DESIGNED, default_anchors
from labeldp.priors import Prior

CAPACITY = 30.0
"""Degrees of freedom that a model spends."""
VISIBLE = 0.7
"""The share of the label that features are taken to explain."""


@mechanism(
    "bias-variance",
    title="bias-variance",
    help="squared bias against variance, weighed for training on the records",
    make=lambda r: BiasVariance.optimal(r.known_prior, r.epsilon, weight_of_variance(r.known_records), domain=r.domain),
    needs_prior=True,
    needs_records=True,
    for_training=True,
    colour="#b17dfc",
    check=lambda r: _check_count(r.domain.count),
    rank=3,
)
class BiasVariance(FiniteMechanism):
    """The mechanism of least E[bias²] + τ·E[variance] over all ε-DP mechanisms, made by `BiasVariance.optimal`.

    A model trained on n private labels averages the variance over its records but keeps the bias, so τ stands for the
    model's degrees of freedom over n. At τ = 1 the criterion is the mean squared error of the labels, and RR-on-Bins is
    optimal and returned. As τ → 0 the mechanism approaches `Unbiased`. Above 1 the criterion is not convex.

    With `visible` < 1, bias and variance are those that a model meets. For features x that explain the share `visible`
    of the label, the criterion is E[(E[bias | x])²] + τ·E[Var(ŷ | x)]. Bias that averages out among labels that features
    cannot tell apart is then free, which saves much variance. `visible` = 1 is the bias and variance at each label.

    Privacy
    -------
    ε-DP for each label, by an integer table that is proven in rational arithmetic.

    Examples
    --------
    >>> from labeldp import BiasVariance, Prior
    >>> mechanism = BiasVariance.optimal(Prior([0, 10], [1, 1]), epsilon=1, tau=0.01)
    >>> mechanism.outputs.round(1)
    array([-5.4, 15.4])
    """

    @classmethod
    def optimal(
        cls,
        prior: Prior,
        epsilon: Epsilon,
        tau: float,
        *,
        visible: float = 1.0,
        loss: LossLike = "squared",
        domain: Domain | tuple[float, float] | None = None,
        anchors: int | None = None,
    ) -> BiasVariance:
        """Design the mechanism of least E[bias²] + τ·E[variance] under a prior, by a convex program.

        Parameters
        ----------
        prior : Prior
            The distribution of the labels.
        epsilon : float, str, Decimal or Fraction
            What each label costs.
        tau : float
            The weight of variance against squared bias, above 0 and at most 1.
        visible : float
            The share of the label that features are taken to explain, above 0 and at most 1.
        loss : str, Loss or callable
            The loss of the model. The criterion is taken on the scale of the labels on which errors matter alike to it,
            `Loss.stretched`; for squared loss that is the labels themselves.
        domain : Domain or (lower, upper), optional
            Its cells are the labels, at most 2,001; the values of the prior by default.
        anchors : int, optional
            Labels between two anchors are rounded at random to one of them, which keeps mean and ε and costs a little
            variance. The default keeps that cost at about 1 % or less.

        Returns
        -------
        BiasVariance
        """
        if not (isinstance(tau, (int, float)) and 0 < tau <= 1):
            raise InvalidInput(f"tau must be greater than 0 and at most 1, got {described(tau)}")
        if not (isinstance(visible, (int, float)) and 0 < visible <= 1):
            raise InvalidInput(f"visible must be greater than 0 and at most 1, got {described(visible)}")
        budget, measure = exact_epsilon(epsilon), get_loss(loss)
        cells = Cells.of(prior, domain)
        measure.valid_labels.check(cells.labels, f"labels of the {measure.name} loss")
        measure.check_assumption(cells.labels)
        _check_count(cells.labels.size)
        facts: dict[str, Any] = {
            "epsilon_exact": budget,
            "domain": cells.domain,
            "prior": prior,
            "loss": measure.name,
            "parameters": (("tau", float(tau)), ("visible", float(visible))),
        }
        if tau == visible == 1 or cells.labels.size == 1:
            bins = RROnBins.optimal(prior, budget, measure, domain=cells.domain)
            return cls(encoder=bins.encoder, table=bins.table, outputs=bins.outputs, **facts)
        count = min(57, default_anchors(float(budget))) if anchors is None else anchors
        weights = np.maximum(cells.masses, 1e-9)
        weights = weights / weights.sum()
        scale = design_scale(measure, cells.labels, weights)
        chosen = Anchors.choose(scale, cells.masses, count)
        mixing = chosen.mixing
        masses = chosen.masses(weights)
        joint = visible_bias_matrix(weights, float(visible))
        # Nothing depends on where zero is; from the first label on, large numbers do not cancel.
        zero = scale[0]
        # With label means y + b: b'Jb + τ·(E[ŷ²] − (y + b)'J(y + b)); what does not depend on b is left out.
        columns = bias_variance_channel(
            chosen.values - zero,
            masses,
            min(float(budget), MOST_EPSILON_DESIGNED),
            weight=1.0,
            curvature=2 * (1 / tau - 1) * mixing.T @ joint @ mixing,
            slope=-2 * mixing.T @ (joint @ (scale - zero)),
        )
        release = integer_channel(columns, budget, masses)
        outputs = release.outputs + zero
        if scale is not cells.labels:  # from the scale of the design back to labels
            matrix = mixing @ release.table.probabilities(np.arange(masses.size, dtype=np.uint32))
            outputs = best_values(matrix, joint, weights, tau, cells.labels)
        return cls(encoder=cells.encoder, table=chosen.table(release.table), outputs=outputs, **facts)

    @property
    def tau(self) -> float:
        """The weight of variance against squared bias."""
        return self.parameter("tau")

    @property
    def visible(self) -> float:
        """The share of the label that features are taken to explain; 1 for pointwise bias."""
        return self.parameter("visible")


def weight_of_variance(records: int) -> float:
    """τ = CAPACITY / n, at most 1: the share of the values' variance in the error of a model trained on n of them."""
    if records < 1:
        raise InvalidInput(f"the number of records must be at least 1, got {records}")
    return min(1.0, CAPACITY / records)


def _check_count(labels: int) -> None:
    if labels > MOST_LABELS:
        raise InvalidInput(
            f"a bias-variance design distinguishes at most {MOST_LABELS:,} labels, this one has {labels:,}: use a domain with fewer cells"
        )
