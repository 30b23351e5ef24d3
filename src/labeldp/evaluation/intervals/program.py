"""The linear program over all joint distributions of weight and label that the statistics allow."""

from dataclasses import dataclass

import numpy as np

from labeldp.arrays import Floats


@dataclass(frozen=True, eq=False)
class DistributionProgram:
    """Distributions q over pairs (node, piece) with low ≤ expected·q ≤ high, and a number g added to the last row.

    g is the sampling error of the mean offset, from −offset_error[0] to offset_error[1]. It moves the target and its
    estimate, which is the last row, by the same amount.
    """

    expected: Floats
    low: Floats
    high: Floats
    offset_error: Floats

    def minimum(self, cost: Floats, offset_cost: float) -> float:
        """The least cost·q + offset_cost·g.

        If the statistics contradict each other, all their ranges are widened by the same factor until they do not. If
        the solver has no answer even then, the least value over all distributions is returned.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        size = cost.size
        # The solver sees each statistic in units of its largest value, and g and the costs in units of the largest cost.
        unit = max(float(np.abs(cost).max()), float(self.offset_error.max()), 1e-300)
        scale = np.maximum(np.abs(self.expected).max(axis=1), 1e-300)
        of_offset = np.zeros((self.expected.shape[0], 1))
        of_offset[-1] = unit / scale[-1]
        table = np.vstack([np.hstack([self.expected / scale[:, None], of_offset]), np.r_[np.ones(size), 0.0]])
        below, above = self.offset_error / unit
        bounds = Bounds(np.r_[np.zeros(size), -below], np.r_[np.ones(size), above])
        costs = np.r_[cost / unit, offset_cost]
        for widening in 1.5 ** np.arange(40) - 1:
            more = widening * (self.high - self.low) / 2
            low = np.r_[(self.low - more) / scale - 1e-9, 1.0]
            high = np.r_[(self.high + more) / scale + 1e-9, 1.0]
            answer = milp(costs, constraints=LinearConstraint(table, low, high), bounds=bounds)
            if answer.status == 0:
                return float(answer.fun) * unit
        return float(cost.min() - self.offset_error.max())
