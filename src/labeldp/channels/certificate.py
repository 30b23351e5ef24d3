"""How far a channel is from the best of *all* ε-DP channels, and which columns would bring it nearer: duality.

The program in `program.py` knows some patterns of likely labels. Its multipliers judge all others as well. A column with
the output z costs label i the amount c_i(z) = w·p_i·z² − v_i·z − u_i, where u prices the rows and v the means, times 1
where the pattern is likely and e^−ε where it is not. So the cheapest pattern for z is {i : c_i(z) < 0}, and

    g(z) = Σ_i c_i(z)·(1 if c_i(z) < 0 else e^−ε)

is one quadratic between any two neighbouring zeros of the c_i: its least value over all z, and so over all columns
whatever, is found exactly. If it is not negative, no ε-DP channel is better than the prices say. If it is, the patterns there
are those to add; and lowering u by δ·p until it is not gives a bound that is δ lower, for a channel's columns have total
probability one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats

Patterns = NDArray[np.bool_]
"""Which anchors are likely: one row an anchor, one column a pattern."""

_HALVINGS = 60
_TOLERANCE = 1e-8
_LEAST_MASS = 1e-12


@dataclass(frozen=True, eq=False)
class Prices:
    """Multipliers of a program whose anchors are scaled to go from 0 to 1 (`unit`, originally `span` apart).

    `rows` are u, `means` are v; `gain` is what the criterion in the bias adds to the value of the dual.
    """

    unit: Floats
    span: float
    masses: Floats
    ratio: float
    weight: float
    rows: Floats
    means: Floats
    gain: float

    def lower_bound(self) -> float:
        """No ε-DP channel has a smaller criterion, labels and outputs counted from the first anchor."""
        value = float(self.rows.sum() + self.means @ self.unit) + self.gain
        return (value - self._shortfall()) * self.span**2

    def cheaper_patterns(self) -> Patterns:
        """Patterns that would make the channel better by more than a negligible amount; none if it is optimal."""
        likely, prices = self._cheapest(_TOLERANCE * self.weight * float(self.masses @ self.unit**2))
        return np.unique(likely[prices < 0], axis=0).T

    def _shortfall(self) -> float:
        low, high = 0.0, _LEAST_MASS
        if self._cheapest(0.0)[1].min() >= 0:
            return 0.0
        while self._cheapest(high)[1].min() < 0:
            low, high = high, 4 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._cheapest(middle)[1].min() < 0 else (low, middle)
        return high

    def _cheapest(self, delta: float) -> tuple[Patterns, Floats]:
        """The patterns that are cheapest for some output, and the least g of each, with u lowered by `delta`·p."""
        masses = np.maximum(self.masses, _LEAST_MASS)
        square, rows = self.weight * masses, self.rows - delta * masses
        inside = self.means**2 + 4 * square * rows
        middle, reach = self.means / (2 * square), np.sqrt(np.maximum(inside, 0)) / (2 * square)
        zeros = np.r_[(middle - reach)[inside > 0], (middle + reach)[inside > 0], 0.0, 1.0]
        edges = np.unique(zeros)
        edges = np.r_[edges[0] - 1, edges, edges[-1] + 1]
        between = (edges[1:] + edges[:-1])[:, None] / 2
        likely = square * between**2 - self.means * between - rows < 0
        share = np.where(likely, 1.0, 1 / self.ratio)
        a, b, c = share @ square, share @ self.means, share @ rows
        best = np.clip(b / (2 * a), edges[:-1], edges[1:])
        return likely, a * best**2 - b * best - c
