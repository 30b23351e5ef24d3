"""A few anchor labels stand for many: every label is rounded at random to the anchors beside it, keeping its mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.sampling import AnchoredTable, Table, WeightTable

_TOTAL = 1 << 64


@dataclass(frozen=True, eq=False)
class Anchors:
    """`labels[rows]` are the anchors; label i goes to the anchor above it with probability `upper_weight[i] / 2^64`.

    The mean of the rounded label is the label, up to 2^-64 of the distance between two anchors. The rounding is a
    function of the label's number and needs no privacy of its own: a mixture of rows of an ε-DP table is ε-DP.
    """

    labels: Floats
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        last = self.labels.size - 1
        if self.rows.size < 1 or self.rows[0] != 0 or self.rows[-1] != last or (np.diff(self.rows) <= 0).any():
            raise InvalidInput("anchors must be increasing rows that include the first and the last label")

    @classmethod
    def choose(cls, labels: Floats, masses: Floats, count: int) -> Anchors:
        """`count` anchors (about), both ends included, denser where the prior is.

        Rounding between anchors a < b costs a variance of (y − a)(b − y), which for a smooth density is least with
        anchors spaced like density^(−1/3). Labels with a mass of more than 1/count are anchors themselves.
        """
        size = labels.size
        if count >= size or size <= 2:
            return cls(labels, np.arange(size))
        if count < 2:
            raise InvalidInput(f"at least 2 anchors are needed, the two ends of the labels; got {count}")
        gaps = np.diff(labels)
        density = (masses[:-1] + masses[1:]) / gaps
        width = max(1, size // count)  # noise in a private prior must not decide where single anchors go
        smooth = np.convolve(np.pad(density, width, mode="edge"), np.full(2 * width + 1, 1 / (2 * width + 1)), "valid")
        even = 1 / (labels[-1] - labels[0])
        measure = np.cumsum(np.r_[0.0, np.cbrt(0.9 * smooth / 2 + 0.1 * even) * gaps])
        heavy = np.flatnonzero(masses > 1 / count)
        wanted = np.linspace(0, measure[-1], max(2, count - int(((heavy > 0) & (heavy < size - 1)).sum())))
        placed = np.searchsorted(measure, wanted).clip(0, size - 1)
        return cls(labels, np.unique(np.r_[0, placed, heavy, size - 1]))

    @property
    def values(self) -> Floats:
        """The anchors' labels."""
        return self.labels[self.rows]

    @cached_property
    def lower(self) -> NDArray[np.uint32]:
        """The number of the anchor at or below each label."""
        return (np.searchsorted(self.rows, np.arange(self.labels.size), side="right") - 1).astype(np.uint32)

    @cached_property
    def upper_weight(self) -> NDArray[np.uint64]:
        """Of 2^64 chances, those of the anchor above; computed in integers, so the same on every machine."""
        values = self.values.tolist()
        weights = []
        for label, anchor in zip(self.labels.tolist(), self.lower.tolist(), strict=True):
            if label == values[anchor]:
                weights.append(0)
                continue
            (a, b), (c, d) = (
                (label - values[anchor]).as_integer_ratio(),
                (values[anchor + 1] - values[anchor]).as_integer_ratio(),
            )
            weights.append(min(_TOTAL - 1, _TOTAL * a * d // (b * c)))
        return np.array(weights, np.uint64)

    @cached_property
    def mixing(self) -> Floats:
        """The share of each anchor (column) in each label (row)."""
        share = self.upper_weight / 2.0**64
        matrix = np.zeros((self.labels.size, self.rows.size))
        everyone = np.arange(self.labels.size)
        matrix[everyone, self.lower] = 1 - share
        above = share > 0
        matrix[everyone[above], self.lower[above] + 1] = share[above]
        return matrix

    def masses(self, label_masses: Floats) -> Floats:
        """The distribution of the rounded labels over the anchors."""
        mixed: Floats = label_masses @ self.mixing
        return mixed

    def table(self, inner: WeightTable) -> Table:
        """The table over all labels, from the table over the anchors."""
        if self.rows.size == self.labels.size:
            return inner
        return AnchoredTable(self.lower, self.upper_weight, inner)
