"""The unbiased randomizer of least loss: what a model trained on it learns is the truth, at the price of variance."""

from __future__ import annotations

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.channels import Anchors, Channel, integer_channel, unbiased_channel, unbiased_channel_on_outputs
from labeldp.domain import Domain
from labeldp.errors import InvalidInput
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.mechanisms.catalogue import mechanism
from labeldp.mechanisms.cells import Cells
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.priors import Prior
from labeldp.sampling import ResponseTable, Table

MOST_EPSILON_DESIGNED = 14.0
"""Beyond this e^ε is too large for the solver's numbers; a channel designed for less is ε-DP all the same."""


@mechanism(
    "unbiased",
    title="unbiased",
    help="right on average for every label, at the least variance",
    make=lambda r: Unbiased.optimal(r.known_prior, r.epsilon, r.loss, domain=r.domain),
    needs_prior=True,
    for_training=True,
    colour="#1689d1",
    check=lambda r: _check_outputs(get_loss(r.loss)),
    rank=2,
)
class Unbiased(FiniteMechanism):
    """The unbiased mechanism of least loss: E[ŷ | y] = y for every label, made by `Unbiased.optimal`.

    Its outputs reach outside the range of the labels. They must, or the average could not reach the ends of the range.

    Privacy
    -------
    ε-DP for each label, by an integer table that is proven in rational arithmetic.

    Examples
    --------
    >>> from labeldp import Prior, Unbiased
    >>> mechanism = Unbiased.optimal(Prior([0, 10], [1, 1]), epsilon=1)
    >>> mechanism.outputs.round(2)
    array([-5.82, 15.82])
    """

    @classmethod
    def optimal(
        cls,
        prior: Prior,
        epsilon: Epsilon,
        loss: LossLike = "squared",
        *,
        domain: Domain | tuple[float, float] | None = None,
        anchors: int | None = None,
    ) -> Unbiased:
        """Design the unbiased mechanism of least expected loss under a prior.

        For squared loss the optimum is over all ε-DP mechanisms, by a cone program. Other losses are minimised over a
        grid of outputs, by a linear program.

        Parameters
        ----------
        prior : Prior
            The distribution of the labels. Unbiasedness and ε hold for all labels, whatever their mass.
        epsilon : float, str, Decimal or Fraction
            What each label costs.
        loss : str, Loss or callable
            What is minimised; it must be defined on all real outputs.
        domain : Domain or (lower, upper), optional
            Its cells are the labels; the values of the prior by default.
        anchors : int, optional
            Labels between two anchors are rounded at random to one of them, which keeps mean and ε and costs a little
            variance. The default keeps that cost at about 1 % or less.

        Returns
        -------
        Unbiased
            `|E[ŷ | y] − y|` is below 1e-9 of the range, in exact arithmetic.

        Raises
        ------
        InvalidInput
            If no outputs achieve that, or if the loss is not defined outside the range of the labels.
        """
        measure = get_loss(loss)
        _check_outputs(measure)
        budget = exact_epsilon(epsilon)
        cells = Cells.of(prior, domain)
        count = default_anchors(float(budget)) if anchors is None else anchors
        if measure.name != "squared" and anchors is None:
            count = min(count, 25)
        chosen = Anchors.choose(cells.labels, cells.masses, count)
        masses = chosen.masses(cells.masses)
        columns = _design(chosen.values, masses, min(float(budget), MOST_EPSILON_DESIGNED), measure)
        release = integer_channel(columns, budget, masses, chosen.values)
        table: Table = chosen.table(release.table)
        outputs = release.outputs
        if measure.name == "squared" and cells.labels.size > 1:
            # Where ε is large, keeping every label as it is beats rounding to anchors.
            plain = ResponseTable(cells.labels.size, budget)
            debiased = plain.debiased(cells.labels)
            if _second_moment(plain, debiased, cells.masses) < masses @ release.table.probabilities() @ outputs**2:
                table, outputs = plain, debiased
        return cls(
            encoder=cells.encoder,
            table=table,
            outputs=outputs,
            epsilon_exact=budget,
            domain=cells.domain,
            prior=prior,
            loss=measure.name,
        )


def default_anchors(epsilon: float) -> int:
    """33 anchors up to ε = 2, then 12 more for each unit of ε, at most 129: less noise hides less rounding."""
    return round(min(129.0, max(33.0, 33.0 + 12.0 * (epsilon - 2))))


def _design(values: Floats, masses: Floats, epsilon: float, loss: Loss) -> Channel:
    # A label without mass would let the solver push its noise to infinity.
    weights = np.maximum(masses, 1e-9)
    weights = weights / weights.sum()
    if values.size == 1 or loss.name == "squared":
        return unbiased_channel(values, weights, epsilon)
    span = values[-1] - values[0]
    reach = 2 * span / np.expm1(epsilon)
    inside = np.union1d(values, np.linspace(values[0], values[-1], 101))
    beyond = reach * (np.arange(1, 31) / 30) ** 1.5
    outputs = np.unique(np.r_[values[0] - beyond, inside, values[-1] + beyond])
    return unbiased_channel_on_outputs(values, weights, epsilon, loss, outputs)


def _second_moment(table: ResponseTable, outputs: Floats, masses: Floats) -> float:
    total = 2.0**64
    other = table.other / total
    return float((table.keep - table.other) / total * (masses @ outputs**2) + other * (outputs @ outputs))


def _check_outputs(loss: Loss) -> None:
    if np.isfinite(loss.valid_outputs.lower) or np.isfinite(loss.valid_outputs.upper):
        raise InvalidInput(
            f"an unbiased mechanism needs outputs outside the range of the labels, where {loss.name} loss is not "
            'defined. Design it for loss="squared".'
        )
