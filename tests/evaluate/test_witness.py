"""Bounds from counts: never above the truth too often, and close to it with many records."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from labeldp.evaluate.measurement import best_allocation, most_promising, ratio_bound, survey
from labeldp.sampling import ResponseTable


def test_the_survey_alone_finds_what_every_pair_shows():
    """Its bounds hold at once: on exact expectations they stay below the truth and approach it."""
    table = ResponseTable(3, 1)
    bounds = []
    for size in (10**3, 10**5, 10**7):
        counts = np.round(table.probabilities() * size).astype(np.int64)
        bounds.append(survey(counts, size, 0.05).bound)
    assert bounds == sorted(bounds)
    assert 0.99 < bounds[-1] < 1


def test_the_bound_of_the_trial_covers_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(7)
    means, rates = (300.0, 700.0), (0.3, 0.1)
    trials = 4000
    pairs = zip(*(generator.poisson(m * r, trials) for m, r in zip(means, rates, strict=True)), strict=True)
    misses = sum(ratio_bound((int(a), int(b)), means, 0.05) > np.log(3) for a, b in pairs)
    assert misses <= stats.binom.ppf(1 - 1e-6, trials, 0.05)
    assert misses >= stats.binom.ppf(1e-6, trials, 0.025)  # and it is not idle


def test_the_most_promising_witness_is_the_pair_and_the_outputs_of_the_largest_ratio():
    """Label 2 gives outputs 0 and 1 four times as often as label 0; no other pair differs as much."""
    probabilities = np.array([[0.1, 0.1, 0.4, 0.4], [0.2, 0.2, 0.3, 0.3], [0.4, 0.4, 0.1, 0.1]])
    size = 10**6
    found = most_promising((probabilities * size).astype(np.int64), size, size, 0.05)
    assert {found.high, found.low} == {0, 2}
    assert sorted(found.event) in ([0, 1], [2, 3])
    assert 0.95 * np.log(4) < found.bound < np.log(4)


def test_the_allocation_gives_the_rarer_event_more_records():
    """The variance of the logarithm of the ratio, 1/(m·p) + 1/(l·q), is least for its shares of all records."""
    means = best_allocation((0.4, 0.1), 900)
    assert sum(means) == pytest.approx(900)
    variance = [1 / (m * 0.4) + 1 / ((900 - m) * 0.1) for m in np.linspace(1, 899, 899)]
    assert means[0] == pytest.approx(np.linspace(1, 899, 899)[np.argmin(variance)], abs=1)
