"""Noisy sums first, then noisy labels: a label minus what sums predict lies in a narrower range, and needs less noise.

1. A part of ε goes to noisy sums, and a model of them predicts each label (`labeldp.learn.sums`).
2. If they explain much, a private histogram shows the range of the residuals, labels minus predictions. Otherwise labels are used.
3. The rest of ε randomizes each residual or label. A stack learns these from the features and the predictions.

Sums find broad effects even at a small ε. Randomized labels then show what effects of columns and of pairs cannot express.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from labeldp.arrays import Floats
from labeldp.domain import Domain
from labeldp.learn.estimator_checks import QuietScore, without_values
from labeldp.learn.learners import StackedRegressor
from labeldp.learn.method import labels_worth
from labeldp.learn.stack import Member
from labeldp.learn.sums.sums_model import SumsModel
from labeldp.mechanisms import FiniteMechanism
from labeldp.priors import Prior, histogram
from labeldp.release.randomizer import LabelRandomizer, Plan

SUMS_SHARE = Fraction(1, 5)
"""The largest share of ε for the sums."""
SUMS_ENOUGH = 10_000
"""The largest cost of the sums, times the number of records."""
MUCH = 0.5
"""Residuals are randomized in place of labels if sums explain this share of the labels' variance."""
CELLS = 129
"""The least number of cells of the histogram of residuals."""
TAIL, BEYOND = 0.05, 0.4
"""Residuals are clipped at 0.4 of the distance between these quantiles beyond them, about three standard deviations if they are normal."""
LITTLE_NOISE = 1e6
"""Where labels are worth more than this (`labels_worth`), residuals are clipped farther out in proportion: noise costs little there."""


def epsilon_for_sums(epsilon: Fraction, size: int) -> Fraction:
    """Return the part of ε that is spent on sums, for this number of records or persons."""
    return min(epsilon * SUMS_SHARE, Fraction(SUMS_ENOUGH, size))


def explained_by(model: SumsModel, predictions: Floats) -> float:
    """Return the share of the labels' variance that a model from sums expects to explain: its predictions are posterior means."""
    return min(1.0, float(predictions.var()) / (model.range.variance * model.range.factor**2))


def plan_for_residuals(width: float, epsilon: Fraction, size: int) -> Plan:
    """Plan a release of the residuals of labels whose bounds are `width` apart."""
    randomizer = LabelRandomizer(epsilon, Domain(-width, width))
    plan = randomizer.plan(size)
    if plan.grid.count < CELLS:
        plan = replace(randomizer, domain=Domain(-width, width, CELLS)).plan(size)
    return plan


def design_for_residuals(residuals: Floats, plan: Plan) -> tuple[Domain, FiniteMechanism]:
    """Draw a private histogram of residuals. Return the range that it shows and a mechanism for it.

    Privacy: the histogram and the mechanism together cost the plan's ε for each residual: the histogram now, the mechanism when it
    randomizes. Given public predictions, a residual depends on one label only.
    """
    assert plan.split is not None, "auto draws a prior"
    prior = plan.draw_prior(histogram(residuals, plan.grid), plan.split)
    worth = labels_worth(residuals.size, float(plan.epsilon_labels))
    first, last = clipped_cells(prior, BEYOND * max(1.0, worth / LITTLE_NOISE))
    within = np.clip(np.arange(len(prior)), first, last) - first
    narrowed = Prior(prior.values[first : last + 1], np.bincount(within, prior.masses), prior.epsilon_exact)
    grid = Domain(float(prior.values[first]), float(prior.values[last]), len(narrowed))
    return grid, replace(plan, request=replace(plan.request, domain=grid)).design_for(narrowed)


def clipped_cells(prior: Prior, beyond: float) -> tuple[int, int]:
    """Return the first and the last cell of a clip that ends beyond two quantiles: a noisy histogram says little about tails."""
    low, high = np.interp([TAIL, 1 - TAIL], np.cumsum(prior.masses), prior.values)
    first, last = np.searchsorted(prior.values, [low - beyond * (high - low), high + beyond * (high - low)])
    first = min(max(int(first) - 1, 0), len(prior) - 2)
    return first, max(first + 1, min(int(last), len(prior) - 1))


class SumsThenLabels(QuietScore, BaseEstimator):  # type: ignore[misc]
    """A model from noisy sums, and a stack of models that has its predictions as one more column.

    Parameters
    ----------
    first : SumsModel
        The model from noisy sums.
    residuals : bool
        Whether the stack learns labels minus the predictions of `first`, or labels.
    share : float
        The share of a true label, or residual, that a private one is worth, see `label_share`.
    random_state : int, RandomState or None
        The seed of the stack.

    Attributes
    ----------
    encoder_ : ColumnEncoder
        How columns become numbers and codes for the stack.
    model_ : Stack
        The fitted stack.
    n_features_in_ : int
        The number of columns of the features.
    """

    def __init__(self, first: SumsModel, *, residuals: bool, share: float = 1.0, random_state: Any = None) -> None:
        self.first = first
        self.residuals = residuals
        self.share = share
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the stack.

        Parameters
        ----------
        X : table or array
            The features.
        y : array of float
            Private values of the labels or residuals.

        Returns
        -------
        SumsThenLabels
            The fitted regressor itself.
        """
        stacked = StackedRegressor(share=self.share, random_state=self.random_state)
        encoded = stacked.encode(X)
        self.encoder_, (rows, self.n_features_in_) = encoded.encoder, encoded.matrix.shape
        matrix = np.column_stack([self.first.predict(X), encoded.matrix])
        with without_values():
            self.model_ = stacked.model(rows, 1 + len(self.encoder_.numeric)).fit(matrix, y)
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the label of each record.

        Parameters
        ----------
        X : table or array
            The features.

        Returns
        -------
        array of float
        """
        check_is_fitted(self)
        first = self.first.predict(X)
        found = np.asarray(self.model_.predict(np.column_stack([first, self.encoder_.ordinal(X)])))
        return first + found if self.residuals else found

    @property
    def members(self) -> tuple[Member, ...]:
        """What the stack chose, and why: the largest weight first."""
        check_is_fitted(self)
        return self.model_.members
