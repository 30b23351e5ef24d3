"""Noisy counts travel with the prior that was made of them, and nothing else passes for them."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from labeldp import Domain, LabelRandomizer, Prior
from labeldp.errors import InvalidInput
from labeldp.mechanisms import Mechanism
from labeldp.priors import NoisyCounts, private_prior

COUNTS = NoisyCounts([60, -3, 44], scale=8.0, records=100)


@pytest.fixture(scope="module")
def description():
    """The JSON text of a mechanism whose prior carries 51 counts."""
    return LabelRandomizer(1, Domain(0, 100, 51), mechanism="auto").fit(np.arange(5000) % 101).to_json()


def test_moments_of_the_noise_are_those_of_integer_laplace_noise():
    for scale in (0.3, 2.0, 50.0):
        noise = np.arange(-4000, 4001)
        masses = np.exp(-np.abs(noise) / scale)
        masses /= masses.sum()
        variance = masses @ noise.astype(float) ** 2
        counts = NoisyCounts([0], scale, 1)
        assert counts.noise_variance == pytest.approx(variance)
        assert counts.noise_kurtosis == pytest.approx(masses @ noise.astype(float) ** 4 / variance**2 - 3)


def test_a_private_prior_carries_the_counts_that_it_was_made_of():
    labels = np.repeat(np.arange(10), 100)
    prior = private_prior(labels, Domain.integers(0, 9), epsilon=0.5)
    assert prior.counts is not None
    assert (prior.counts.scale, prior.counts.records) == (4.0, 1000)
    clipped = np.maximum(prior.counts.values, 0)
    np.testing.assert_allclose(prior.masses, clipped / clipped.sum())


@pytest.mark.parametrize("domain", [Domain(0, 100, 51), Domain.integers(0, 3000)], ids=["grid", "coarsened"])
@pytest.mark.parametrize("mechanism", ["auto", "rr-on-bins"])
def test_counts_survive_json_and_match_their_cost(mechanism, domain):
    labels = np.random.default_rng(0).integers(0, 100, 40_000)
    made = LabelRandomizer(1, domain, mechanism=mechanism).fit(labels)
    read = Mechanism.from_json(made.to_json())
    assert read.prior.counts is not None
    np.testing.assert_array_equal(read.prior.counts.values, made.prior.counts.values)
    assert read.prior.counts.records == 40_000
    assert read.prior.counts.epsilon_exact == read.prior.epsilon_exact > 0
    assert read.prior.counts.values.size == len(read.prior)


def test_counts_stand_near_the_true_ones():
    labels = np.random.default_rng(0).integers(0, 20, 40_000)
    counts = LabelRandomizer(1, Domain.integers(0, 20), mechanism="auto").fit(labels).prior.counts
    noise = counts.values - np.bincount(labels, minlength=21)
    assert np.abs(noise).max() < 20 * counts.scale
    assert noise.any()


def test_cells_that_would_not_be_those_of_the_codes_are_not_published():
    """Beyond 2,001 cells, labels are counted on a coarser grid, where rounding twice may differ from rounding once."""
    labels = np.random.default_rng(0).uniform(0, 100, 30_000)
    assert LabelRandomizer(1, Domain(0, 100, 3001), mechanism="auto").fit(labels).prior.counts is None


@pytest.mark.parametrize(
    "damage",
    [
        {"values": [1, 2]},
        {"values": [1.5] * 51},
        {"values": [True] * 51},
        {"values": [2**60] * 51},
        {"values": "no"},
        {"scale": 3.0},
        {"scale": "3"},
        {"scale": -3.0},
        {"scale": float("nan")},
        {"records": 1.5},
        {"records": -1},
        {"records": None},
    ],
    ids=lambda damage: f"{damage}"[:24],
)
def test_a_damaged_description_is_refused(description, damage):
    record = json.loads(description)
    record["prior"]["counts"] |= damage
    with pytest.raises(InvalidInput):
        Mechanism.from_json(json.dumps(record))


def test_counts_must_fit_the_prior():
    assert Prior([2, 1, 0], [1, 1, 1], Fraction(1, 4), COUNTS).counts.values.tolist() == [44, -3, 60]
    with pytest.raises(InvalidInput, match="one noisy count per value"):
        Prior([0, 1], [1, 1], Fraction(1, 4), COUNTS)
    with pytest.raises(InvalidInput, match="does not match the epsilon"):
        Prior([0, 1, 2], [1, 1, 1], Fraction(1, 2), COUNTS)


def test_a_mechanism_without_counts_is_the_same_mechanism(description):
    mechanism = Mechanism.from_json(description)
    bare = mechanism.without_counts()
    assert (bare, bare.digest, bare.prior) == (mechanism, mechanism.digest, mechanism.prior)
    assert bare.prior.counts is None
    assert mechanism.prior.counts is not None
    assert bare.without_counts() is bare


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-3, 0.0499, 1e17, 1e154, 1e300, 1.7e308, math.inf, math.nan])
def test_a_scale_that_no_noise_has_is_refused(scale):
    with pytest.raises(InvalidInput, match="scale of noisy counts"):
        NoisyCounts([1, 2], scale, 3)


@pytest.mark.parametrize("scale", [0.05, 2.0**55])
def test_moments_are_finite_for_every_scale_that_is_accepted(scale):
    counts = NoisyCounts([1, 2], scale, 3)
    assert all(map(math.isfinite, (counts.noise_variance, counts.noise_kurtosis, float(counts.epsilon_exact))))
