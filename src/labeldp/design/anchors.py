"""Rounding of a channel of floats on anchors to an exactly ε-DP integer table for all labels."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import mul

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.budget import Epsilon
from labeldp.design.cone_program import Channel
from labeldp.errors import InvalidInput
from labeldp.linear_algebra import least_squares
from labeldp.sampling import AnchoredTable, Table, WeightTable
from labeldp.sampling.table import TOTAL

_LARGEST_BIAS = Fraction(1, 10**9)
"""The largest error of a mean that is accepted, as a share of the range of the labels."""


@dataclass(frozen=True, eq=False)
class Anchors:
    """Labels and the anchors that represent them.

    A label between two anchors is rounded at random: label i goes to the anchor above it with probability
    `upper_weight[i] / 2^64`. The mean of the rounded label is the label, up to 2^-64 of the distance between the anchors.

    Parameters
    ----------
    labels : array of float64
        All labels, in increasing order.
    rows : array of int64
        The indices of the anchors among the labels. The first and the last label must be anchors.

    Raises
    ------
    InvalidInput
        If the rows do not increase from the first to the last label.

    Privacy
    -------
    The rounding costs no privacy: a mixture of rows of an ε-DP table is ε-DP.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.design.anchors import Anchors
    >>> anchors = Anchors(np.array([0.0, 1.0, 2.0, 4.0]), np.array([0, 3]))
    >>> anchors.values.tolist()
    [0.0, 4.0]
    >>> anchors.mixing.tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.5, 0.5], [0.0, 1.0]]
    """

    labels: Floats
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        last = self.labels.size - 1
        if self.rows.size < 1 or self.rows[0] != 0 or self.rows[-1] != last or (np.diff(self.rows) <= 0).any():
            raise InvalidInput("anchors must be increasing rows that include the first and the last label")

    @classmethod
    def choose(cls, labels: Floats, masses: Floats, count: int) -> Anchors:
        """Choose about `count` anchors, including both ends, and denser where labels are common.

        Rounding a label y between the anchors a < b adds a variance of (y − a)(b − y). For a smooth density the expected
        variance is least if the distance between anchors is proportional to density^(−1/3). Labels with a probability above
        1/count are anchors themselves.

        Parameters
        ----------
        labels : array of float64
            All labels, in increasing order.
        masses : array of float64
            The probability of each label.
        count : int
            The number of anchors, at least 2. If it is the number of labels or more, every label is an anchor.

        Returns
        -------
        Anchors
            The labels with their anchors.
        """
        size = labels.size
        if count >= size or size <= 2:
            return cls(labels, np.arange(size))
        if count < 2:
            raise InvalidInput(f"at least 2 anchors are needed, the two ends of the labels; got {count}")
        gaps = np.diff(labels)
        density = (masses[:-1] + masses[1:]) / gaps
        width = max(1, size // count)  # smoothed, so that noise in a private prior does not move single anchors
        smooth = np.convolve(np.pad(density, width, mode="edge"), np.full(2 * width + 1, 1 / (2 * width + 1)), "valid")
        even = 1 / (labels[-1] - labels[0])
        measure = np.cumsum(np.r_[0.0, np.cbrt(0.9 * smooth / 2 + 0.1 * even) * gaps])
        heavy = np.flatnonzero(masses > 1 / count)
        wanted = np.linspace(0, measure[-1], max(2, count - int(((heavy > 0) & (heavy < size - 1)).sum())))
        placed = np.searchsorted(measure, wanted).clip(0, size - 1)
        return cls(labels, np.unique(np.r_[0, placed, heavy, size - 1]))

    @property
    def values(self) -> Floats:
        """The labels that are anchors."""
        return self.labels[self.rows]

    @cached_property
    def lower(self) -> NDArray[np.uint32]:
        """The index of the anchor at or below each label."""
        return (np.searchsorted(self.rows, np.arange(self.labels.size), side="right") - 1).astype(np.uint32)

    @cached_property
    def upper_weight(self) -> NDArray[np.uint64]:
        """The weight of the anchor above each label, out of 2^64. Computed in integers, so it is the same on every machine."""
        gaps = np.append(np.diff(self.values), 1.0)[self.lower]
        offsets = self.labels - self.values[self.lower]
        weights = []
        for offset, gap in zip(offsets.tolist(), gaps.tolist(), strict=True):
            (a, b), (c, d) = offset.as_integer_ratio(), gap.as_integer_ratio()
            weights.append(min(TOTAL - 1, TOTAL * a * d // (b * c)))
        return np.array(weights, np.uint64)

    @cached_property
    def mixing(self) -> Floats:
        """The probability that a label (row) is rounded to an anchor (column)."""
        share = self.upper_weight / 2.0**64
        matrix = np.zeros((self.labels.size, self.rows.size))
        everyone = np.arange(self.labels.size)
        matrix[everyone, self.lower] = 1 - share
        above = share > 0
        matrix[everyone[above], self.lower[above] + 1] = share[above]
        return matrix

    def masses(self, label_masses: Floats) -> Floats:
        """Return the distribution of the rounded labels over the anchors.

        Parameters
        ----------
        label_masses : array of float64
            The probability of each label.

        Returns
        -------
        array of float64
            The probability of each anchor.
        """
        mixed: Floats = label_masses @ self.mixing
        return mixed

    def table(self, inner: WeightTable) -> Table:
        """Return the table of all labels, from the table of the anchors.

        Parameters
        ----------
        inner : WeightTable
            A table with one row per anchor.

        Returns
        -------
        Table
            `inner` itself if every label is an anchor.
        """
        if self.rows.size == self.labels.size:
            return inner
        return AnchoredTable(self.lower, self.upper_weight, inner)


def integer_channel(
    channel: Channel, epsilon: Epsilon, masses: Floats, means: Floats | None = None
) -> tuple[WeightTable, Floats]:
    """Return the channel rounded to integers, with outputs whose mean at anchor i is `means[i]` under the rounded probabilities.

    Rounding changes the probabilities slightly, so the outputs are computed again. Of all solutions, this is the one
    that changes the outputs least, in mean square under the prior.

    Parameters
    ----------
    channel : Channel
        The channel to round.
    epsilon : float, int, str, Decimal or Fraction
        The guarantee.
    masses : array of float64
        The probability of each anchor.
    means : array of float64, optional
        The mean that the output should have at each anchor. By default the outputs do not change.

    Returns
    -------
    table : WeightTable
        The integer weights, one row per anchor.
    outputs : array of float64
        The value of each output.

    Raises
    ------
    InvalidInput
        If a mean misses its target by more than 1e-9 of their range, computed in rational arithmetic.
    PrivacyRefused
        If the channel is not ε-DP.

    Privacy
    -------
    The table is exactly ε-DP: `WeightTable.from_probabilities` proves it in rational arithmetic.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.design.anchors import integer_channel
    >>> from labeldp.design.cone_program import unbiased_channel
    >>> values, masses = np.array([0.0, 1.0, 5.0]), np.array([0.5, 0.3, 0.2])
    >>> table, outputs = integer_channel(unbiased_channel(values, masses, 1.0), 1, masses, values)
    >>> (table.probabilities() @ outputs).round(9).tolist()
    [0.0, 1.0, 5.0]
    """
    table = WeightTable.from_probabilities(channel.probabilities, epsilon)
    outputs = channel.outputs.copy()
    if means is None:
        return table, outputs
    probabilities = table.probabilities()
    root = np.sqrt(np.maximum(masses @ probabilities, 1e-15))
    weights = table.weights()
    error = _errors(weights, outputs, means)
    for _ in range(4):
        missing = np.array([float(e) for e in error])
        step = least_squares(probabilities / root, missing, rcond=1e-14) / root
        better = outputs + step
        found = _errors(weights, better, means)
        if max(map(abs, found)) >= max(map(abs, error)):
            break
        outputs, error = better, found
    worst = max(map(abs, error))
    span = Fraction(float(means[-1])) - Fraction(float(means[0]))
    if worst > _LARGEST_BIAS * span:
        raise InvalidInput(
            f"no outputs make this table unbiased: an error of {float(worst):.3g} remains at epsilon = {epsilon}. "
            "Use fewer anchors or a larger epsilon."
        )
    return table, outputs


def _errors(weights: list[list[int]], outputs: Floats, means: Floats) -> list[Fraction]:
    """Return the targets minus the means of the outputs under the integer table, exactly."""
    # Every output is an integer over one common power of two, so a row only needs integer products.
    pairs = [float(value).as_integer_ratio() for value in outputs]
    denominator = max(d for _, d in pairs)
    scaled = [n * (denominator // d) for n, d in pairs]
    return [
        Fraction(float(mean)) - Fraction(sum(map(mul, row, scaled)), denominator << 64)
        for mean, row in zip(means, weights, strict=True)
    ]
