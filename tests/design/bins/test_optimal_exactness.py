"""The optimiser against the paper's Algorithm 2 in exact arithmetic, on priors made to be hard on doubles."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from optimum_oracles import LOSSES, PRECISION, Case, exact_optimum, hard_case, number, rounded_optimum

from labeldp.design.bins import optimal_bins
from labeldp.priors import Prior

NOTHING = mpmath.mpf(2) ** -1500  # what cancels exactly leaves less than this in the oracle's numbers
SUBNORMAL = mpmath.mpf(2) ** -1070  # a few units in the last place of the smallest doubles
SEEDS = {loss: 1000 + number for number, loss in enumerate(LOSSES)}


def assert_optimal(case: Case, loss: str) -> None:
    """Within 1e-9 relative, or 1e-12 of the variance where the optimum is 0.

    Where that fails, rounding the exact optimum's own outputs to doubles must be to blame: near 1e9 and at ε = 20 it costs
    more than 1e-9, and no program whose outputs are doubles can do better.
    """
    with mpmath.workprec(PRECISION):
        best = exact_optimum(case.prior, case.epsilon, loss)
        found = mpmath.mpf(optimal_bins(case.prior, case.epsilon, loss).expected_loss)
        optimum = number(best.expected_loss)
        optimum = optimum if optimum > NOTHING else mpmath.mpf(0)
        slack = 1e-9 * optimum + SUBNORMAL if optimum > 0 else 1e-12 * mpmath.mpf(case.prior.variance)
        assert found >= optimum - slack, (str(case), float(found), float(optimum))
        if found > optimum + slack:
            rounded = rounded_optimum(case.prior, case.epsilon, loss, best)
            assert found <= optimum + 4 * (rounded - optimum), (str(case), float(found), float(optimum), float(rounded))


@pytest.mark.parametrize("block", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loss", LOSSES)
def test_it_equals_algorithm_2_on_hard_priors(loss, block):
    rng = np.random.default_rng([SEEDS[loss], block])
    for _ in range(50):
        assert_optimal(hard_case(rng, loss, max_size=8), loss)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("loss", LOSSES)
def test_it_equals_algorithm_2_on_a_thousand_hard_priors_of_up_to_twelve_labels(loss, block):
    rng = np.random.default_rng([SEEDS[loss], 100 + block])
    for _ in range(100):
        assert_optimal(hard_case(rng, loss, max_size=12), loss)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [1e-9, 0.7, 40.0])
def test_it_holds_at_the_ends_of_the_range_of_epsilon(loss, epsilon):
    rng = np.random.default_rng(7)
    for _ in range(5):
        values = np.cumsum(rng.random(6)) + 1
        assert_optimal(Case(Prior(values, rng.random(6)), epsilon), loss)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_far_label_of_negligible_mass_does_not_blur_the_others(loss):
    """The case that defeats plain prefix sums: everything that matters happens beside a huge number."""
    assert_optimal(Case(Prior([1.0, 2.0, 4.0, 1e9], [0.5, 0.3, 0.2, 1e-60]), 5.0), loss)
    assert_optimal(Case(Prior([1.0, 1e9, 1e9 + 1, 1e9 + 3], [1e-60, 0.5, 0.3, 0.2]), 5.0), loss)
