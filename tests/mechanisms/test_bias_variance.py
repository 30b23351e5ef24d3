"""The dial between bias and variance: its two ends are known mechanisms, and the middle beats both."""

from __future__ import annotations

import numpy as np
import pytest

from criterion import visible_bias_and_variance
from labeldp import Domain, Prior
from labeldp.errors import InvalidInput
from labeldp.mechanisms import Mechanism, RROnBins
from labeldp.mechanisms.bias_variance import BiasVariance, Unbiased
from labeldp.mechanisms.decoding import code_values
from labeldp.paper.data import criteo_prior

WEEKS = Prior(np.arange(53.0), np.r_[60, 1 + np.arange(51) % 4, 90])


def objective(mechanism, prior, tau):
    bias, variance = mechanism.bias(prior.values), mechanism.variance(prior.values)
    return float(prior.masses @ (bias**2 + tau * variance))


def seen_objective(mechanism, prior):
    squared_bias, variance = visible_bias_and_variance(mechanism, mechanism.outputs, prior, mechanism.visible)
    return squared_bias + mechanism.tau * variance


@pytest.mark.parametrize("epsilon", [4, pytest.param(0.5, marks=pytest.mark.slow)])
def test_tau_one_is_rr_on_bins_and_the_program_agrees_just_below(epsilon):
    bins = RROnBins.optimal(WEEKS, epsilon)
    assert np.array_equal(BiasVariance.optimal(WEEKS, epsilon, 1).outputs, bins.outputs)
    near = BiasVariance.optimal(WEEKS, epsilon, 1 - 1e-6, anchors=53)
    assert near.expected_loss(WEEKS) == pytest.approx(bins.expected_loss(WEEKS), rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.5, 4])
def test_a_tiny_tau_is_the_unbiased_mechanism(epsilon):
    tau = 1e-6
    dial = BiasVariance.optimal(WEEKS, epsilon, tau, anchors=53)
    unbiased = Unbiased.optimal(WEEKS, epsilon, anchors=53)
    assert objective(dial, WEEKS, tau) == pytest.approx(objective(unbiased, WEEKS, tau), rel=0.01)


@pytest.mark.parametrize(("epsilon", "tau"), [(0.5, 0.05), (2, 0.4), (5, 0.003)])
def test_between_the_ends_nothing_known_is_better(epsilon, tau):
    prior = criteo_prior()
    dial = BiasVariance.optimal(prior, epsilon, tau, domain=Domain.integers(0, 400))
    assert dial.proof().holds
    assert seen_objective(dial, prior) == pytest.approx(objective(dial, prior, tau))
    for other in (
        RROnBins.optimal(prior, epsilon),
        Unbiased.optimal(prior, epsilon, domain=Domain.integers(0, 400)),
        BiasVariance.optimal(prior, epsilon, tau * 2, domain=Domain.integers(0, 400)),
        BiasVariance.optimal(prior, epsilon, tau / 2, domain=Domain.integers(0, 400)),
    ):
        assert seen_objective(dial, prior) <= objective(other, prior, tau) * (1 + 1e-6)


def test_labels_far_from_zero_are_the_same_problem():
    far_away = Prior(WEEKS.values + 1e6, WEEKS.masses)
    near = BiasVariance.optimal(WEEKS, 1, 0.05, visible=0.8)
    far = BiasVariance.optimal(far_away, 1, 0.05, visible=0.8)
    assert far.outputs - 1e6 == pytest.approx(near.outputs, abs=1e-3)
    assert seen_objective(far, far_away) == pytest.approx(seen_objective(near, WEEKS), rel=1e-6)


def test_the_description_is_complete():
    mechanism = BiasVariance.optimal(WEEKS, 2, 0.01, visible=0.6)
    again = Mechanism.from_json(mechanism.to_json())
    assert again == mechanism
    assert (again.tau, again.visible) == (0.01, 0.6)


@pytest.mark.parametrize(("epsilon", "visible"), [(0.5, 0.7), (3, 0.95), (8, 0.3)])
def test_bias_that_features_cannot_see_is_free(epsilon, visible):
    tau = 1e-3
    seeing_less = BiasVariance.optimal(WEEKS, epsilon, tau, visible=visible)
    pointwise = BiasVariance.optimal(WEEKS, epsilon, tau)
    unbiased = Unbiased.optimal(WEEKS, epsilon)
    bins = RROnBins.optimal(WEEKS, epsilon)
    assert seeing_less.proof().holds
    assert seeing_less.outputs.size <= 2 * 53
    best = seen_objective(seeing_less, WEEKS)
    for other, values in (
        (pointwise, pointwise.outputs),
        (unbiased, unbiased.outputs),
        (bins, bins.outputs),
        (bins, code_values(bins, "debiased")),
    ):
        squared_bias, variance = visible_bias_and_variance(other, values, WEEKS, visible)
        assert best <= (squared_bias + tau * variance) * (1 + 1e-4)


@pytest.mark.parametrize("visible", [0, 1.2, float("nan")])
def test_visible_outside_its_range_is_refused(visible):
    with pytest.raises(InvalidInput, match="visible"):
        BiasVariance.optimal(WEEKS, 1, 0.1, visible=visible)


@pytest.mark.parametrize("tau", [0, -1, 1.5, float("nan")])
def test_tau_outside_its_range_is_refused(tau):
    with pytest.raises(InvalidInput, match="tau"):
        BiasVariance.optimal(WEEKS, 1, tau)
