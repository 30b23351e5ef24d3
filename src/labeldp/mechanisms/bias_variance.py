"""Mechanisms designed for training: the unbiased one of least loss, and the trade-off between squared bias and variance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp.arrays import Floats, frozen
from labeldp.budget import Epsilon, exact_epsilon
from labeldp.design.anchors import Anchors, integer_channel
from labeldp.design.cone_program import Channel, bias_variance_channel, unbiased_channel, unbiased_channel_on_outputs
from labeldp.design.visibility import best_values, normal_chances, normal_quantiles, visible_bias_matrix
from labeldp.domain import Domain
from labeldp.errors import InvalidInput, described
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.label_cells import MOST_LABELS, Cells
from labeldp.mechanisms.randomized_response import RROnBins
from labeldp.mechanisms.registry import mechanism
from labeldp.priors import Prior
from labeldp.sampling import ResponseTable, Table

LARGEST_SCORE = 4.0
"""Scores are clipped here: labels rarer than one in 30,000 need not be distinguished."""
_LEAST_MASS = 1e-9

MOST_EPSILON_DESIGNED = 14.0
"""Beyond this e^ε is too large for the solver; a channel designed for a smaller ε is also ε-DP."""
CAPACITY = 30.0
"""Degrees of freedom of a model, for designs. Predictions have their own, finer curve (`labeldp.mechanisms.prediction`)."""
VISIBLE = 0.7
"""The share of the label's variance that features are assumed to explain, for designs."""


@dataclass(frozen=True, eq=False)
class NormalScores:
    """A standard normal variable Z with the same ranks as the label: each label is an interval of Z.

    A common label, such as zero among rare counts, is a wide interval. A single score for it would lose the spread of Z within
    the interval, so a label has two numbers: the mean of Z and the mean of Z² over its interval. Over all labels
    they average to 0 and 1.

    Attributes
    ----------
    labels : array of float64
        Labels in increasing order.
    borders : array of float64
        The value of Z between each label and the next, one fewer than labels.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms.bias_variance import NormalScores
    >>> scores = NormalScores.under(Prior([0, 10, 50], [1, 2, 1]))
    >>> (scores.scores.round(2) + 0.0).tolist(), scores.squares.round(2).tolist()
    ([-1.27, 0.0, 1.27], [1.86, 0.14, 1.86])
    >>> scores.labels_at([-9.0, 0.0, 9.0]).tolist()
    [0.0, 17.5, 50.0]
    """

    labels: Floats
    borders: Floats

    def __post_init__(self) -> None:
        # `at` searches among the labels. If these were out of order, the score of a record could depend on other records' labels.
        shapes = self.labels.shape == (self.borders.size + 1,) and self.borders.ndim == 1
        if not shapes or not all(
            np.isfinite(one).all() and (np.diff(one) >= 0).all() for one in (self.labels, self.borders)
        ):
            raise InvalidInput("normal scores need labels and borders that are finite and in increasing order")

    @classmethod
    def under(cls, prior: Prior) -> NormalScores:
        """Return the scores of a prior's labels."""
        return cls.of(prior.values, prior.masses)

    @classmethod
    def of(cls, labels: Floats, masses: Floats) -> NormalScores:
        """Return the scores of labels with these masses; labels without mass lie close together."""
        held = np.maximum(masses, _LEAST_MASS)
        below = np.cumsum(held)[:-1] / held.sum()
        return cls(frozen(labels), frozen(normal_quantiles(np.clip(below, _LEAST_MASS / 1e3, 1 - _LEAST_MASS / 1e3))))

    @property
    def scores(self) -> Floats:
        """E[Z | label] for each label."""
        density, chance = self._density_and_chance()
        mean = -np.diff(density) / chance
        ends = np.r_[-np.inf, self.borders, np.inf]
        return np.asarray(np.clip(np.clip(mean, ends[:-1], ends[1:]), -LARGEST_SCORE, LARGEST_SCORE))

    @property
    def squares(self) -> Floats:
        """E[Z² | label] for each label."""
        density, chance = self._density_and_chance()
        mean = 1 - np.diff(np.r_[0.0, self.borders, 0.0] * density) / chance
        return np.asarray(np.clip(mean, np.square(self.scores), LARGEST_SCORE**2))

    @property
    def mean(self) -> float:
        """The mean label."""
        return float(np.diff(np.r_[0.0, normal_chances(self.borders), 1.0]) @ self.labels)

    def _density_and_chance(self) -> tuple[Floats, Floats]:
        """Return the normal density at the ends of each label's interval, and the probability of the interval."""
        density = np.exp(-(self.borders**2) / 2) / math.sqrt(2 * math.pi)
        chance = np.diff(np.r_[0.0, normal_chances(self.borders), 1.0])
        return np.r_[0.0, density, 0.0], np.maximum(chance, 1e-15)

    def at(self, labels: Floats) -> Floats:
        """Return the score of any labels, linear between those that this has."""
        return np.asarray(np.interp(labels, self.labels, self.scores))

    def labels_at(self, scores: Floats) -> Floats:
        """Return the labels at given values of Z.

        A label in the middle is spread evenly to half the distance to its neighbours. The first and the last label are not:
        they are usually bounds, where many labels are equal.
        """
        if self.labels.size == 1:
            return np.full(np.shape(scores), self.labels[0])
        middles = (self.labels[:-1] + self.labels[1:]) / 2
        ends = self.borders[[0, -1]]
        scores = np.asarray(scores, np.float64)
        inside = np.interp(normal_chances(scores), normal_chances(self.borders), middles)
        inside = np.where(scores > ends[1], self.labels[-1], inside)
        return np.asarray(np.where(scores <= ends[0], self.labels[0], inside))


