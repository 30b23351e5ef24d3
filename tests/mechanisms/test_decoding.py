"""Decoders against their definitions, in exact arithmetic where there is one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import Domain, Prior
from labeldp.errors import InvalidInput
from labeldp.mechanisms import DiscreteLaplace, RROnBins, Unbiased, code_values
from labeldp.mechanisms.decoding import training_decoder

SKEWED = Prior([0, 1, 2, 5, 20, 100], [8, 4, 4, 2, 1, 1])
EPSILONS = st.sampled_from(["0.3", "1", "3", "8"])


def bins_of(mechanism, prior):
    """The bin of each value by the paper's definition: the nearest output, the lower one at a tie."""
    return [int(np.argmin([abs(output - value) for output in mechanism.outputs])) for value in prior.values]


@given(masses=st.lists(st.integers(1, 50), min_size=6, max_size=6), epsilon=EPSILONS)
def test_debiased_values_have_the_right_mean_for_every_label(masses, epsilon):
    prior = Prior(SKEWED.values, masses)
    mechanism = RROnBins.optimal(prior, epsilon)
    values = [Fraction(value) for value in code_values(mechanism, "debiased").tolist()]
    bins, weights = bins_of(mechanism, prior), mechanism.table.weights()
    for here in set(bins):
        inside = [i for i, each in enumerate(bins) if each == here]
        mass = sum(Fraction(masses[i]) for i in inside)
        mean = sum(Fraction(masses[i]) * Fraction(prior.values[i]) for i in inside) / mass
        found = sum(weight * value for weight, value in zip(weights[here], values, strict=True)) / 2**64
        assert abs(found - mean) < Fraction(1, 10**9) * 100


def test_a_mechanism_with_noise_is_debiased_by_solving_its_equations():
    mechanism = DiscreteLaplace(Domain.integers(0, 6), 2)
    values = code_values(mechanism, "debiased")
    np.testing.assert_allclose(mechanism.matrix(np.arange(7.0)) @ values, np.arange(7.0), atol=1e-9)


@given(masses=st.lists(st.integers(1, 50), min_size=6, max_size=6), epsilon=EPSILONS)
def test_positive_values_are_debiased_ones_drawn_towards_the_mean_no_further_than_needed(masses, epsilon):
    prior = Prior(SKEWED.values, masses)
    mechanism = RROnBins.optimal(prior, epsilon)
    plain, positive = code_values(mechanism, "debiased"), code_values(mechanism, "positive")
    floor = prior.mean / 100
    assert positive.min() >= floor * (1 - 1e-9)
    if plain.min() >= floor:
        np.testing.assert_array_equal(positive, plain)
        return
    # one factor for all, and the lowest value touches the floor
    factors = (positive - prior.mean) / (plain - prior.mean)
    np.testing.assert_allclose(factors, factors[0], rtol=1e-9)
    assert 0 < factors[0] < 1
    assert positive.min() == pytest.approx(floor)
    chances = prior.masses @ mechanism.matrix(prior.values)
    assert chances @ positive == pytest.approx(prior.mean)


def test_positive_values_are_for_labels_that_are_not_negative():
    with pytest.raises(InvalidInput, match="not negative"):
        code_values(RROnBins([-1, 1], 1, prior=Prior([-1, 1], [1, 1])), "positive")


@pytest.mark.parametrize(
    ("mechanism", "decoder"),
    [
        (RROnBins.optimal(SKEWED, 1), "debiased"),
        (RROnBins.optimal(SKEWED, 1, "poisson"), "debiased"),
        (RROnBins.optimal(SKEWED, 1, "absolute"), "bins"),
        (Unbiased.optimal(SKEWED, 1), "bins"),
        (DiscreteLaplace(Domain.integers(0, 6), 1), "bins"),
    ],
)
def test_auto_debiases_bins_for_losses_of_the_mean_and_leaves_others_alone(mechanism, decoder):
    assert training_decoder(mechanism) == decoder
    np.testing.assert_array_equal(code_values(mechanism, "auto"), code_values(mechanism, decoder))
    np.testing.assert_array_equal(code_values(mechanism), code_values(mechanism, "auto"))


def test_an_unknown_decoder_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="auto, bins, debiased, positive"):
        code_values(RROnBins([1, 2], 1), "mean")
