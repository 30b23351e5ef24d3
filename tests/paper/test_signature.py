"""Signature matrices: the paper's example, each condition broken in turn, and the optimiser's own mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labeldp.design.bins import optimal_bins
from labeldp.errors import InvalidInput
from labeldp.paper.optimality import signature
from labeldp.priors import Prior

LOG2 = math.log(2)


def test_the_papers_example():
    """With e^ε = 2 (the figure's caption says 1/2)."""
    third = 1 / 3
    matrix = [[0, 0.5, 0.25, 0.25]] * 2 + [[0, 0.25, 0.25, 0.5]] + [[0, third, third, third]] * 2
    found = signature(matrix, LOG2)
    assert repr(found) == "0 U L L\n0 U L L\n0 L L U\n0 S S S\n0 S S S".replace("U L L", "U S L").replace(
        "L L U", "L S U"
    )
    assert not found.is_rr_on_bins
    with pytest.raises(InvalidInput, match="not randomized response on bins"):
        _ = found.bins


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_randomized_response_on_bins_meets_the_conditions(epsilon):
    prior = Prior([0, 1, 2, 5, 9, 10], [3, 1, 4, 1, 5, 9])
    bins = optimal_bins(prior, epsilon)
    matrix = np.ones((6, len(bins)))
    matrix[np.arange(6), bins.encode(prior.values)] = math.exp(epsilon)
    found = signature(matrix / (math.exp(epsilon) + len(bins) - 1), epsilon)
    assert found.is_rr_on_bins, found.explain()
    assert found.bins.tolist() == bins.encode(prior.values).tolist()
    assert "so: randomized response on bins" in found.explain()


def test_one_output_for_everybody_is_the_first_condition():
    found = signature([[0, 1], [0, 1]], 1)
    assert found.conditions == {"1": True, "2a": False, "2b": False, "2c": False}
    assert found.bins.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("rows", "broken"),
    [
        ([[2, 1, 1], [1, 2, 1], [1, 1, 2], [1.5, 1.25, 1.25]], {"2a", "2b", "2c"}),
        ([[1, 2], [2, 1]], {"2c"}),
        ([[2, 2], [1, 1]], {"2b", "2c"}),
    ],
)
def test_each_condition_can_fail(rows, broken):
    conditions = signature(np.array(rows) / 10, LOG2).conditions
    assert {name for name in ("2a", "2b", "2c") if not conditions[name]} == broken


def test_a_matrix_that_is_not_private_or_no_matrix_is_refused():
    with pytest.raises(InvalidInput, match="column 0 breaks ε"):
        signature([[0.9, 0.1], [0.4, 0.6]], LOG2)
    with pytest.raises(InvalidInput, match="row of probabilities"):
        signature([[-1, 2]], 1)
