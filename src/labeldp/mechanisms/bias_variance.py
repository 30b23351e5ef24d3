"""The dial between RR-on-Bins and the unbiased mechanism: squared bias plus τ times variance, as small as ε allows."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.mechanisms.cells import Cells
from labeldp.mechanisms.encoders import Encoder
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.rr_on_bins import RROnBins
from labeldp.mechanisms.unbiased import MOST_EPSILON_DESIGNED, default_anchors
from labeldp.sampling import Table
from labeldp.tradeoff import Anchors, least_penalty, release_exactly, visible_part
from labeldp.tradeoff.excess import expected_excess

if TYPE_CHECKING:
    from labeldp.prior import Prior


MOST_LABELS = 2_001
"""The criterion is a matrix over all pairs of labels: beyond this it takes minutes and gigabytes, and gains nothing."""


class BiasVariance(FiniteMechanism):
    """Minimises E[bias²] + τ·E[variance] over all ε-DP mechanisms, 0 < τ ≤ 1.

    A model trained on n private labels averages the variance over its records but keeps the bias, so τ plays the part
    of the model's degrees of freedom over n. τ = 1 is the mean squared error of the labels, where RR-on-Bins is
    optimal and returned; τ → 0 approaches `Unbiased`. Above 1 the criterion is not convex.

    With `visible` < 1, bias and variance are those that a model meets: given features x that explain the share
    `visible` of the label, E[(E[bias | x])²] + τ·E[Var(ŷ | x)] (see `labeldp.tradeoff.visible_part`). Bias that averages
    out among labels that features cannot tell apart is then free, which saves much variance. `visible` = 1 is the
    bias and the variance at each label.

    Privacy: ε-DP for each label, by an integer table that is proven in rational arithmetic.

    Made by `BiasVariance.optimal`.
    """

    kind: ClassVar[str] = "bias-variance"

    @classmethod
    def optimal(
        cls,
        prior: Prior,
        epsilon: Epsilon,
        tau: float,
        *,
        visible: float = 1.0,
        domain: Domain | tuple[float, float] | None = None,
        anchors: int | None = None,
    ) -> BiasVariance:
        """The mechanism of least E[bias²] + τ·E[variance] under `prior`, a convex program.

        Labels, `domain` and `anchors` mean what they mean for `Unbiased.optimal`.
        """
        if not (isinstance(tau, (int, float)) and 0 < tau <= 1):
            raise InvalidInput(f"tau must be greater than 0 and at most 1, got {tau!r}")
        if not (isinstance(visible, (int, float)) and 0 < visible <= 1):
            raise InvalidInput(f"visible must be greater than 0 and at most 1, got {visible!r}")
        budget = exact(epsilon)
        cells = Cells.of(prior, domain)
        if cells.labels.size > MOST_LABELS:
            raise InvalidInput(
                f"a bias-variance design tells at most {MOST_LABELS:,} labels apart, this one has {cells.labels.size:,}: "
                "use a domain with fewer cells"
            )
        details = {"tau": float(tau), "visible": float(visible)}
        if tau == visible == 1 or cells.labels.size == 1:
            bins = RROnBins.optimal(prior, budget, domain=cells.domain)
            return cls._of(bins.encoder, bins.table, bins.outputs, budget, cells.domain, prior, details)
        count = min(57, default_anchors(float(budget))) if anchors is None else anchors
        chosen = Anchors.choose(cells.labels, cells.masses, count)
        weights = np.maximum(cells.masses, 1e-9)
        weights = weights / weights.sum()
        mixing = chosen.mixing
        masses = chosen.masses(weights)
        joint = visible_part(weights, float(visible))
        # Nothing depends on where zero is; from the first label on, large numbers do not cancel.
        zero = cells.labels[0]
        # With label means y + b: b'Jb + τ·(E[ŷ²] − (y + b)'J(y + b)); what does not depend on b is left out.
        columns = least_penalty(
            chosen.values - zero,
            masses,
            min(float(budget), MOST_EPSILON_DESIGNED),
            weight=1.0,
            curvature=2 * (1 / tau - 1) * mixing.T @ joint @ mixing,
            slope=-2 * mixing.T @ (joint @ (cells.labels - zero)),
        )
        release = release_exactly(columns, budget, masses)
        return cls._of(
            cells.encoder, chosen.table(release.table), release.outputs + zero, budget, cells.domain, prior, details
        )

    @property
    def tau(self) -> float:
        """The weight of variance against squared bias."""
        return float(self.details["tau"])

    @property
    def visible(self) -> float:
        """The share of the label that features are taken to explain; 1 for pointwise bias."""
        return float(self.details["visible"])

    def objective(self, prior: Prior) -> float:
        """E[bias²] + τ·E[variance] under `prior`, as seen by features that explain the share `visible`."""
        expected = expected_excess(self, self.outputs, prior, visible=self.visible)
        return expected.squared_bias + self.tau * expected.variance

    @classmethod
    def _of(
        cls,
        encoder: Encoder,
        table: Table,
        outputs: Floats,
        epsilon: Fraction,
        domain: Domain | None,
        prior: Prior,
        details: dict[str, float],
    ) -> BiasVariance:
        return cls(
            encoder=encoder,
            table=table,
            outputs=outputs,
            epsilon=epsilon,
            domain=domain,
            prior=prior,
            loss="squared",
            details=details,
        )
