"""Nobody does better: neither random bins nor random private matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from optimum_oracles import LOSSES

from labeldp.design.bins import optimal_bins
from labeldp.losses import get_loss
from labeldp.priors import Prior


def random_setting(rng):
    k = int(rng.integers(1, 30))
    prior = Prior(np.cumsum(rng.random(k) * 3 + 0.1), rng.random(k) ** 3 + 1e-6)
    return prior, round(float(10 ** rng.uniform(-2, 1)), 6)


def expected(prior, matrix, outputs, loss):
    return float(np.einsum("i,ij,ij->", prior.masses, matrix, get_loss(loss)(outputs[None, :], prior.values[:, None])))


def response(prior, outputs, owner, epsilon):
    """The matrix of randomized response on bins, label i kept at output owner[i]."""
    e = math.exp(epsilon)
    matrix = np.ones((prior.values.size, outputs.size))
    matrix[np.arange(prior.values.size), owner] = e
    return matrix / (e + outputs.size - 1)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_reported_loss_is_that_of_the_mechanism(loss):
    rng = np.random.default_rng(1)
    for _ in range(20):
        prior, epsilon = random_setting(rng)
        bins = optimal_bins(prior, epsilon, loss)
        matrix = response(prior, bins.outputs, bins.encode(prior.values), epsilon)
        assert bins.expected_loss == pytest.approx(expected(prior, matrix, bins.outputs, loss), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_is_never_worse_than_random_response_on_bins(loss):
    rng = np.random.default_rng(2)
    for _ in range(20):
        prior, epsilon = random_setting(rng)
        best = optimal_bins(prior, epsilon, loss).expected_loss
        for _ in range(30):
            d = int(rng.integers(1, prior.values.size + 1))
            outputs = np.sort(rng.uniform(prior.values[0], prior.values[-1] + 1e-9, size=d))
            owner = np.sort(rng.integers(0, d, size=prior.values.size))
            assert best <= expected(prior, response(prior, outputs, owner, epsilon), outputs, loss) * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_is_never_worse_than_a_random_private_matrix(loss):
    """Rows drawn in the band [t, e^ε·t] of random column levels t, then repaired to sum to one inside the band."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        prior, epsilon = random_setting(rng)
        e, best = math.exp(epsilon), optimal_bins(prior, epsilon, loss).expected_loss
        for _ in range(20):
            m = int(rng.integers(1, 12))
            outputs = np.sort(rng.uniform(prior.values[0], prior.values[-1] + 1e-9, size=m))
            level = rng.dirichlet(np.ones(m)) * rng.uniform(1 / e, 1)
            lean = rng.random((prior.values.size, m)) * np.exp(
                -rng.random() * get_loss(loss)(outputs[None, :], prior.values[:, None])
            )
            room = (e - 1) * level  # how far each entry may rise above its column's level
            rise = np.minimum(room, lean * room)
            left = 1 - level.sum()
            low = rise.sum(axis=1, keepdims=True)
            # Between the drawn rise and none, or between it and the whole room, lies a row that sums to one.
            matrix = level + np.where(
                low >= left,
                rise * (left / np.maximum(low, 1e-300)),
                rise + (room - rise) * ((left - low) / np.maximum(room.sum() - low, 1e-300)),
            )
            assert (matrix.max(axis=0) <= e * matrix.min(axis=0) * (1 + 1e-9)).all()
            np.testing.assert_allclose(matrix.sum(axis=1), 1)
            assert best <= expected(prior, matrix, outputs, loss) * (1 + 1e-9)
