"""The exponent b of a running time a·n^b, by regression of logarithms, with a confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Growth:
    """A fitted exponent and its 95 % interval. The interval is that of a straight line with independent errors."""

    exponent: float
    low: float
    high: float
    points: int
    smallest: float
    largest: float

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ({self.low:.2f} to {self.high:.2f})"


def fit(sizes: Sequence[float], seconds: Sequence[float], confidence: float = 0.95) -> Growth:
    """Fit log(seconds) = log(a) + b·log(size). Needs three points of at least two sizes."""
    x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(seconds, dtype=float))
    if x.size < 3 or np.unique(x).size < 2:
        raise ValueError(f"an exponent with an interval needs three points of two sizes or more, got {x.size}")
    line = stats.linregress(x, y)
    reach = float(stats.t.ppf((1 + confidence) / 2, x.size - 2) * line.stderr)
    return Growth(
        float(line.slope), float(line.slope) - reach, float(line.slope) + reach, x.size, min(sizes), max(sizes)
    )
