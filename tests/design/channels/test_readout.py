"""Values for codes: the criterion they minimise, and what the design itself would have chosen."""

import numpy as np
import pytest
from scipy.optimize import minimize

from labeldp import Prior
from labeldp.design.visibility import best_values, visible_bias_matrix
from labeldp.mechanisms import BiasVariance
from labeldp.mechanisms.decoding import learnable_values

VALUES = np.array([0.0, 1, 4, 10, 30])
MASSES = np.array([0.3, 0.3, 0.2, 0.15, 0.05])


def channel(seed, codes=4):
    rows = np.random.default_rng(seed).random((VALUES.size, codes)) + 0.1
    return rows / rows.sum(axis=1, keepdims=True)


def criterion(values, matrix, joint, tau, targets):
    means = matrix @ values
    bias = means - targets
    return bias @ joint @ bias + tau * (MASSES @ (matrix @ values**2) - means @ joint @ means)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tau", [1e-3, 0.1, 1.0])
def test_they_minimise_the_criterion(seed, tau):
    matrix, joint = channel(seed), visible_bias_matrix(MASSES, 0.7)
    found = best_values(matrix, joint, MASSES, tau, VALUES)
    searched = minimize(criterion, np.full(4, 8.0), (matrix, joint, tau, VALUES), tol=1e-12)
    assert criterion(found, matrix, joint, tau, VALUES) <= searched.fun + 1e-8
    np.testing.assert_allclose(found, searched.x, rtol=1e-3, atol=1e-3)


def test_a_constant_is_its_own_value_and_functions_are_solved_side_by_side():
    matrix, joint = channel(7), visible_bias_matrix(MASSES, 0.7)
    both = best_values(matrix, joint, MASSES, 0.01, np.stack([np.full(5, 1e9), VALUES], axis=1))
    np.testing.assert_allclose(both[:, 0], 1e9, rtol=1e-12)
    np.testing.assert_allclose(both[:, 1], best_values(matrix, joint, MASSES, 0.01, VALUES), rtol=1e-9)


def test_the_outputs_of_a_design_are_the_best_values_of_its_labels():
    prior, records = Prior(VALUES, MASSES), 3000
    mechanism = BiasVariance.optimal(prior, 1, 30 / records, visible=0.7)
    values = learnable_values(mechanism, lambda labels: labels, records)
    reached, asked = (
        criterion(v, mechanism.matrix(VALUES), visible_bias_matrix(MASSES, 0.7), 0.01, VALUES)
        for v in (values, mechanism.outputs)
    )
    assert reached == pytest.approx(asked, rel=1e-4)
