"""The optimiser against the paper's Algorithm 2 in exact arithmetic, on priors made to be hard on doubles."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from optimum_oracles import LOSSES, Case, exact_optimum, hard_case

from labeldp.binning import optimal_bins
from labeldp.losses import get_loss
from labeldp.prior import Prior

SEEDS = {loss: 1000 + number for number, loss in enumerate(LOSSES)}


def assert_optimal(case: Case, loss: str) -> None:
    """Within 1e-9 relative, or 1e-12 of the variance where the optimum is 0, and what rounding outputs to doubles costs.

    Moving an output by half a unit in the last place costs its second-order loss: near 1e9 and at ε = 20 that is more than
    1e-9 of the optimum, and no program whose outputs are doubles can do better.
    """
    best = exact_optimum(case.prior, case.epsilon, loss)
    found = optimal_bins(case.prior, case.epsilon, loss).expected_loss
    largest = case.prior.values[-1]
    rounding = float(get_loss(loss)(largest, np.nextafter(largest, np.inf)) / 2) if loss not in EXACT_OUTPUTS else 0.0
    if best == 0:
        assert found <= 1e-12 * case.prior.variance, str(case)
        return
    with mpmath.workprec(200):
        exact = mpmath.mpf(best.numerator) / best.denominator if isinstance(best, Fraction) else +best
        assert abs(mpmath.mpf(found) - exact) <= 1e-9 * exact + rounding, (str(case), found, float(exact))


EXACT_OUTPUTS = {"absolute", "pinball(0.3)"}  # their best outputs are labels


@pytest.mark.parametrize("block", range(5))
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
@pytest.mark.parametrize("epsilon", [1e-9, 0.7, 30.0, 40.0])
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
