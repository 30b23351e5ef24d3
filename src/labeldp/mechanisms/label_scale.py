"""Scales of the labels: normal scores under a prior, and the scale on which `auto` designs for a loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats, frozen
from labeldp.losses import Loss
from labeldp.priors import Prior

LARGEST_SCORE = 4.0
"""Scores are clipped here: rarer labels than one in 30,000 are not worth telling apart."""
_LEAST_MASS = 1e-9


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
    >>> from labeldp.mechanisms.label_scale import NormalScores
    >>> scores = NormalScores.under(Prior([0, 10, 50], [1, 2, 1]))
    >>> (scores.scores.round(2) + 0.0).tolist(), scores.squares.round(2).tolist()
    ([-1.27, 0.0, 1.27], [1.86, 0.14, 1.86])
    >>> scores.labels_at([-9.0, 0.0, 9.0]).tolist()
    [0.0, 17.5, 50.0]
    """

    labels: Floats
    borders: Floats

    @classmethod
    def under(cls, prior: Prior) -> NormalScores:
        """The scores of a prior's labels."""
        return cls.of(prior.values, prior.masses)

    @classmethod
    def of(cls, labels: Floats, masses: Floats) -> NormalScores:
        """The scores of labels with these masses; labels without mass lie close together."""
        from scipy.special import ndtri  # takes long to import, and many mechanisms need none of it

        held = np.maximum(masses, _LEAST_MASS)
        below = np.cumsum(held)[:-1] / held.sum()
        return cls(frozen(labels), frozen(ndtri(np.clip(below, _LEAST_MASS / 1e3, 1 - _LEAST_MASS / 1e3))))

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

    def _density_and_chance(self) -> tuple[Floats, Floats]:
        """The normal density at the ends of each label's interval, and the probability of the interval."""
        from scipy.special import ndtr

        density = np.exp(-(self.borders**2) / 2) / math.sqrt(2 * math.pi)
        chance = np.diff(np.r_[0.0, ndtr(self.borders), 1.0])
        return np.r_[0.0, density, 0.0], np.maximum(chance, 1e-15)

    def labels_at(self, scores: Floats) -> Floats:
        """The labels at given values of Z.

        A label in the middle is spread evenly to half the distance to its neighbours. The first and the last label are not:
        they are usually bounds, where many labels are equal.
        """
        from scipy.special import ndtr

        if self.labels.size == 1:
            return np.full(np.shape(scores), self.labels[0])
        middles = (self.labels[:-1] + self.labels[1:]) / 2
        ends = self.borders[[0, -1]]
        inside = np.interp(ndtr(scores), ndtr(self.borders), middles)
        inside = np.where(scores > ends[1], self.labels[-1], inside)
        return np.asarray(np.where(scores <= ends[0], self.labels[0], inside))


def design_scale(loss: Loss, labels: Floats, masses: Floats) -> Floats:
    """Labels on the scale that `auto` designs on for a loss, strictly increasing."""
    stretched = loss.stretched(labels, float(masses @ labels / masses.sum()))
    if stretched is labels:
        return labels
    if stretched is None:
        stretched = NormalScores.of(labels, masses).scores
    rising = np.maximum.accumulate(stretched)
    return np.asarray(rising + 1e-9 * max(float(np.ptp(rising)), 1e-9) * np.arange(labels.size))
