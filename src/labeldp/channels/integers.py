"""From a designed channel to what is released: an exact integer table, and outputs solved once more from it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from labeldp.arrays import Floats
from labeldp.budget import Epsilon
from labeldp.channels.program import Columns
from labeldp.errors import InvalidInput
from labeldp.sampling import WeightTable

MOST_BIAS = Fraction(1, 10**9)
"""Of the range of the labels: a mean that misses its target by more is refused."""


@dataclass(frozen=True, eq=False)
class ExactRelease:
    """An integer table over the anchors, exactly ε-DP, and the outputs whose means under it are the means asked for."""

    table: WeightTable
    outputs: Floats
    worst_error: Fraction


def release_exactly(columns: Columns, epsilon: Epsilon, masses: Floats, means: Floats | None = None) -> ExactRelease:
    """Integers for the channel, and outputs with E[output | anchor i] = `means[i]` under those very integers.

    Rounding to integers moves probabilities, so the outputs are solved again: of all solutions the one that moves the
    outputs least, in the mean square under the prior. The error that remains is measured in rational arithmetic and
    refused above 1e-9 of the range. Without `means` the outputs stay as they are.
    """
    table = WeightTable.from_probabilities(columns.probabilities, epsilon)
    outputs = columns.outputs.copy()
    if means is None:
        return ExactRelease(table, outputs, Fraction(0))
    probabilities = table.probabilities()
    root = np.sqrt(np.maximum(masses @ probabilities, 1e-15))
    error = _errors(table, outputs, means)
    for _ in range(4):
        missing = np.array([float(e) for e in error])
        step = np.linalg.lstsq(probabilities / root, missing, rcond=1e-14)[0] / root
        better = outputs + step
        found = _errors(table, better, means)
        if max(map(abs, found)) >= max(map(abs, error)):
            break
        outputs, error = better, found
    worst = max(map(abs, error))
    span = Fraction(float(means[-1])) - Fraction(float(means[0]))
    if worst > MOST_BIAS * span:
        raise InvalidInput(
            f"no outputs make this table unbiased: {float(worst):.3g} remains at epsilon = {epsilon}. "
            "Use fewer anchors or a larger epsilon."
        )
    return ExactRelease(table, outputs, worst)


def _errors(table: WeightTable, outputs: Floats, means: Floats) -> list[Fraction]:
    """Means asked for, less the means of the outputs under the integer table, exactly."""
    # One common power of two makes every output an integer, so that a row costs integer products only.
    pairs = [float(value).as_integer_ratio() for value in outputs]
    denominator = max(d for _, d in pairs)
    scaled = [n * (denominator // d) for n, d in pairs]
    return [
        Fraction(float(mean)) - Fraction(sum(w * v for w, v in zip(row, scaled, strict=True)), denominator << 64)
        for mean, row in zip(means, table.weights(), strict=True)
    ]
