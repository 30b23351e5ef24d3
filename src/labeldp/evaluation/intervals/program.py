"""The linear program over all joint distributions of weight and label that the statistics allow."""

import math
from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats


@dataclass(frozen=True, eq=False)
class DistributionProgram:
    """Distributions q over pairs (node, piece) with low ≤ expected·q + moved·g ≤ high, g a number.

    g is the sampling error of the mean offset, from −offset_error[0] to offset_error[1]. It moves the target and its
    estimates by the same amount: `moved` is 1 for their rows and 0 for all others.
    """

    expected: Floats
    low: Floats
    high: Floats
    offset_error: Floats
    moved: Floats

    def minimum(self, cost: Floats, offset_cost: float) -> float:
        """The least cost·q + offset_cost·g.

        If the statistics contradict each other, all their ranges are widened by the same factor until they do not. If
        the solver has no answer even then, the least value over all distributions is returned.
        """
        found = self._solve(cost, offset_cost, None)
        return float(cost.min() - self.offset_error.max()) if found is None else found

    def least_ratio(self, cost: Floats, offset_cost: float, least: Floats, most: Floats) -> float:
        """The least (cost·q + offset_cost·g) / (d·q), where d lies from `least` to `most`.

        A positive ratio is least for the greatest d, a negative one for the least. It is −inf if a negative one has a d·q
        that may be zero or below, or if the solver has no answer. `most`·q must be positive for all q.
        """
        found = self._solve(cost, offset_cost, most)
        if found is not None and found < 0:
            if self.minimum(least, 0.0) <= 1e-9 * float(np.abs(most).max()):
                return -math.inf
            found = self._solve(cost, offset_cost, least)
        return -math.inf if found is None else found

    def _solve(self, cost: Floats, offset_cost: float, denominator: Floats | None) -> float | None:
        """The least cost, or with a denominator the least ratio, by the change of variables of Charnes and Cooper (1962).

        For a ratio the unknowns are q, g and 1, all divided by the denominator, and every range is a multiple of the last.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        size = cost.size
        # The solver sees each statistic in units of its largest value, and g and the costs in units of the largest cost.
        unit = max(float(np.abs(cost).max()), float(self.offset_error.max()), 1e-300)
        scale = np.maximum(np.abs(self.expected).max(axis=1), 1e-300)
        table = np.column_stack([self.expected / scale[:, None], self.moved * unit / scale])
        below, above = self.offset_error / unit
        costs = np.r_[cost / unit, offset_cost]
        for widening in 1.5 ** np.arange(40) - 1:
            more = widening * (self.high - self.low) / 2
            low, high = (self.low - more) / scale - 1e-9, (self.high + more) / scale + 1e-9
            if denominator is None:
                rows = LinearConstraint(
                    np.vstack([table, np.r_[np.ones(size), 0.0]]), np.r_[low, 1.0], np.r_[high, 1.0]
                )
                bounds = Bounds(np.r_[np.zeros(size), -below], np.r_[np.ones(size), above])
                answer = milp(costs, constraints=rows, bounds=bounds)
                factor = unit
            else:
                whole = float(np.abs(denominator).max())
                offset = np.r_[np.zeros(size), 1.0]
                ratio_rows = np.vstack(
                    [
                        np.column_stack([table, -low]),
                        np.column_stack([table, -high]),
                        np.r_[offset, below],
                        np.r_[offset, -above],
                        np.r_[np.ones(size), 0.0, -1.0],
                        np.r_[denominator / whole, 0.0, 0.0],
                    ]
                )
                least = np.r_[np.zeros(low.size), np.full(low.size, -np.inf), 0.0, -np.inf, 0.0, 1.0]
                most = np.r_[np.full(low.size, np.inf), np.zeros(low.size), np.inf, 0.0, 0.0, 1.0]
                bounds = Bounds(np.r_[np.zeros(size), -np.inf, 0.0], np.full(size + 2, np.inf))
                answer = milp(np.r_[costs, 0.0], constraints=LinearConstraint(ratio_rows, least, most), bounds=bounds)
                factor = unit / whole
            if answer.status == 0:
                return float(answer.fun) * factor
        return None
