"""Best answers for any loss, from the distribution of a label's normal score; and a model of scores from noisy sums.

Sums of labels give a mean. Sums of their normal scores z give the mean of z, and what it leaves of their variance of 1 is the spread around it.
Both together give each record a normal distribution of z, and hence a distribution of the label, whose best answer is predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from labeldp.arrays import Floats
from labeldp.learn.sums.sums_model import SumsModel
from labeldp.losses import Loss, LossLike, get_loss
from labeldp.mechanisms.bias_variance import NormalScores
from labeldp.mechanisms.decoding import FLOOR_SHARE

LEAST_SPREAD = 0.02
"""Of the squared score: the label is never taken to be known exactly."""
OUTCOMES = 101
"""The number of equally likely labels that represent a record's distribution."""
CHUNK = 1 << 14
"""Rows that are answered at a time."""


def best_answers(loss: LossLike, scores: NormalScores, location: Floats, spread: Floats) -> Floats:
    """Return the answer of least expected loss for labels whose scores are normal with these means and standard deviations."""
    measure, answers = get_loss(loss), np.empty(location.size)
    nodes = ndtri((np.arange(OUTCOMES) + 0.5) / OUTCOMES)
    for start in range(0, location.size, CHUNK):
        rows = slice(start, start + CHUNK)
        answers[rows] = measure.best_answers(scores.labels_at(location[rows, None] + spread[rows, None] * nodes))
    return answers


def least_answer(loss: LossLike, scores: NormalScores) -> float:
    """Return the least answer for a loss whose answers must be positive: a small share of the mean label. Else minus infinity."""
    return FLOOR_SHARE * scores.mean if get_loss(loss).valid_outputs.lower == 0 else -np.inf


@dataclass(frozen=True, eq=False)
class ScoreModel:
    """A model of labels' normal scores from noisy sums, which predicts the best answer for any loss. All of it is public.

    Attributes
    ----------
    first : SumsModel
        The model of each record's mean score.
    scores : NormalScores
        The scores of the labels, from a noisy histogram.
    loss : Loss
        The loss that predictions should keep small.
    spread : float
        The standard deviation of a score around its mean, the same for all records.
    """

    first: SumsModel
    scores: NormalScores
    loss: Loss
    spread: float

    @classmethod
    def of(cls, first: SumsModel, scores: NormalScores, loss: LossLike, features: Any) -> Self:
        """Return the model with the spread that is left of a variance of 1, given the features of the training records."""
        left = float(np.clip(1 - first.predict(features).var(), LEAST_SPREAD, 1))
        return cls(first, scores, get_loss(loss), left**0.5)

    def predict(self, X: Any) -> Floats:
        """Return the best answer for each row.

        Parameters
        ----------
        X : table or array
            Features with the columns that the model was made with.

        Returns
        -------
        array of float
        """
        location = self.first.predict(X)
        answers = best_answers(self.loss, self.scores, location, np.full(location.size, self.spread))
        return np.maximum(answers, least_answer(self.loss, self.scores))

    def plot_effects(self, **options: Any) -> Any:
        """Draw what each column does to the label's normal score, see `SumsModel.plot_effects`."""
        return self.first.plot_effects(**options)
