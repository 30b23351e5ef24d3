"""What is released is integers, and its means are the means asked for, or it is refused."""

from __future__ import annotations

import numpy as np
import pytest

from labeldp.budget import exact_epsilon
from labeldp.channels import Columns, least_variance, release_exactly
from labeldp.errors import InvalidInput

VALUES = np.array([0.0, 1.0, 5.0, 20.0])
MASSES = np.array([0.4, 0.3, 0.2, 0.1])


def test_outputs_are_solved_again_from_the_integers():
    designed = least_variance(VALUES, MASSES, 1.0)
    spoiled = Columns(designed.probabilities, designed.outputs + 1e-3)
    release = release_exactly(spoiled, 1, MASSES, VALUES)
    assert release.table.probabilities() @ release.outputs == pytest.approx(VALUES, abs=1e-12)
    assert release.worst_error < exact_epsilon(1) / 10**12


def test_a_table_without_a_solution_is_refused():
    flat = Columns(np.full((4, 3), 1 / 3), np.array([0.0, 5.0, 20.0]))
    with pytest.raises(InvalidInput, match="unbiased"):
        release_exactly(flat, 1, MASSES, VALUES)


def test_without_means_outputs_stay():
    flat = Columns(np.full((4, 3), 1 / 3), np.array([0.0, 5.0, 20.0]))
    assert release_exactly(flat, 1, MASSES).outputs.tolist() == [0.0, 5.0, 20.0]
