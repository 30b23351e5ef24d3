"""Taking noise out again: projections, posteriors, and what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import Prior
from labeldp.errors import InvalidInput
from labeldp.mechanisms import RROnBins
from labeldp.mechanisms.decoding import posterior_means, refined_means
from labeldp.priors import project_counts
from labeldp.sampling import OsEntropy

PRIOR = Prior(np.arange(6.0), [5, 4, 3, 2, 1, 1])


@given(st.lists(st.integers(-50, 200), min_size=1, max_size=30), st.integers(1, 1000))
def test_projection_is_the_nearest_point_of_the_simplex(noisy, records):
    counts = np.array(noisy, float)
    nearest = project_counts(np.array(noisy), records) * records
    assert nearest.sum() == pytest.approx(records)
    assert nearest.min() >= 0
    # Optimality: moving mass from a held cell to any other cell does not bring it nearer.
    gradient = nearest - counts
    assert gradient[nearest > 1e-9].max() <= gradient.min() + 1e-6


def test_projection_leaves_true_counts_alone():
    assert project_counts(np.array([3, 0, 7]), 10) == pytest.approx([0.3, 0, 0.7])


@pytest.mark.parametrize("counts", [[-(2**50)] * 3, [2**62, -(2**62), 5], [0, 0]])
def test_projection_of_absurd_counts_is_still_a_distribution(counts):
    masses = project_counts(np.array(counts), 1)
    assert masses.sum() == pytest.approx(1)
    assert masses.min() >= 0


def test_projection_is_nearer_to_the_truth_than_clipping():
    random = np.random.default_rng(2)
    truth = random.multinomial(10_000, np.r_[np.full(5, 0.2), np.zeros(95)])
    noisy = truth + np.rint(random.laplace(0, 40, 100)).astype(int)
    clipped = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()
    assert np.abs(project_counts(noisy, 10_000) - truth / 1e4).sum() < np.abs(clipped - truth / 1e4).sum() / 2


def test_posterior_means_are_the_best_guesses_of_single_labels():
    mechanism = RROnBins.optimal(PRIOR, 1)
    guesses = posterior_means(mechanism)
    channel = mechanism.matrix(PRIOR.values)

    def error(values):
        return PRIOR.masses @ (channel * (values - PRIOR.values[:, None]) ** 2).sum(axis=1)

    assert error(guesses) == pytest.approx(error(mechanism.outputs), rel=1e-9)  # RR-on-Bins outputs are posterior means
    assert (PRIOR.masses @ channel) @ guesses == pytest.approx(PRIOR.mean)
    assert error(guesses) <= error(guesses + 0.01)


def test_refined_means_are_posterior_means_where_the_model_says_nothing_new():
    mechanism = RROnBins.optimal(PRIOR, 1.5)
    codes = mechanism.codes(np.repeat(PRIOR.values, 50), randomness=OsEntropy())
    refined = refined_means(mechanism, codes, np.full(codes.size, PRIOR.mean))
    assert refined == pytest.approx(posterior_means(mechanism)[codes], rel=1e-3)


def test_refined_means_follow_predictions_and_codes():
    mechanism = RROnBins([1.0, 4.0], 1, prior=PRIOR)
    low, high = np.zeros(3, np.uint32), np.ones(3, np.uint32)
    predictions = np.array([0.5, 2.0, 4.5])
    assert (np.diff(refined_means(mechanism, low, predictions)) > 0).all()
    assert (refined_means(mechanism, high, predictions) > refined_means(mechanism, low, predictions)).all()


def test_a_prior_is_needed():
    with pytest.raises(InvalidInput, match="prior"):
        posterior_means(RROnBins([1.0, 4.0], 1))
    with pytest.raises(InvalidInput, match="prior"):
        refined_means(RROnBins([1.0, 4.0], 1), np.zeros(1, np.uint32), np.zeros(1))
    with pytest.raises(InvalidInput, match="at least 1"):
        project_counts(np.array([1, 2]), 0)
