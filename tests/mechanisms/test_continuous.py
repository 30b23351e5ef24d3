"""Comparison-only float mechanisms: integrals against closed forms and sampling, and their refusal elsewhere."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from labeldp import Domain, Prior
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.mechanisms import ContinuousExponential, Laplace, Mechanism, Staircase, verify
from labeldp.mechanisms.continuous import noise_variance
from labeldp.sampling import KeyedRandomness, OsEntropy

DOMAIN = Domain(0, 10)
PRIOR = Prior([0, 1, 4, 9, 10], [3, 2, 1, 2, 1])
EVERY = [
    lambda epsilon: Laplace(DOMAIN, epsilon),
    lambda epsilon: Laplace(DOMAIN, epsilon, clip=False),
    lambda epsilon: Staircase(DOMAIN, epsilon),
    lambda epsilon: Staircase(DOMAIN, epsilon, gamma=0.3, clip=False),
    lambda epsilon: ContinuousExponential(DOMAIN, epsilon),
]


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3, 20])
def test_unclipped_laplace_has_its_textbook_variance(epsilon):
    scale = 10 / epsilon
    mechanism = Laplace(DOMAIN, epsilon, clip=False)
    assert mechanism.expected_loss(PRIOR) == pytest.approx(2 * scale**2, rel=1e-12)
    assert mechanism.expected_loss(PRIOR, "absolute") == pytest.approx(scale, rel=1e-12)
    assert np.abs(mechanism.bias(PRIOR.values)).max() < 1e-9 * scale


@pytest.mark.parametrize("epsilon", [0.1, 1, 6])
def test_clipped_laplace_agrees_with_its_closed_form(epsilon):
    b = 10 / epsilon

    def one_side(room):  # ∫₀^room z² e^(−z/b)/2b dz + room²·P[beyond]
        return b**2 - math.exp(-room / b) * (b**2 + room * b + room**2 / 2) + room**2 * math.exp(-room / b) / 2

    expected = sum(p * (one_side(y) + one_side(10 - y)) for y, p in zip(PRIOR.values, PRIOR.masses, strict=True))
    assert Laplace(DOMAIN, epsilon).expected_loss(PRIOR) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.2, 1, 5])
@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.9])
def test_unclipped_staircase_has_the_variance_of_its_series(epsilon, gamma):
    mechanism = Staircase(DOMAIN, epsilon, gamma=gamma, clip=False)
    assert mechanism.expected_loss(PRIOR) == pytest.approx(100 * noise_variance(gamma, epsilon), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.2, 1, 5])
def test_the_default_gamma_has_the_least_variance(epsilon):
    best = noise_variance(Staircase(DOMAIN, epsilon).gamma, epsilon)
    assert best <= min(noise_variance(g, epsilon) for g in np.linspace(0.001, 1, 2000)) * (1 + 1e-9)


def test_the_staircase_is_optimal_for_unbounded_noise():
    for epsilon in (0.5, 2, 6):
        ours = Staircase(DOMAIN, epsilon, clip=False).expected_loss(PRIOR)
        assert ours <= Laplace(DOMAIN, epsilon, clip=False).expected_loss(PRIOR)


def test_optimal_gamma_beats_the_default_after_clipping():
    for loss in ("squared", "absolute"):
        best = Staircase.optimal(PRIOR, 1.0, loss, domain=DOMAIN).expected_loss(PRIOR, loss)
        assert best <= Staircase(DOMAIN, 1.0).expected_loss(PRIOR, loss) * (1 + 1e-12)


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("epsilon", [0.3, 2])
def test_integrals_agree_with_samples(make, epsilon):
    mechanism = make(epsilon)
    n = 200_000
    for label in (0.0, 3.0, 10.0):
        drawn = mechanism.randomize(np.full(n, label), randomness=np.random.default_rng(7))
        mean, variance = (moment[0] for moment in mechanism.conditional_moments(np.array([label])))
        assert drawn.mean() == pytest.approx(mean, abs=6 * math.sqrt(variance / n))
        loss = mechanism.conditional_loss(np.array([label]), "huber(2.0)")[0]
        sampled = np.where(abs(drawn - label) <= 2, (drawn - label) ** 2 / 2, 2 * (abs(drawn - label) - 1))
        assert sampled.mean() == pytest.approx(loss, abs=6 * sampled.std() / math.sqrt(n))


@pytest.mark.parametrize("make", EVERY)
def test_densities_are_within_epsilon(make):
    epsilon = 1.3
    mechanism = make(epsilon)
    outputs = np.linspace(0.01, 9.99, 400)
    labels = np.linspace(0, 10, 21)
    density = mechanism._density(outputs[None, :] - labels[:, None])
    if isinstance(mechanism, ContinuousExponential):
        density /= np.array([1 - _outside(mechanism, label) for label in labels])[:, None]
    assert (density.max(axis=0) / density.min(axis=0)).max() <= math.exp(epsilon) * (1 + 1e-9)


def _outside(mechanism, label):
    return math.exp(-label / mechanism.scale) / 2 + math.exp(-(10 - label) / mechanism.scale) / 2


@pytest.mark.parametrize("make", EVERY)
def test_they_survive_json_and_refuse_to_be_released(make):
    mechanism = make(0.7)
    assert Mechanism.from_json(mechanism.to_json()) == mechanism
    assert not mechanism.exact
    assert "comparison only" in mechanism._repr_html_()
    with pytest.raises(PrivacyRefused):
        verify(mechanism)
    with pytest.raises(InvalidInput, match="comparison"):
        mechanism.randomize([1.0], randomness=OsEntropy())
    with pytest.raises(InvalidInput, match="comparison"):
        mechanism.randomize([1.0], ids=[1], randomness=KeyedRandomness.generate())


@pytest.mark.parametrize("epsilon", [1, "1_0", "-1", "1/0", "1e300000"])
def test_an_epsilon_that_was_not_written_by_us_is_refused(epsilon):
    record = json.loads(Laplace(DOMAIN, 0.7).to_json())
    with pytest.raises(InvalidInput, match="written as a plain decimal"):
        Mechanism.from_json(json.dumps(record | {"epsilon": epsilon}))


def test_losses_of_positive_outputs_are_infinite_without_clipping_below():
    assert math.isinf(Laplace(Domain(1, 10), 1, clip=False).expected_loss(Prior([1, 10], [1, 1]), "poisson"))
    assert math.isfinite(Laplace(Domain(1, 10), 1).expected_loss(Prior([1, 10], [1, 1]), "poisson"))


@pytest.mark.parametrize("gamma", [0, -1, 1.5, math.nan])
def test_gamma_outside_its_range_is_refused(gamma):
    with pytest.raises(InvalidInput, match="gamma"):
        Staircase(DOMAIN, 1, gamma=gamma)
