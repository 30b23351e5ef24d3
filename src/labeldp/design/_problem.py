"""The tables for the compiled search, from a prior, a loss and c = e^ε − 1."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labeldp.arrays import Floats
from labeldp.design._costs import (
    CandidateTables,
    DevianceTables,
    HuberTables,
    PinballTables,
    SquaredTables,
    deviance_levels,
    huber_table,
    outward_sums,
    pinball_table,
    squared_table,
    summary,
)
from labeldp.design._search import Nodes, follow, least_weight_path
from labeldp.losses import Loss
from labeldp.losses.loss import Deviance, HuberDistance, PinballDistance, SquaredDistance, Structure

MASS_UNIT = 2.0**300
"""An exact factor on the masses, so that a mass of 10⁻³⁰⁰ times a small square does not underflow."""


@dataclass(frozen=True)
class Problem:
    """Nodes 0 … n and the cost of a step between two of them. A path from 0 to n represents a set of bins."""

    tables: Any
    n: int
    first_path: Nodes
    cost_unit: float
    to_outputs: Callable[[Floats], Floats]
    closing_steps: int = 0
    """The number of steps without an output at the end of a path."""

    def best_path(self, price: float, stride: int = 1) -> Nodes:
        """Return the path with the least total of cost − `price` over its steps, using every node or every stride-th one."""
        return least_weight_path(self.tables, np.append(np.arange(0, self.n, stride), self.n), price)

    def cost(self, path: Nodes) -> float:
        """Return the total cost of a path."""
        return follow(self.tables, path)[0]

    def bins(self, path: Nodes) -> int:
        """Return the number of bins of a path."""
        return path.size - 1 - self.closing_steps

    def outputs(self, path: Nodes) -> Floats:
        """Return the output of each bin of a path."""
        return self.to_outputs(follow(self.tables, path)[1][: self.bins(path)])


def interval_problem(values: Floats, masses: Floats, c: float, structure: Structure) -> Problem:
    """Return the problem over all real outputs, for a loss with a structure."""
    match structure:
        case SquaredDistance():
            make = _squared if structure.scale == "identity" else _squared_log
            return make(values, masses, c)
        case PinballDistance():
            return _pinball(values, masses, c, structure)
        case HuberDistance():
            return _huber(values, masses, c, structure)
        case Deviance():
            return _deviance(values, masses, c, structure)


def candidate_problem(values: Floats, masses: Floats, c: float, loss: Loss, candidates: Floats) -> Problem:
    """Return the problem over the given outputs, for any loss that meets Assumption 1."""
    losses = np.ascontiguousarray(loss(candidates[:, None], values[None, :]))
    split = np.searchsorted(values, candidates, side="right").astype(np.int64)
    scaled = masses * MASS_UNIT
    everything = losses @ scaled
    n = candidates.size + 1
    return Problem(
        CandidateTables(losses, outward_sums(losses, scaled, split), everything, split, c),
        n,
        np.array([0, int(np.argmin(everything)) + 1, n]),
        1 / MASS_UNIT,
        lambda nodes: candidates[nodes.astype(np.int64) - 1],
        closing_steps=1,
    )


def _squared(points: Floats, masses: Floats, c: float) -> Problem:
    scale = _unit(points)
    table, mean, mean_low = squared_table(points * scale, masses * MASS_UNIT)
    tables = SquaredTables(table, c, float(table[-1, 0]), float(table[-1, 4]))

    def to_outputs(steps: Floats) -> Floats:
        return (mean + (mean_low + steps)) / scale

    return Problem(tables, points.size, np.array([0, points.size]), scale**-2 / MASS_UNIT, to_outputs)


def _squared_log(values: Floats, masses: Floats, c: float) -> Problem:
    """Return the squared distance on the scale of log(1 + y), measured from one of the labels.

    The logarithms of large, close labels differ only in their last digits. Differences from a label keep all digits.
    Far below that label the logarithms themselves keep more, because 1 + the difference may round to 0.
    """
    origin = float(values[_quantile(masses, 0.5)])
    change = (values - origin) / (1 + origin)
    far = change < -0.5
    distances = np.where(far, np.log1p(values) - math.log1p(origin), np.log1p(np.where(far, 0.0, change)))
    squared = _squared(distances, masses, c)

    def to_outputs(steps: Floats) -> Floats:
        logs = squared.to_outputs(steps)
        near = origin + (1 + origin) * np.expm1(logs)
        return np.where(logs < -math.log(2), np.expm1(logs + math.log1p(origin)), near)

    return replace(squared, to_outputs=to_outputs)


def _pinball(values: Floats, masses: Floats, c: float, structure: PinballDistance) -> Problem:
    under, over = structure.under, structure.over
    scale = _unit(values)
    anchor = _quantile(masses, under / (under + over))
    table = pinball_table(values * scale, masses * MASS_UNIT, anchor, under, over)
    below = np.ascontiguousarray(table[:, 0])
    tables = PinballTables(table, below, c, float(below[-1]), under, over)

    def to_outputs(labels: Floats) -> Floats:
        return values[labels.astype(np.int64) - 1]

    return Problem(tables, values.size, np.array([0, values.size]), 1 / scale / MASS_UNIT, to_outputs)


def _huber(values: Floats, masses: Floats, c: float, structure: HuberDistance) -> Problem:
    scale = _unit(values)
    delta = structure.delta * scale
    anchor = _quantile(masses, 0.5)
    table, points = huber_table(values * scale, masses * MASS_UNIT, anchor)
    enter, leave = points - delta, points + delta  # for outputs between these, the loss of a label is a square
    knots = np.unique(np.concatenate([enter, leave]))
    below = np.searchsorted(leave, knots, side="left").astype(np.int64)
    reach = np.searchsorted(enter, knots, side="right").astype(np.int64)
    tables = HuberTables(table, points, knots, below, reach, delta, c)

    def to_outputs(steps: Floats) -> Floats:
        return float(values[anchor]) + steps / scale

    return Problem(tables, values.size, np.array([0, values.size]), scale**-2 / MASS_UNIT, to_outputs)


def _deviance(values: Floats, masses: Floats, c: float, structure: Deviance) -> Problem:
    power = float(structure.power)
    scaled = masses * MASS_UNIT
    levels = deviance_levels(values, scaled, power)
    points = np.ascontiguousarray(np.stack([values, scaled], axis=1))
    w, mean, mean_low, information = summary(points, levels, power, 0, values.size)
    tables = DevianceTables(points, levels, c, w, information, mean, mean_low, power)
    return Problem(tables, values.size, np.array([0, values.size]), 1 / MASS_UNIT, lambda outputs: outputs)


def _quantile(masses: Floats, share: float) -> int:
    """Return the index of the first label at which the cumulated mass reaches this share of the total."""
    total = np.cumsum(masses)
    return min(int(np.searchsorted(total, share * total[-1])), masses.size - 1)


def _unit(points: Floats) -> float:
    """Return a power of two that brings the range of the points near 1, so that squares neither overflow nor underflow."""
    extent = float(points[-1] - points[0]) or 1.0
    return math.ldexp(1.0, -math.frexp(extent)[1])
