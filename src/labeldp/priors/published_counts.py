"""The noisy histogram behind a private prior, kept because its noise is known exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.budget import MAX_EPSILON
from labeldp.errors import InvalidInput, described
from labeldp.sampling.integer_noise import WIDEST

_MOST = 2**53
"""No count of a message may be larger: floats hold all integers up to here."""
SMALLEST_SCALE = 2 / MAX_EPSILON
"""Counts with less noise would cost more than the largest ε."""


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """How many labels fell into each cell, each count plus integer Laplace noise.

    A prior is a guess made of such counts. Intervals go back to the counts, because the law of their noise is known.

    Parameters
    ----------
    values : array of int
        The noisy count of each cell. Some may be negative.
    scale : float
        The scale of the noise: noise z has a probability proportional to e^(−|z|/scale).
    records : int
        The number of labels that were counted, which is public.

    Raises
    ------
    InvalidInput
        If a count is not a whole number, or the scale or the number of records is impossible.

    Privacy
    -------
    Counts with such noise are 2/scale-DP for replacing one label. They are the release itself, so to publish them costs
    nothing beyond what the prior cost.

    Examples
    --------
    >>> from labeldp.priors import NoisyCounts
    >>> counts = NoisyCounts([510, 287, -3], scale=4.0, records=800)
    >>> counts.epsilon_exact
    Fraction(1, 2)
    """

    values: NDArray[np.int64]
    scale: float
    records: int

    def __post_init__(self) -> None:
        given = self.values.tolist() if isinstance(self.values, np.ndarray) else list(self.values)
        if not all(type(count) is int and abs(count) <= _MOST for count in given):
            raise InvalidInput("noisy counts must be whole numbers of at most 2^53")
        if (
            isinstance(self.scale, bool)
            or not isinstance(self.scale, (int, float))
            or not SMALLEST_SCALE <= self.scale <= WIDEST
        ):
            raise InvalidInput(
                f"the scale of noisy counts must be a number from {SMALLEST_SCALE:g} to 2^55, which noise can have, got {described(self.scale)}. "
                "Ask for the message again"
            )
        if type(self.records) is not int or not 0 <= self.records <= _MOST:
            raise InvalidInput(f"the number of counted labels must be a whole number, got {described(self.records)}")
        values = np.array(given, np.int64)
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "scale", float(self.scale))

    @property
    def epsilon_exact(self) -> Fraction:
        """What the counts cost: 2/scale, because replacing one label moves two counts by one."""
        return 2 / Fraction(self.scale)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise of one count, 2a/(1 − a)² with a = e^(−1/scale)."""
        return float(0.5 / math.sinh(0.5 / self.scale) ** 2)

    @property
    def noise_kurtosis(self) -> float:
        """The excess kurtosis of the noise of one count: 3 for a large scale, more for a small one."""
        return 3.0 + 1.0 / self.noise_variance

    def reordered(self, order: NDArray[np.intp]) -> NoisyCounts:
        """The same counts with the cells in another order."""
        return NoisyCounts(self.values[order], self.scale, self.records)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON can hold them."""
        return {"values": self.values.tolist(), "scale": self.scale, "records": self.records}

    @classmethod
    def from_json(cls, record: Any) -> NoisyCounts:
        """What `to_json` wrote; anything else is refused."""
        if not isinstance(record, dict) or not isinstance(record.get("values"), list):
            raise InvalidInput("the noisy counts of the prior are missing or damaged")
        return cls(record["values"], record.get("scale"), record.get("records"))  # type: ignore[arg-type]