def design_scale(loss: Loss, labels: Floats, masses: Floats) -> Floats:
    """Return the labels on the scale that `auto` uses for a loss, strictly increasing."""
    stretched = loss.stretched(labels, float(masses @ labels / masses.sum()))
    if stretched is labels:
        return labels
    if stretched is None:
        stretched = NormalScores.of(labels, masses).scores
    rising = np.maximum.accumulate(stretched)
    return np.asarray(rising + 1e-9 * max(float(np.ptp(rising)), 1e-9) * np.arange(labels.size))


@mechanism(
    "unbiased",
    title="unbiased",
    help="right on average for every label, at the least variance",
    make=lambda r: Unbiased.optimal(r.known_prior, r.epsilon, r.loss, domain=r.domain),
    check=lambda r: _check_outputs(get_loss(r.loss)),
    needs_prior=True,
    for_training=True,
    colour="#1689d1",
    rank=2,
)
class Unbiased(FiniteMechanism):
    """The unbiased mechanism of least loss: E[ŷ | y] = y for every label, made by `Unbiased.optimal`.

    Its outputs reach outside the range of the labels. Otherwise the average could not reach the ends of the range.

    Privacy
    -------
    ε-DP for each label, by an integer table that is proven in rational arithmetic.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import Unbiased
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
            The distribution of the labels. Unbiasedness and ε hold for all labels, including labels without mass.
        epsilon : float, str, Decimal or Fraction
            The privacy budget of each label.
        loss : str, Loss or callable
            The loss to minimise. It must be defined on all real outputs.
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
        inner, outputs = integer_channel(columns, budget, masses, chosen.values)
        table: Table = chosen.table(inner)
        if measure.name == "squared" and cells.labels.size > 1:
            # Where ε is large, randomized response on all labels beats rounding to anchors.
            plain = ResponseTable(cells.labels.size, budget)
            debiased = plain.debiased(cells.labels)
            if _second_moment(plain, debiased, cells.masses) < masses @ inner.probabilities() @ outputs**2:
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
    """Return 33 anchors up to ε = 2, then 12 more for each unit of ε, at most 129: less noise hides less rounding."""
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

    A model trained on n private labels averages the variance over its records but keeps the bias, so τ represents the
    model's degrees of freedom over n. At τ = 1 the criterion is the mean squared error of the labels, and RR-on-Bins is
    optimal and returned. As τ → 0 the mechanism approaches `Unbiased`. Above 1 the criterion is not convex.

    With `visible` < 1, bias and variance are conditional on the features, as for a model. For features x that explain
    the share `visible` of the label, the criterion is E[(E[bias | x])²] + τ·E[Var(ŷ | x)]. Bias that averages out among
    labels that features cannot distinguish is then free, which saves much variance. `visible` = 1 means the bias and
    variance at each label.

    Privacy
    -------
    ε-DP for each label, by an integer table that is proven in rational arithmetic.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms import BiasVariance
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
            The privacy budget of each label.
        tau : float
            The weight of variance against squared bias, above 0 and at most 1.
        visible : float
            The share of the label's variance that features are assumed to explain, above 0 and at most 1.
        loss : str, Loss or callable
            The loss of the model. The criterion is measured on the scale `Loss.stretched`, where equal errors have
            equal loss; for squared loss that is the labels themselves.
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
        # The result does not depend on the zero point. Measuring from the first label avoids cancellation of large numbers.
        zero = scale[0]
        # With label means y + b: b'Jb + τ·(E[ŷ²] − (y + b)'J(y + b)), without the terms that do not depend on b.
        columns = bias_variance_channel(
            chosen.values - zero,
            masses,
            min(float(budget), MOST_EPSILON_DESIGNED),
            weight=1.0,
            curvature=2 * (1 / tau - 1) * mixing.T @ joint @ mixing,
            slope=-2 * mixing.T @ (joint @ (scale - zero)),
        )
        inner, outputs = integer_channel(columns, budget, masses)
        outputs = outputs + zero
        if scale is not cells.labels:  # convert from the scale of the design to labels
            matrix = mixing @ inner.probabilities()
            outputs = best_values(matrix, joint, weights, tau, cells.labels)
        return cls(encoder=cells.encoder, table=chosen.table(inner), outputs=outputs, **facts)

    @property
    def tau(self) -> float:
        """The weight of variance against squared bias."""
        return self.parameter("tau")

    @property
    def visible(self) -> float:
        """The share of the label's variance that features are assumed to explain; 1 for pointwise bias."""
        return self.parameter("visible")


def weight_of_variance(records: int) -> float:
    """Return τ = CAPACITY / n, at most 1: the share of the values' variance in the error of a model trained on n of them."""
    if records < 1:
        raise InvalidInput(f"the number of records must be at least 1, got {records}")
    return min(1.0, CAPACITY / records)


def _check_count(labels: int) -> None:
    if labels > MOST_LABELS:
        raise InvalidInput(
            f"a bias-variance design distinguishes at most {MOST_LABELS:,} labels, this one has {labels:,}: use a domain with fewer cells"
        )


def _check_outputs(loss: Loss) -> None:
    if np.isfinite(loss.valid_outputs.lower) or np.isfinite(loss.valid_outputs.upper):
        raise InvalidInput(
            f"an unbiased mechanism needs outputs outside the range of the labels, where {loss.name} loss is not "
            'defined. Design it for loss="squared".'
        )
