"""Normal scores of labels, with and without atoms."""

import numpy as np
import pytest
from scipy.special import ndtri

from labeldp import Prior
from labeldp.mechanisms.bias_variance import NormalScores

PRIORS = {
    "many zeros": Prior(np.arange(21), np.r_[0.95, 0.04, 0.01, np.zeros(18)]),
    "fine grid with many zeros": Prior(
        np.linspace(0, 20, 801), np.where(np.arange(801) % 40, 0, 0.2 ** (np.arange(801) / 40))
    ),
    "flat": Prior(np.arange(100), np.ones(100)),
    "two": Prior([0, 1], [1, 3]),
    "atom at the top": Prior(np.arange(10), np.r_[np.ones(9), 50]),
}


@pytest.mark.parametrize("name", PRIORS)
def test_scores_have_mean_zero_and_variance_one_whatever_the_atoms(name):
    prior = PRIORS[name]
    scores = NormalScores.under(prior)
    assert prior.masses @ scores.scores == pytest.approx(0, abs=1e-4)
    assert prior.masses @ scores.squares == pytest.approx(1, abs=1e-3)
    assert (np.diff(scores.scores) >= 0).all()


@pytest.mark.parametrize("name", PRIORS)
def test_labels_at_normal_scores_have_the_distribution_of_the_prior(name):
    prior = PRIORS[name]
    labels = NormalScores.under(prior).labels_at(ndtri((np.arange(20_000) + 0.5) / 20_000))
    assert labels.mean() == pytest.approx(prior.mean, rel=0.02)
    assert np.mean(labels == prior.values[0]) == pytest.approx(prior.masses[0], abs=1e-3)
    assert np.mean(labels == prior.values[-1]) == pytest.approx(prior.masses[-1], abs=1e-3)
    assert (np.diff(labels) >= 0).all()


def test_a_single_label_is_itself_at_every_score():
    scores = NormalScores.under(Prior([7], [1]))
    assert scores.labels_at(np.array([-1.0, 2.0])).tolist() == [7, 7]
    assert scores.scores.tolist() == [0]
    assert scores.squares.tolist() == [1]
