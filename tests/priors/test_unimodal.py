"""The prior that assumes one mode: noise in empty cells does not look like a tail, and clear counts are kept."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, isotonic_regression, minimize

from criterion import visible_bias_and_variance
from labeldp import Domain, Prior
from labeldp.mechanisms.auto import choose
from labeldp.priors import project_counts, unimodal_masses
from labeldp.priors.private_histogram import _fit

VISITS = np.round(16_000 * 0.25 * 0.75 ** np.arange(78)).astype(int)
"""Most people see a doctor a few times a year, and bounds that are safe leave two thirds of the cells empty."""


def with_noise(counts, scale, seed):
    return counts + np.rint(np.random.default_rng(seed).laplace(0, scale, counts.size)).astype(int)


@given(st.lists(st.integers(-300, 3000), min_size=1, max_size=60), st.integers(1, 5000), st.floats(0.5, 500))
def test_masses_are_masses(noisy, records, scale):
    masses = unimodal_masses(np.array(noisy), records, scale)
    assert masses.shape == (len(noisy),)
    assert masses.min() >= 0
    assert masses.sum() == pytest.approx(1)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80), st.data())
def test_a_fit_is_the_isotonic_regression_of_scipy_on_both_sides(values, data):
    counts = np.array(values)
    mode = data.draw(st.integers(0, counts.size - 1))
    sides = [isotonic_regression(counts[: mode + 1]).x]
    if mode + 1 < counts.size:
        sides.append(isotonic_regression(counts[mode + 1 :], increasing=False).x)
    assert _fit(counts, mode) == pytest.approx(np.concatenate(sides), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("mode", [0, 2, 4])
def test_a_fit_is_the_nearest_curve_with_that_mode(mode):
    counts = np.array([3.0, 9, 1, 7, 2])
    # An independent oracle: the quadratic program with one inequality for each pair of neighbours.
    steps = np.diff(np.eye(5), axis=0)
    steps[mode:] *= -1
    rows = np.delete(steps, mode, axis=0) if mode < 4 else steps  # the step after the mode may go either way
    found = minimize(
        lambda x: np.sum((x - counts) ** 2), counts, method="SLSQP", constraints=LinearConstraint(rows, 0, np.inf)
    )
    assert _fit(counts, mode) == pytest.approx(found.x, abs=1e-4)


def test_counts_of_that_shape_are_left_alone():
    counts = np.array([5, 1, 2, 8, 9, 4, 4, 0, 30])
    assert unimodal_masses(counts, counts.sum(), 0.01) == pytest.approx(counts / counts.sum(), abs=2e-4)


def test_noise_in_empty_cells_is_no_tail():
    tails = [
        [f[40:].sum() for f in (unimodal_masses(z, VISITS.sum(), 100), project_counts(z, VISITS.sum()))]
        for z in (with_noise(VISITS, 100, seed) for seed in range(20))
    ]
    ours, projected = np.mean(tails, axis=0)
    assert ours < projected / 4


def test_a_spike_within_is_kept_and_one_at_the_end_too():
    counts = VISITS.copy()
    counts[52], counts[-1] = 3000, 2000
    masses = unimodal_masses(with_noise(counts, 50, 1), counts.sum(), 50) * counts.sum()
    assert masses[[52, 77]] == pytest.approx([3000, 2000], abs=500)
    assert masses[53:77].sum() < 500


def test_with_hardly_any_records_the_mode_is_left_open():
    # One curve would put nearly everything into the cells where noise happened to be high.
    masses = [unimodal_masses(with_noise(np.full(60, 2), 100, seed), 120, 100) for seed in range(10)]
    assert np.mean([np.count_nonzero(m > 0.001) for m in masses]) > 15


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_mechanisms_designed_from_it_train_better_models_on_heavy_tails(epsilon):
    domain, records = Domain.integers(0, 77), int(VISITS.sum())
    truth = Prior(domain.grid, VISITS)

    def excess(masses):
        mechanism = choose(Prior(domain.grid, masses), epsilon, records, domain=domain).mechanism
        squared_bias, variance = visible_bias_and_variance(mechanism, mechanism.outputs, truth, 0.7)
        return squared_bias + 30 / records * variance

    noisy = [with_noise(VISITS, 50 / epsilon, seed) for seed in range(8)]
    ours = np.mean([excess(unimodal_masses(z, records, 50 / epsilon)) for z in noisy])
    assert ours < np.mean([excess(project_counts(z, records)) for z in noisy]) / 1.5


def test_many_cells_take_no_gigabytes():
    counts = np.zeros(300_000, int)
    counts[:1000] = 10_000 // np.arange(1, 1001)
    noisy = with_noise(counts, 10, 0)
    tracemalloc.start()
    masses = unimodal_masses(noisy, counts.sum(), 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert masses[:1000].sum() > 0.5
    assert peak < 100e6


@pytest.mark.parametrize("end", [0, -1])
def test_labels_beside_a_large_atom_at_a_bound_are_near_it(end):
    """95 % zeros, and amounts around 5 % of the range: each cell has fewer of them than noise."""
    generator, cells, records, scale = np.random.default_rng(0), 800, 20_000, 25.0
    places = np.rint(np.clip(30 * np.exp(generator.normal(size=1000)), 1, cells - 1)).astype(int)
    exact = np.bincount(places, minlength=cells)
    exact[0] = records - places.size
    means = []
    for _ in range(20):
        noisy = exact + np.rint(generator.laplace(0, scale, cells))
        masses = unimodal_masses(noisy if end == 0 else noisy[::-1], records, scale)
        means.append((masses if end == 0 else masses[::-1]) @ np.arange(cells))
    truth = exact @ np.arange(cells) / records
    assert np.mean(means) < 3 * truth
