"""Scales of the labels: normal scores under a prior, and the scale on which `auto` designs for a loss."""

from __future__ import annotations

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
    """Labels as normal scores: the numbers with the same ranks that a standard normal distribution would have.

    Attributes
    ----------
    labels : array of float64
        Labels in increasing order.
    scores : array of float64
        The score of the middle of each label's mass.

    Examples
    --------
    >>> from labeldp import Prior
    >>> from labeldp.mechanisms.label_scale import NormalScores
    >>> scores = NormalScores.under(Prior([0, 10, 50], [1, 2, 1]))
    >>> scores.scores.round(2).tolist(), scores.labels_at([-9.0, 0.0, 9.0]).tolist()
    ([-1.15, 0.0, 1.15], [0.0, 10.0, 50.0])
    """

    labels: Floats
    scores: Floats

    @classmethod
    def under(cls, prior: Prior) -> NormalScores:
        """The scores of a prior's labels."""
        return cls.of(prior.values, prior.masses)

    @classmethod
    def of(cls, labels: Floats, masses: Floats) -> NormalScores:
        """The scores of labels with these masses; labels without mass lie close together."""
        from scipy.special import ndtri  # takes long to import, and many mechanisms need none of it

        held = np.maximum(masses, _LEAST_MASS)
        held = held / held.sum()
        middle = np.clip(np.cumsum(held) - held / 2, 1e-12, 1 - 1e-12)
        return cls(frozen(labels), frozen(np.clip(ndtri(middle), -LARGEST_SCORE, LARGEST_SCORE)))

    def labels_at(self, scores: Floats) -> Floats:
        """The labels at given scores, linear in between and constant beyond the ends."""
        return np.asarray(np.interp(scores, self.scores, self.labels))


def design_scale(loss: Loss, labels: Floats, masses: Floats) -> Floats:
    """Labels on the scale that `auto` designs on for a loss, strictly increasing."""
    stretched = loss.stretched(labels, float(masses @ labels / masses.sum()))
    if stretched is labels:
        return labels
    if stretched is None:
        stretched = NormalScores.of(labels, masses).scores
    rising = np.maximum.accumulate(stretched)
    return np.asarray(rising + 1e-9 * max(float(np.ptp(rising)), 1e-9) * np.arange(labels.size))
