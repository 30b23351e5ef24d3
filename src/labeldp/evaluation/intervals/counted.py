"""What the noisy histogram behind a private prior tells about the labels: the sum of any function of the label, nearly.

The counts have noise of a known law, so Σ h(label) over the counted labels is known up to Σ h(cell)·noise, for every
function h of the cell. Codes and counts together estimate the mean of a function φ: numbers v for the codes and h for the
cells with E[v | y] + h(y) ≈ φ(y), so that the counts stand in where the codes cannot tell labels apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats
from labeldp.evaluation.intervals.pieces import LabelPieces
from labeldp.linear_algebra import solve
from labeldp.mechanisms import FiniteMechanism
from labeldp.mechanisms.base import Grid
from labeldp.priors import NoisyCounts


@dataclass(frozen=True, eq=False)
class CountedMean:
    """The mean of h(label) over the records, from noisy counts.

    Attributes
    ----------
    function : array
        h at each piece.
    low, high : float
        The mean over the records lies between them, but for noise. They are equal if exactly the records were counted.
    noise : float
        The standard deviation of the noise.
    kurtosis : float
        The excess kurtosis of the noise.
    sampling : float
        The standard error of the mean of h over labels drawn from the prior.
    """

    function: Floats
    low: float
    high: float
    noise: float
    kurtosis: float
    sampling: float


@dataclass(frozen=True, eq=False)
class CountedLabels:
    """The noisy counts as evidence about `records` labels, all of which were counted.

    `mixing` has a row for each cell and a column for each piece: the piece that the cell is, or the mixture of two pieces
    that it stands for. `masses` is the prior on the pieces. If more labels were counted than there are records, the others
    may be anything, unless `random_part` says that the records are a random part of them.
    """

    counts: NoisyCounts
    mixing: Floats
    masses: Floats
    records: int
    random_part: bool = False

    @classmethod
    def of(
        cls, mechanism: FiniteMechanism, pieces: LabelPieces, records: int, *, random_part: bool = False
    ) -> CountedLabels | None:
        """None where there are no counts, or where they are not counts of these labels on the mechanism's own grid."""
        counts = usable_counts(mechanism, records)
        if counts is None or mechanism.prior is None:
            return None
        unit = np.eye(pieces.centers.size)
        mixing = np.transpose([np.interp(mechanism.prior.values, pieces.centers, column) for column in unit])
        return cls(counts, mixing, mixing.T @ mechanism.prior.masses, records, random_part)

    def mean(self, function: Floats) -> CountedMean:
        """The mean over the records of a function that is given at the pieces and linear in between."""
        cells, counts = self.mixing @ function, self.counts
        total = float(counts.values @ cells)
        divisor = counts.records if self.random_part else self.records
        others = counts.records - divisor
        power = float(cells @ cells)
        variance = float(self.masses @ function**2 - (self.masses @ function) ** 2)
        return CountedMean(
            function,
            (total - others * float(cells.max())) / divisor,
            (total - others * float(cells.min())) / divisor,
            noise=float(np.sqrt(power * counts.noise_variance)) / divisor,
            kurtosis=counts.noise_kurtosis * float(np.sum(cells**4)) / max(power**2, 1e-300),
            sampling=float(np.sqrt(max(variance, 0.0) / self.records)),
        )

    def fit(self, channel: Floats, wanted: Floats, even: float, doubt: float = 1.0) -> tuple[Floats, Floats]:
        """Numbers v for the codes and h for the pieces, a column for each column of `wanted`.

        They minimise `doubt` times the squared bias of E[v | y] + h(y), under the prior plus an even one of weight `even`,
        plus the variance of the mean over the records. Under the prior they are right on average. So the less doubt, the
        more the answer is the prior's own, and the less noise it has.
        """
        codes, size = channel.shape[1], channel.shape[0]
        weights = doubt * (self.masses + even / size)
        share = self.masses @ channel
        both = np.hstack([channel, np.eye(size)])
        penalty = np.zeros((codes + size, codes + size))
        penalty[:codes, :codes] = (np.diag(share) - np.outer(share, share)) / self.records
        penalty[codes:, codes:] = self.mixing.T @ self.mixing * (self.counts.noise_variance / self.records**2)
        unit = np.maximum(np.abs(wanted).max(axis=0), 1e-300)
        center = self.masses @ wanted
        system = both.T @ (weights[:, None] * both) + penalty
        system += 1e-13 * np.trace(system) / len(system) * np.eye(len(system))
        solved = solve(system, both.T @ (weights[:, None] * (wanted - center) / unit)) * unit
        solved[:codes] += self.masses @ (wanted - both @ solved)
        return solved[:codes], solved[codes:]


def usable_counts(mechanism: FiniteMechanism, records: int) -> NoisyCounts | None:
    """The counts of the prior, if there were at least so many labels and their cells are those of the mechanism."""
    prior, encoder = mechanism.prior, mechanism.encoder
    if prior is None or prior.counts is None or prior.counts.records < records or not isinstance(encoder, Grid):
        return None
    return prior.counts if np.array_equal(encoder.domain.grid, prior.values) else None


def shapes(centers: Floats) -> Floats:
    """Functions of the label whose means bound its distribution, a column each: y, y², and ramps.

    A ramp is the distance beyond a threshold or its square, for seven thresholds and both directions.
    """
    scaled = (centers - centers[0]) / np.ptp(centers)
    columns = [scaled, scaled**2]
    for threshold in np.linspace(0, 1, 9)[1:-1]:
        for distance in (scaled - threshold, threshold - scaled):
            columns += [np.maximum(distance, 0), np.maximum(distance, 0) ** 2]
    return np.column_stack(columns)
