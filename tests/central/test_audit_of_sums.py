"""The statistical audit of noisy sums at ε = 1: it finds no excess, and one of 5 % that is planted.

The labels that are compared are neighbours at their worst: one record's label at one end of the range or at the other.
Alarms about the real noise have a probability below 10⁻⁹. Planted noise follows from a seed, so each run is the same.
"""

from __future__ import annotations

from secrets import randbelow

import numpy as np
import pytest

from labeldp import Domain, measure
from labeldp.central import asking
from labeldp.central.queries import SumQueries
from labeldp.sampling.integer_noise import coordinates, geometric, radius

SURE = 1 - 1e-9
TOP = 3
RANGE = Domain.integers(0, TOP)
COLUMNS = 2


def cell_sums(labels):
    """One release of many cells: in each, the record that is compared and one that is not. All draws are independent."""
    others = np.ones(labels.size)
    queries = SumQueries(np.append(labels, others), 1, RANGE)
    codes = np.tile(np.arange(labels.size), 2)
    return queries.over_cells(codes, labels.size, 1).values


class SeededNoise:
    """Noise of the same laws from a seed, with a scale that is too small by a factor."""

    def __init__(self, factor, seed=0):
        self.factor, self.generator = factor, np.random.default_rng(seed)

    def add_laplace(self, values, scale):
        stop = -np.expm1(-1 / (self.factor * scale))
        up, down = (self.generator.geometric(stop, values.size) for _ in range(2))
        return values + up - down

    def cubes(self, draws, count, scale):
        """As many draws of cube noise, from the law of the radius."""
        reach = np.arange(int(60 * scale * (count + 1)))
        weights = (2 * reach + 1.0) ** count * np.exp(-reach / (self.factor * scale))
        found = self.generator.choice(reach, draws, p=weights / weights.sum())[:, None]
        return self.generator.integers(-found, found + 1, (draws, count))

    def cube_noise(self, count, scale):
        return self.cubes(1, count, scale)[0]


@pytest.mark.parametrize("samples", [150_000, pytest.param(3_000_000, marks=pytest.mark.slow)])
def test_sums_over_cells_show_no_excess(samples):
    found = measure(cell_sums, [0, TOP], epsilon=1, samples=samples, confidence=SURE)
    assert not found.refuted
    assert found.epsilon_lower > 0.8  # the audit looks where it should


@pytest.mark.parametrize(("factor", "refuted"), [(1, False), (0.95, True)])
def test_sums_over_cells_with_too_little_noise_are_found(factor, refuted, monkeypatch):
    monkeypatch.setattr(asking, "add_laplace", SeededNoise(factor).add_laplace)
    found = measure(cell_sums, [0, TOP], epsilon=1, samples=2_000_000, confidence=1 - 1e-6, seed=1)
    assert found.refuted == refuted


def likelihood(values, width):
    """The logarithm of the ratio of a release's probabilities under both neighbours, times the scale: all there is to know."""
    return np.abs(values).max(axis=-1) - np.abs(values - width).max(axis=-1)


def test_cube_noise_shows_no_excess():
    """Both sums move by the whole range, from 0 to `width`."""
    width, numbers = 6, geometric(6.0, 4096)

    def draws(labels):
        drawn = []
        while len(drawn) < labels.size:
            found = radius(COLUMNS, numbers, randbelow)
            if found is not None:
                drawn.append(coordinates(COLUMNS, found, randbelow))
        return likelihood(np.array(drawn) + labels[:, None].astype(int), width)

    found = measure(draws, [0, width], epsilon=1, samples=25_000, confidence=SURE)
    assert not found.refuted
    assert found.epsilon_lower > 0.5


@pytest.mark.parametrize(("factor", "refuted"), [(1, False), (0.95, True)])
def test_too_little_cube_noise_is_found(factor, refuted):
    width, noise = 6, SeededNoise(factor)

    def draws(labels):
        return likelihood(noise.cubes(labels.size, COLUMNS, width) + labels[:, None].astype(int), width)

    found = measure(draws, [0, width], epsilon=1, samples=2_000_000, confidence=1 - 1e-6, seed=1)
    assert found.refuted == refuted


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "refuted"), [(1, False), (0.95, True)])
def test_a_chain_of_questions_that_depend_on_answers_costs_no_more_than_epsilon(factor, refuted, monkeypatch):
    """A histogram chooses the clip, and the clip decides on the noise of what follows. Each draw is a release of its own."""
    noise = SeededNoise(factor)
    monkeypatch.setattr(asking, "add_laplace", noise.add_laplace)
    monkeypatch.setattr(asking, "cube_noise", noise.cube_noise)
    low, high = np.array([0, 1, 2]), np.array([TOP, 1, 2])
    signs = np.array([[1, 1], [-1, 1], [1, -1]], np.int8)

    def exact(labels, answer):
        clipped = np.clip(labels, *answer.clip)
        if answer.kind == "histogram":
            return np.bincount(labels * 2 // (TOP + 1), minlength=2)
        return np.array([clipped.sum()]) - 3 * answer.clip[0] if answer.kind == "cells" else signed(clipped, answer)

    def signed(clipped, answer):
        return answer.grain * (clipped - sum(answer.clip) // 2) @ signs.astype(int)

    def release(label):
        queries = SumQueries(np.array([label, 1, 2]), 1, RANGE)
        counts = queries.histogram(2, "0.4").values
        queries.clip(0, TOP if counts[1] > counts[0] else TOP - 1)
        queries.over_cells([0, 0, 0], 1, "0.3")
        queries.against_signs(signs, queries.remaining)
        total = 0.0
        for answer in queries.answers:
            distances = [answer.values - exact(labels, answer) for labels in (low, high)]
            sizes = [np.abs(d).max() if answer.kind == "signs" else np.abs(d).sum() for d in distances]
            total += (sizes[0] - sizes[1]) / answer.scale
        return round(total, 3)

    def draws(labels):
        return np.array([release(label) for label in labels.astype(int)])

    found = measure(draws, [0, TOP], epsilon=1, samples=150_000, confidence=0.99, seed=1)
    assert found.refuted == refuted
    assert found.epsilon_lower > 0.85
