"""A channel in integers has the means asked for, or it is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from labeldp.design.anchors import integer_channel
from labeldp.design.cone_program import Channel, unbiased_channel
from labeldp.errors import InvalidInput

VALUES = np.array([0.0, 1.0, 5.0, 20.0])
MASSES = np.array([0.4, 0.3, 0.2, 0.1])


def test_outputs_are_solved_again_from_the_integers():
    designed = unbiased_channel(VALUES, MASSES, 1.0)
    spoiled = Channel(designed.probabilities, designed.outputs + 1e-3)
    table, outputs = integer_channel(spoiled, 1, MASSES, VALUES)
    means = [
        sum(Fraction(weight, 1 << 64) * Fraction(output) for weight, output in zip(row, outputs, strict=True))
        for row in table.weights()
    ]
    errors = [abs(mean - Fraction(value)) for mean, value in zip(means, VALUES, strict=True)]
    assert max(errors) < Fraction(1, 10**12)


def test_a_table_without_a_solution_is_refused():
    flat = Channel(np.full((4, 3), 1 / 3), np.array([0.0, 5.0, 20.0]))
    with pytest.raises(InvalidInput, match="unbiased"):
        integer_channel(flat, 1, MASSES, VALUES)


def test_without_means_outputs_stay():
    flat = Channel(np.full((4, 3), 1 / 3), np.array([0.0, 5.0, 20.0]))
    assert integer_channel(flat, 1, MASSES)[1].tolist() == [0.0, 5.0, 20.0]
