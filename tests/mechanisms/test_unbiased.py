"""The unbiased mechanism: exact means, exact ε, and a loss that nothing unbiased beats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labeldp import Domain, Prior
from labeldp.errors import InvalidInput
from labeldp.mechanisms import Laplace, Mechanism
from labeldp.mechanisms.bias_variance import Unbiased
from labeldp.paper.data import criteo_prior
from labeldp.sampling import OsEntropy, ResponseTable

CRITEO = Domain.integers(0, 400)


def debiased_response_variance(prior, epsilon):
    """The variance of randomized response on all values with outputs that make it unbiased, by its formula."""
    size, ratio = prior.values.size, np.exp(epsilon)
    keep, other = ratio / (ratio + size - 1), 1 / (ratio + size - 1)
    values = prior.values - prior.mean  # which does not change the variance, and squares of large numbers would lose it
    outputs = (values - other * values.sum()) / (keep - other)
    second = (keep - other) * outputs**2 + other * (outputs @ outputs)
    return float(prior.masses @ (second - values**2))


def exact_means(mechanism):
    """E[ŷ | symbol] in fractions, from the integers that are sampled."""
    total = 1 << mechanism.table.scale_bits
    outputs = [Fraction(float(o)) for o in mechanism.outputs]
    rows = mechanism.table.weights()
    return [sum(w * o for w, o in zip(row, outputs, strict=True)) / total for row in rows]


@pytest.mark.parametrize("epsilon", [0.5, 2, 8, 20])
def test_every_cell_is_unbiased_in_exact_arithmetic_and_epsilon_is_proven(epsilon):
    domain = Domain.integers(0, 52)
    prior = Prior(np.arange(53.0), np.r_[40, np.ones(51), 90])
    mechanism = Unbiased.optimal(prior, epsilon, domain=domain, anchors=12)
    worst = max(abs(mean - label) for mean, label in zip(exact_means(mechanism), range(53), strict=True))
    assert worst < Fraction(52, 10**9)
    assert mechanism.proof().holds


@given(
    st.lists(st.floats(0.01, 1), min_size=2, max_size=9),
    st.floats(0.05, 10),
    st.floats(-1000, 1000),
    st.integers(0, 1000),
)
@example(masses=[1.0, 1.0], epsilon=9.0, start=297.0, seed=56)
def test_random_priors_give_unbiased_private_mechanisms_no_worse_than_randomized_response(masses, epsilon, start, seed):
    gaps = np.random.default_rng(seed).uniform(0.1, 10, len(masses))
    prior = Prior(start + np.cumsum(gaps), masses)
    mechanism = Unbiased.optimal(prior, epsilon)
    span = prior.values[-1] - prior.values[0]
    assert np.abs(mechanism.bias(prior.values)).max() < 1e-9 * span
    assert mechanism.expected_loss(prior) <= debiased_response_variance(prior, epsilon) * (1 + 1e-9)
    assert mechanism.proof().holds


@pytest.mark.parametrize("epsilon", [0.5, 2, 8])
def test_the_criteo_prior_costs_less_than_laplace_and_randomized_response(epsilon):
    prior = criteo_prior()
    mechanism = Unbiased.optimal(prior, epsilon, domain=CRITEO)
    variance = mechanism.expected_loss(prior)
    assert np.abs(mechanism.bias(CRITEO.grid)).max() < 1e-9 * 400
    assert variance < Laplace(CRITEO, epsilon, clip=False).expected_loss(prior)
    assert variance <= debiased_response_variance(prior, epsilon) * (1 + 1e-9)


def test_a_large_epsilon_keeps_every_label_apart():
    mechanism = Unbiased.optimal(criteo_prior(), 40, domain=CRITEO)
    assert isinstance(mechanism.table, ResponseTable)
    assert mechanism.expected_loss(criteo_prior()) < 1e-9


def test_two_labels_are_warners_response_with_debiased_outputs():
    mechanism = Unbiased.optimal(Prior([0, 1], [1, 1]), 1)
    ratio = np.e
    assert mechanism.outputs == pytest.approx([-1 / (ratio - 1), ratio / (ratio - 1)], rel=1e-6)


def test_labels_without_mass_are_unbiased_too():
    prior = Prior(np.arange(11.0), np.r_[1, np.zeros(9), 1])
    mechanism = Unbiased.optimal(prior, 1.5, domain=Domain.integers(0, 10))
    assert np.abs(mechanism.bias(np.arange(11.0))).max() < 1e-8


def test_other_losses_are_minimised_by_the_linear_program():
    prior = Prior(np.arange(6.0), [5, 1, 1, 1, 1, 2])
    absolute = Unbiased.optimal(prior, 2, "absolute")
    squared = Unbiased.optimal(prior, 2)
    assert np.abs(absolute.bias(prior.values)).max() < 5e-9
    assert absolute.expected_loss(prior, "absolute") <= squared.expected_loss(prior, "absolute") * 1.01
    assert squared.expected_loss(prior) <= absolute.expected_loss(prior) * (1 + 1e-6)


def test_losses_for_positive_outputs_are_refused():
    with pytest.raises(InvalidInput, match="squared"):
        Unbiased.optimal(Prior([1, 2], [1, 1]), 1, "poisson")


def test_sampled_means_are_the_labels():
    mechanism = Unbiased.optimal(criteo_prior(), 4, domain=CRITEO)
    for label in (0.0, 37.0, 400.0):
        private = mechanism.randomize(np.full(200_000, label), randomness=OsEntropy())
        error = private.std() / np.sqrt(private.size)
        assert abs(private.mean() - label) < 7 * error  # 3e-12 by chance


@pytest.mark.parametrize("anchors", [5, 53])
def test_the_description_is_complete(anchors):
    prior = Prior(np.arange(53.0), np.r_[40, np.ones(51), 90])
    mechanism = Unbiased.optimal(prior, 2, domain=Domain.integers(0, 52), anchors=anchors)
    again = Mechanism.from_json(mechanism.to_json())
    assert again == mechanism
    assert type(again) is Unbiased
    assert again.outputs.tolist() == mechanism.outputs.tolist()


def test_one_label_is_released_as_it_is():
    mechanism = Unbiased.optimal(Prior([7.0], [1.0]), 1)
    assert mechanism.outputs.tolist() == [7.0]


@pytest.mark.parametrize("epsilon", [1e-6, 0.001])
@pytest.mark.parametrize("cells", [2, 3, 6])
def test_tiny_budgets_are_no_harder_to_design_for(cells, epsilon):
    domain = Domain(-3, 17, cells)
    for seed in range(2):
        prior = Prior(domain.grid, np.random.default_rng(seed).random(cells) ** 3)
        mechanism = Unbiased.optimal(prior, epsilon, domain=domain)
        assert np.abs(mechanism.bias(domain.grid)).max() < 1e-9 * 20
