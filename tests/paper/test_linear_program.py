"""The optimiser against a linear program that knows nothing of bins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from labeldp.design.bins import optimal_bins
from labeldp.losses import loss_examples
from labeldp.paper.optimality import best_matrix, signature
from labeldp.priors import Prior

LOSSES = loss_examples()
NON_CONVEX = {
    "root": lambda output, label: np.sqrt(np.abs(output - label)),
    "capped": lambda output, label: np.minimum((output - label) ** 2, 9.0),
    "tolerant": lambda output, label: np.where(np.abs(output - label) <= 1.5, 0.0, 1.0),
    "lopsided": lambda output, label: np.where(output < label, np.log1p(label - output), (output - label) ** 0.3),
}


def random_prior(rng, k):
    return Prior(np.cumsum(rng.random(k) * 3 + 0.1), rng.random(k) + 0.01)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_mechanism_on_the_outputs_and_others_beats_the_optimum(loss):
    rng = np.random.default_rng(11)
    for _ in range(12):
        prior = random_prior(rng, int(rng.integers(2, 10)))
        epsilon = round(float(10 ** rng.uniform(-2, math.log10(12))), 6)
        bins = optimal_bins(prior, epsilon, loss)
        others = rng.uniform(prior.values[0], prior.values[-1], size=6)
        best = best_matrix(prior, np.union1d(bins.outputs, others), epsilon, loss)
        assert bins.expected_loss == pytest.approx(best.expected_loss, rel=1e-7)


@pytest.mark.parametrize("name", [*LOSSES, *NON_CONVEX])
def test_the_best_choice_among_given_outputs_equals_the_program_on_them(name):
    loss = NON_CONVEX.get(name, name)
    rng = np.random.default_rng(12)
    for _ in range(12):
        prior = random_prior(rng, int(rng.integers(2, 10)))
        epsilon = round(float(10 ** rng.uniform(-2, math.log10(12))), 6)
        outputs = np.sort(rng.uniform(prior.values[0] / 2, prior.values[-1] + 1, size=9))
        bins = optimal_bins(prior, epsilon, loss, outputs=outputs)
        best = best_matrix(prior, outputs, epsilon, loss)
        assert np.isin(bins.outputs, outputs).all()
        assert bins.expected_loss == pytest.approx(best.expected_loss, rel=1e-7)


def test_the_programs_matrix_is_private_and_has_the_signature_of_randomized_response_on_bins():
    prior, outputs = Prior([0, 1, 2, 5, 9], [3, 1, 4, 1, 5]), np.arange(0, 9.5, 0.5)
    best = best_matrix(prior, outputs, 1.2, "squared")
    np.testing.assert_allclose(best.matrix.sum(axis=1), 1)
    assert (best.matrix.max(axis=0) <= math.exp(1.2) * best.matrix.min(axis=0) + 1e-9).all()
    found = signature(best.matrix, 1.2, tolerance=1e-7)
    assert found.is_rr_on_bins, found.explain()
    bins = optimal_bins(prior, 1.2, "squared", outputs=outputs)
    np.testing.assert_array_equal(outputs[found.bins], bins.outputs[bins.encode(prior.values)])
