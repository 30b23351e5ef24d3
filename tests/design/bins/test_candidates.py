"""Losses without structure, against every subset of a few outputs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from labeldp.design.bins import optimal_bins
from labeldp.errors import InvalidInput
from labeldp.priors import Prior

CALLABLES = [
    lambda output, label: np.sqrt(np.abs(output - label)),
    lambda output, label: np.minimum((output - label) ** 2, 4.0),
    lambda output, label: np.where(np.abs(output - label) <= 1.0, 0.0, 1.0),
    lambda output, label: np.abs(output - label) ** 3,
    lambda output, label: np.where(output < label, np.log1p(label - output), 2 * np.log1p((output - label) ** 2)),
]


def by_all_subsets(prior, outputs, epsilon, loss):
    e = math.exp(epsilon)
    with np.errstate(invalid="ignore"):  # both branches of a `where` are computed everywhere
        losses = loss(outputs[:, None], prior.values[None, :])
    best = math.inf
    for size in range(1, outputs.size + 1):
        for subset in itertools.combinations(range(outputs.size), size):
            part = losses[list(subset)]
            cost = (part @ prior.masses).sum() + (e - 1) * (part.min(axis=0) @ prior.masses)
            best = min(best, cost / (e + size - 1))
    return best


@pytest.mark.parametrize("number", range(len(CALLABLES)))
def test_it_finds_the_best_subset_of_the_outputs(number):
    rng = np.random.default_rng(number)
    for _ in range(10):
        k = int(rng.integers(1, 12))
        prior = Prior(np.cumsum(rng.random(k) * 2 + 0.05), rng.random(k) + 0.01)
        outputs = np.sort(rng.uniform(prior.values[0] - 1, prior.values[-1] + 1, size=int(rng.integers(1, 9))))
        epsilon = round(float(10 ** rng.uniform(-2, 1.2)), 5)
        bins = optimal_bins(prior, epsilon, CALLABLES[number], outputs=outputs)
        assert bins.expected_loss == pytest.approx(
            by_all_subsets(prior, outputs, epsilon, CALLABLES[number]), rel=1e-11
        )


def test_without_outputs_it_chooses_from_labels_and_a_grid_and_comes_close_to_the_named_loss():
    rng = np.random.default_rng(5)
    prior = Prior(np.cumsum(rng.random(30)), rng.random(30))
    named = optimal_bins(prior, 1.5, "squared").expected_loss
    found = optimal_bins(prior, 1.5, lambda output, label: (output - label) ** 2).expected_loss
    assert named <= found <= named * (1 + 1e-5)


def test_a_function_of_plain_numbers_is_as_good_as_one_of_arrays():
    prior = Prior([0, 1, 3, 7], [1, 2, 3, 4])
    plain = optimal_bins(
        prior, 1, lambda output, label: abs(output - label) if output > label else 2 * abs(output - label)
    )
    arrays = optimal_bins(prior, 1, lambda output, label: np.where(output > label, 1, 2) * np.abs(output - label))
    assert plain.outputs.tolist() == arrays.outputs.tolist()


def test_a_loss_that_breaks_assumption_1_is_refused_with_the_violating_pair():
    with pytest.raises(
        InvalidInput, match=r"falls as output and label move apart: it is .* at output .* but .* at output"
    ):
        optimal_bins(Prior([0, 1, 2], [1, 1, 1]), 1, lambda output, label: np.sin(np.abs(output - label) * 1.2))


def test_more_losses_than_fit_a_table_are_refused_and_the_labels_alone_are_thinned_out():
    prior = Prior(np.arange(30_000.0), np.ones(30_000))
    with pytest.raises(InvalidInput, match="30000 labels × 700 candidate outputs"):
        optimal_bins(prior, 1, "squared", outputs=np.arange(700.0))
    assert len(optimal_bins(prior, 1, lambda output, label: np.abs(output - label))) > 1
