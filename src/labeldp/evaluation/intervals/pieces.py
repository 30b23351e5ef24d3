"""Which labels look alike: the pieces of the label range on which the output probabilities are the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.evaluation.intervals.target import label_bounds
from labeldp.evaluation.moments import known_prior, told_apart
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.base import Grid

MOST_PIECES = 500


@dataclass(frozen=True, eq=False)
class LabelPieces:
    """Labels from `low` to `high` all have the same output probabilities. Together the pieces cover the label bounds.

    Where there are too many pieces, some are left out: their labels count as mixtures of the two kept pieces beside
    them, with the mean unchanged. `widest_gap` is the largest distance between two such neighbours, 0 if all are kept.

    Attributes
    ----------
    low, high : array
        The ends of each piece.
    probabilities : matrix
        P[code | label], a row for each piece.
    centers : array
        A label in each piece.
    widest_gap : float
    """

    low: Floats
    high: Floats
    probabilities: Floats
    centers: Floats
    widest_gap: float = 0.0

    @classmethod
    def of(cls, mechanism: FiniteMechanism, most: int = MOST_PIECES) -> LabelPieces:
        """The pieces of a mechanism: whole numbers, or cells of its grid, or intervals between its thresholds.

        If there are more than `most`, some are left out.
        """
        encoder, domain, values = mechanism.encoder, mechanism.domain, known_prior(mechanism).values
        lower, upper = label_bounds(mechanism)
        if domain is not None and domain.whole:
            low = high = centers = domain.grid
        elif isinstance(encoder, Grid):
            centers, half = encoder.domain.grid, encoder.domain.step / 2
            low, high = np.maximum(centers - half, lower), np.minimum(centers + half, upper)
        else:
            # A label on a threshold belongs below it, so the upper end of a piece has the piece's symbol.
            inside = (encoder.thresholds >= lower) & (encoder.thresholds < upper)
            high = np.append(np.unique(encoder.thresholds[inside]), upper)
            low = np.append(lower, high[:-1])
            one_value_in_each = np.array_equal(np.searchsorted(high, values), np.arange(high.size))
            centers = values if one_value_in_each else high
        probabilities = mechanism.matrix(centers)
        pieces = low, high, probabilities, centers
        return cls(*pieces) if centers.size <= most else cls._thinned(*pieces, most)

    def tails(self) -> list[Floats]:
        """For each end at which pieces look alike, how far each piece lies beyond the first of them: 0 for all others."""
        first, last = told_apart(self.probabilities)
        sides = (
            np.maximum(self.centers - self.centers[last], 0),
            np.minimum(self.centers - self.centers[first], 0),
        )
        return [np.asarray(side) for side in sides if side.any()]

    @classmethod
    def _thinned(cls, low: Floats, high: Floats, probabilities: Floats, centers: Floats, most: int) -> LabelPieces:
        """Only the pieces at which the probabilities bend as functions of the center, and about `most` spread evenly.

        Between two kept pieces the probabilities are linear in the center. A kept piece reaches as far to each side of
        its center as the widest piece that it stands for.
        """
        slope = np.diff(probabilities, axis=0) / np.diff(centers)[:, None]
        bends = np.abs(np.diff(slope, axis=0)).max(axis=1) * np.ptp(centers) > 1e-9
        even = np.linspace(0, centers.size - 1, most).astype(np.intp)
        kept = np.union1d(np.flatnonzero(bends) + 1, even)
        widest = np.maximum.reduceat(np.maximum(high - centers, centers - low), kept)
        half = np.maximum(widest, np.append(widest[0], widest[:-1]))
        centers = centers[kept]
        return cls(centers - half, centers + half, probabilities[kept], centers, float(np.diff(centers).max()))
