"""The cone program against linear programs over all patterns."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from labeldp.design import cone_program
from labeldp.design.cone_program import DualSolution, unbiased_channel, unbiased_channel_on_outputs
from labeldp.errors import LabelDPError
from labeldp.losses import get_loss


def second_moment(channel, masses):
    """Return E[ŷ²]."""
    return float(masses @ channel.probabilities @ channel.outputs**2)


def a_problem(seed, size):
    random = np.random.default_rng(seed)
    values = np.sort(random.choice(40, size, replace=False)).astype(float)
    masses = random.dirichlet(np.full(size, 0.7)) + 0.01
    return values, masses / masses.sum()


@pytest.mark.parametrize("epsilon", [0.2, 1, 3, 6])
@pytest.mark.parametrize(("seed", "size"), [(0, 3), (1, 4), (2, 5), (3, 6), (4, 16)])
def test_the_optimum_equals_the_direct_linear_program(seed, size, epsilon):
    values, masses = a_problem(seed, size)
    ours = unbiased_channel(values, masses, epsilon)
    span = values[-1] - values[0]
    reach = 3 * span / np.expm1(epsilon)
    grid = np.linspace(values[0] - reach, values[-1] + reach, 120)
    direct = unbiased_channel_on_outputs(values, masses, epsilon, get_loss("squared"), np.union1d(grid, ours.outputs))
    truth = masses @ values**2
    # The linear program may use any pattern, and our outputs are among its own: it can only tie.
    assert second_moment(ours, masses) - truth == pytest.approx(second_moment(direct, masses) - truth, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2, 7])
def test_the_channel_is_a_private_unbiased_channel(epsilon):
    values, masses = a_problem(11, 25)
    channel = unbiased_channel(values, masses, epsilon)
    matrix = channel.probabilities
    assert matrix.sum(axis=1) == pytest.approx(np.ones(25), abs=1e-12)
    assert matrix @ channel.outputs == pytest.approx(values, abs=1e-6)
    assert (matrix.max(axis=0) <= matrix.min(axis=0) * np.exp(epsilon) * (1 + 1e-12)).all()


def test_reversed_labels_are_the_mirrored_problem():
    values, masses = a_problem(3, 12)
    there = unbiased_channel(values, masses, 1.5)
    back = unbiased_channel(-values[::-1], masses[::-1], 1.5)
    assert second_moment(there, masses) == pytest.approx(second_moment(back, masses[::-1]), rel=1e-7)


def test_patterns_that_the_program_has_are_not_added_again(monkeypatch):
    values, masses = a_problem(0, 6)
    solved, undisturbed = [], cone_program._solve
    monkeypatch.setattr(
        cone_program, "_solve", lambda *given, **terms: solved.append(1) or undisturbed(*given, **terms)
    )
    monkeypatch.setattr(DualSolution, "improving_patterns", lambda _: cone_program._intervals(6)[:, 3:7])
    unbiased_channel(values, masses, 1.0)
    assert len(solved) == 1


def test_a_design_that_the_solver_ends_early_keeps_its_best_proof(monkeypatch):
    values, masses = a_problem(0, 6)
    proofs, undisturbed = [], cone_program._solve

    def worse_each_time(*given, **terms):
        if len(proofs) == 3:
            raise LabelDPError("the solver fails")
        channel, dual, value = undisturbed(*given, **terms)
        proofs.append(replace(dual, row_prices=dual.row_prices - len(proofs)))
        return channel, proofs[-1], value

    some = np.array([[1, 0, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0]], bool).T
    monkeypatch.setattr(cone_program, "_solve", worse_each_time)
    monkeypatch.setattr(DualSolution, "improving_patterns", lambda _: some[:, len(proofs) - 1 :][:, :1])
    channel = unbiased_channel(values, masses, 1.0)
    bounds = [dual.lower_bound() for dual in proofs]
    assert len(bounds) == 3
    assert channel.dual.lower_bound() == max(bounds) > bounds[-1]


def test_rounds_that_gain_nothing_end_the_search(monkeypatch):
    """Intervals are optimal here, so that other patterns, however many are named, gain nothing."""
    values, masses = a_problem(0, 6)
    every = np.array(list(product([False, True], repeat=6)))[1:].T
    others = cone_program._without(every, cone_program._intervals(6))
    solved, undisturbed = [], cone_program._solve

    def counted(*given, **terms):
        solved.append(undisturbed(*given, **terms))
        return solved[-1]

    monkeypatch.setattr(cone_program, "_solve", counted)
    monkeypatch.setattr(DualSolution, "improving_patterns", lambda _: others[:, len(solved) - 1 :][:, :1])
    channel = unbiased_channel(values, masses, 1.0)
    assert 1 + cone_program._IDLE_ROUNDS <= len(solved) <= 10 < others.shape[1]
    assert second_moment(channel, masses) == pytest.approx(second_moment(solved[0][0], masses), rel=1e-6)
