"""Optimal over all ε-DP channels: the dual bound closes, and it is a bound."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from labeldp.design.anchors import Anchors
from labeldp.design.cone_program import Channel, _intervals, _solve, bias_variance_channel, unbiased_channel
from labeldp.design.visibility import copula_factor, visible_bias_matrix
from labeldp.paper.data import criteo_prior

PRIOR = criteo_prior()


def second_moment(channel, masses):
    """Return E[ŷ²]."""
    return float(masses @ channel.probabilities @ channel.outputs**2)


def criterion(masses, values, tau, visible):
    """Of `BiasVariance`: visible bias² + τ·variance, over τ, in the form that the program takes."""
    joint = visible_bias_matrix(masses, visible)
    return {"weight": 1.0, "curvature": 2 * (1 / tau - 1) * joint, "slope": -2 * joint @ values}


def value(channel, values, masses, weight, curvature, slope):
    bias = channel.probabilities @ channel.outputs - values
    return weight * second_moment(channel, masses) + bias @ curvature @ bias / 2 + slope @ bias


def a_prior(seed, size):
    random = np.random.default_rng(seed)
    masses = random.dirichlet(np.full(size, 0.6)) + 1e-4
    return np.cumsum(random.integers(1, 9, size)).astype(float), masses / masses.sum()


@pytest.mark.parametrize("epsilon", [0.5, 2, 8])
def test_the_unbiased_design_for_criteo_is_proven_optimal(epsilon):
    anchors = Anchors.choose(PRIOR.values, PRIOR.masses, 57)
    masses = anchors.masses(PRIOR.masses)
    channel = unbiased_channel(anchors.values, masses, epsilon)
    variance = second_moment(channel, masses) - masses @ anchors.values**2
    assert channel.dual.lower_bound() == pytest.approx(second_moment(channel, masses), abs=1e-5 * variance)


@pytest.mark.parametrize(("visible", "epsilon"), [(0.3, 4), (0.7, 1), (1, 0.3)])
@pytest.mark.parametrize(("seed", "tau"), [(0, 0.5), (1, 0.01), (2, 0.0001)])
def test_the_design_for_models_is_proven_optimal(visible, epsilon, seed, tau):
    values, masses = a_prior(seed, 24)
    values -= values[0]
    terms = criterion(masses, values, tau, visible)
    channel = bias_variance_channel(values, masses, epsilon, **terms)
    ours, bound = value(channel, values, masses, **terms), channel.dual.lower_bound()
    assert bound <= ours + 1e-7 * abs(ours)
    assert bound == pytest.approx(ours, rel=1e-6)


@pytest.mark.parametrize("visible", [0.5, 1])
@pytest.mark.parametrize("seed", range(4))
def test_with_every_pattern_from_the_start_it_comes_out_the_same(seed, visible):
    values, masses = a_prior(seed, 7)
    terms = criterion(masses, values, 0.02, visible)
    every = np.array(list(product([False, True], repeat=7)))[1:].T
    whole, _, _ = _solve(values, masses, 1.0, every, **terms)
    generated = bias_variance_channel(values, masses, 1.0, **terms)
    assert value(generated, values, masses, **terms) == pytest.approx(value(whole, values, masses, **terms), rel=1e-6)


def test_intervals_alone_are_not_always_enough():
    anchors = Anchors.choose(PRIOR.values, PRIOR.masses, 33)
    masses = np.maximum(anchors.masses(PRIOR.masses), 1e-9)
    tau, factor = 30 / 400_000, copula_factor(masses / masses.sum(), 0.7)  # features that never tell the label itself
    joint = factor.T @ factor
    terms = {"weight": 1.0, "curvature": 2 * (1 / tau - 1) * joint, "slope": -2 * joint @ anchors.values}
    intervals, dual, _ = _solve(anchors.values, masses, 0.5, _intervals(33), **terms)
    ours = bias_variance_channel(anchors.values, masses, 0.5, **terms)
    gained = value(intervals, anchors.values, masses, **terms) - value(ours, anchors.values, masses, **terms)
    assert gained > 1e-4 * abs(value(ours, anchors.values, masses, **terms))
    assert dual.improving_patterns().size > 0
    assert ours.dual.improving_patterns().size == 0


def test_no_channel_is_below_the_bound():
    """Random channels, each with the outputs that are best for it: the criterion is quadratic in them."""
    values, masses = a_prior(5, 6)
    values -= values[0]
    terms = criterion(masses, values, 0.1, 0.7)
    curvature, slope = terms["curvature"], terms["slope"]
    bound = bias_variance_channel(values, masses, 1.0, **terms).dual.lower_bound()
    random, reached = np.random.default_rng(0), []
    for _ in range(3000):
        patterns = np.where(random.random((6, 6)) < 0.5, np.e, 1.0)
        scales = np.linalg.lstsq(patterns, np.ones(6), rcond=None)[0]
        scales[np.abs(scales) < 1e-9] = 0  # zeros that rounding makes small and of either sign: columns not used
        if scales.min() < 0 or not np.allclose(patterns @ scales, 1):
            continue
        channel = (patterns * scales)[:, scales > 0]
        # Where the gradient 2·diag(p'M)·o + M'(H(Mo − y) + g) is zero.
        hessian = 2 * np.diag(masses @ channel) + channel.T @ curvature @ channel
        outputs = np.linalg.solve(hessian, channel.T @ (curvature @ values - slope))
        reached.append(value(Channel(channel, outputs), values, masses, **terms))
    assert len(reached) > 20
    assert min(reached) > bound
    assert min(reached) == pytest.approx(bound, rel=1e-3)  # a bound that is a little too high would not pass


@pytest.mark.parametrize("epsilon", [0.5, 1, 4])
def test_the_bound_closes_where_many_labels_are_rare(epsilon):
    """The bound of a biased design stands still for some rounds and rises after all."""
    values = np.arange(21.0)
    masses = np.array([3.0**k / math.factorial(k) for k in range(21)])
    masses /= masses.sum()
    terms = {"weight": 1.0, "curvature": 198 * np.diag(masses), "slope": -2 * masses * values}
    channel = bias_variance_channel(values, masses, epsilon, **terms)
    assert channel.dual.lower_bound() == pytest.approx(value(channel, values, masses, **terms), rel=1e-5)
