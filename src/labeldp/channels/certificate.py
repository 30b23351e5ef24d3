"""How far a channel is from the best of *all* ε-DP channels, and which columns would improve it: linear programming duality.

`program.py` solves a program over some patterns of likely labels. Its dual solution can judge every other pattern as well.

Notation: anchor i has mass p_i; u_i is the dual price of the equation "row i sums to one", v_i that of "row i has this mean", and
w is the weight of E[ŷ²]. A column with output z adds to row i its scale times s_i, where s_i is 1 if the column is likely
from anchor i and e^−ε if it is not. So the reduced cost of the column, per unit of its scale, is

    Σ_i s_i·c_i(z)   with   c_i(z) = w·p_i·z² − v_i·z − u_i.

For a given z the pattern {i : c_i(z) < 0} has the least reduced cost, which is

    g(z) = Σ_i c_i(z)·(1 if c_i(z) < 0, else e^−ε).

Between two neighbouring zeros of the c_i, g is a single quadratic. So its minimum over all outputs z, and with that over all
possible columns, can be computed exactly.

- If g is nowhere negative, the dual solution is feasible for the program with all patterns, and by weak duality its value
  bounds the criterion of every ε-DP channel from below.
- If g is negative somewhere, the patterns there are the ones to add. A bound is available all the same: replace u by u − δ·p
  with the least δ that makes g nonnegative. The columns of a channel have total probability one, Σ_columns scale·Σ_i s_i·p_i = 1,
  so this lowers the bound by exactly δ.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.arrays import Floats

Patterns = NDArray[np.bool_]
"""The anchors from which outputs are likely: one row per anchor, one column per pattern."""

_HALVINGS = 30
_TOLERANCE = 1e-8
_LEAST_MASS = 1e-12


@dataclass(frozen=True, eq=False)
class DualSolution:
    """The dual solution of a program, with outputs and anchors scaled so that the anchors go from 0 to 1.

    Attributes
    ----------
    unit : array of float64
        The scaled anchors.
    span : float
        The distance between the first and the last anchor before scaling.
    masses : array of float64
        The probability p of each anchor.
    ratio : float
        How much more probable a likely output is than an unlikely one: e^ε.
    weight : float
        The weight w of E[ŷ²] in the criterion.
    row_prices, mean_prices : array of float64
        The prices u of the row sums and v of the means.
    bias_term : float
        What the part of the criterion that depends on the bias adds to the dual value.
    """

    unit: Floats
    span: float
    masses: Floats
    ratio: float
    weight: float
    row_prices: Floats
    mean_prices: Floats
    bias_term: float

    def lower_bound(self) -> float:
        """A number that no ε-DP channel's criterion is below, with labels and outputs counted from the first anchor."""
        value = float(self.row_prices.sum() + self.mean_prices @ self.unit) + self.bias_term
        return (value - self._infeasibility()) * self.span**2

    def improving_patterns(self) -> Patterns:
        """The patterns whose columns have a negative reduced cost, beyond a small tolerance; none if the channel is optimal."""
        likely, costs = self._reduced_costs(_TOLERANCE * self.weight * float(self.masses @ self.unit**2))
        return np.unique(likely[costs < 0], axis=0).T

    def _infeasibility(self) -> float:
        """The least δ for which u − δ·p is feasible, by bisection."""
        low, high = 0.0, _LEAST_MASS
        if self._reduced_costs(0.0)[1].min() >= 0:
            return 0.0
        while self._reduced_costs(high)[1].min() < 0:
            low, high = high, 4 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._reduced_costs(middle)[1].min() < 0 else (low, middle)
        return high

    def _reduced_costs(self, delta: float) -> tuple[Patterns, Floats]:
        """The patterns that are best for some output, and the least reduced cost g of each, with u lowered by `delta`·p."""
        masses = np.maximum(self.masses, _LEAST_MASS)
        square, rows = self.weight * masses, self.row_prices - delta * masses
        discriminant = self.mean_prices**2 + 4 * square * rows
        middle, reach = self.mean_prices / (2 * square), np.sqrt(np.maximum(discriminant, 0)) / (2 * square)
        zeros = np.r_[(middle - reach)[discriminant > 0], (middle + reach)[discriminant > 0], 0.0, 1.0]
        edges = np.unique(zeros)
        edges = np.r_[edges[0] - 1, edges, edges[-1] + 1]
        between = (edges[1:] + edges[:-1])[:, None] / 2
        likely = square * between**2 - self.mean_prices * between - rows < 0
        share = np.where(likely, 1.0, 1 / self.ratio)
        a, b, c = share @ square, share @ self.mean_prices, share @ rows
        best = np.clip(b / (2 * a), edges[:-1], edges[1:])
        return likely, a * best**2 - b * best - c
