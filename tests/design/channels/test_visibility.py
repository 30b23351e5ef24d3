"""The part of a bias that reaches a model, between none of it and all of it."""

from __future__ import annotations

import numpy as np
import pytest

from criterion import visible_bias_and_variance
from labeldp import Prior
from labeldp.design.visibility import REVEALED_SHARE, visible_bias_factor, visible_bias_matrix
from labeldp.mechanisms import RROnBins
from labeldp.mechanisms.decoding import code_values

MASSES = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
PRIOR = Prior(np.array([0.0, 1.0, 2.0, 5.0, 20.0]), MASSES)


@pytest.mark.parametrize("visible", [0.1, 0.5, 0.9, 1.0])
def test_it_is_a_joint_distribution_of_two_labels(visible):
    joint = visible_bias_matrix(MASSES, visible)
    assert joint.min() >= 0
    assert joint.sum(axis=0) == pytest.approx(MASSES, rel=1e-5)
    assert np.linalg.eigvalsh(joint)[0] > 0
    factor = visible_bias_factor(MASSES, visible)
    assert factor.T @ factor == pytest.approx(joint, abs=1e-15)


def test_a_constant_bias_is_seen_whole_and_a_sawtooth_hardly():
    many = np.full(100, 0.01)
    joint = visible_bias_matrix(many, 0.5)
    ones, sawtooth = np.ones(100), (-1.0) ** np.arange(100)
    assert ones @ joint @ ones == pytest.approx(1)
    assert sawtooth @ joint @ sawtooth == pytest.approx(
        REVEALED_SHARE, abs=0.005
    )  # where features tell the label itself
    assert sawtooth @ visible_bias_matrix(many, 1.0) @ sawtooth == pytest.approx(1)


def test_more_informative_features_see_more():
    slope = np.linspace(-1, 1, 5)
    seen = [slope @ visible_bias_matrix(MASSES, v) @ slope for v in (0.1, 0.4, 0.7, 0.95, 1.0)]
    assert (np.diff(seen) > 0).all()


def test_bias_and_variance_agree_with_a_simulated_population():
    """Labels and features drawn from the copula: the formula's two parts are what averaging over equal features gives.

    For a share REVEALED_SHARE of the population the feature is the label.
    """
    random = np.random.default_rng(5)
    visible, people, each = 0.6, 4000, 60
    mechanism = RROnBins.optimal(PRIOR, 1)
    values = code_values(mechanism, "debiased")
    signal = random.standard_normal(people)
    score = np.sqrt(visible) * signal[:, None] + np.sqrt(1 - visible) * random.standard_normal((people, each))
    from scipy.special import ndtr

    symbol = np.searchsorted(np.cumsum(MASSES)[:-1], ndtr(score))
    channel = mechanism.matrix(PRIOR.values)
    bias = (channel @ values - PRIOR.values)[symbol]
    second = (channel @ values**2)[symbol].mean()
    # Products of two halves of each person's labels estimate the square of the person's mean without bias.
    halves = bias[:, : each // 2].mean(axis=1), bias[:, each // 2 :].mean(axis=1)
    means = (channel @ values)[symbol]
    squares = means[:, : each // 2].mean(axis=1) * means[:, each // 2 :].mean(axis=1)
    seen = (1 - REVEALED_SHARE) * (halves[0] * halves[1]).mean() + REVEALED_SHARE * (bias**2).mean()
    explained = (1 - REVEALED_SHARE) * squares.mean() + REVEALED_SHARE * (means**2).mean()
    squared_bias, variance = visible_bias_and_variance(mechanism, values, PRIOR, visible)
    assert squared_bias == pytest.approx(seen, abs=0.15)
    assert variance == pytest.approx(second - explained, rel=0.02)
