"""The theorem under the search: the constrained cost is Monge, and the search finds what a plain dynamic program finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from optimum_oracles import LOSSES
from scipy.optimize import minimize_scalar

from labeldp.design._problem import interval_problem
from labeldp.design._search import follow
from labeldp.design.bins import optimal_bins
from labeldp.losses import get_loss
from labeldp.priors import Prior

STRUCTURED = [name for name in LOSSES if get_loss(name).structure is not None]


def random_prior(rng, k):
    return Prior(np.cumsum(rng.random(k) ** rng.integers(1, 4) * 3) + 0.1, rng.random(k) ** rng.integers(1, 9) + 1e-12)


def all_costs(problem):
    costs = np.full((problem.n + 1, problem.n + 1), np.inf)
    for r in range(problem.n):
        for i in range(r + 1, problem.n + 1):
            costs[r, i] = follow(problem.tables, np.array([r, i]))[0]
    return costs


@pytest.mark.parametrize("loss", STRUCTURED)
def test_a_cost_is_the_least_weighted_loss_over_the_outputs_between_the_neighbours_of_the_bin(loss):
    """The oracle minimises numerically over log ŷ, where every named loss has a single minimum."""
    prior, rule, epsilon = random_prior(np.random.default_rng(22), 6), get_loss(loss), 3.0
    problem = interval_problem(prior.values, prior.masses, math.expm1(epsilon), rule.structure)
    ends = np.pad(np.log1p(prior.values), 1, mode="edge")  # an unconstrained optimum lies within the labels too
    costs = all_costs(problem) * problem.cost_unit
    for r, i in zip(*np.triu_indices(7, 1), strict=True):
        weights = prior.masses * np.where((np.arange(6) >= r) & (np.arange(6) < i), math.exp(epsilon), 1.0)
        bounds = (ends[r], ends[i + 1])
        found = minimize_scalar(
            lambda x, w=weights: w @ rule(np.expm1(x), prior.values), bounds=bounds, options={"xatol": 1e-13}
        )
        kinks = np.expm1(ends[r : i + 2])  # the labels there, where a search by values alone is least accurate
        at_kinks = (rule(kinks[:, None], prior.values) @ weights).min()
        assert costs[r, i] == pytest.approx(min(found.fun, at_kinks), rel=1e-7)


@pytest.mark.parametrize("loss", STRUCTURED)
def test_the_constrained_cost_is_monge_and_the_search_equals_a_quadratic_program(loss):
    rng = np.random.default_rng(20)
    for _ in range(4):
        prior = random_prior(rng, int(rng.integers(20, 50)))
        epsilon = float(10 ** rng.uniform(-2, 1.5))
        problem = interval_problem(prior.values, prior.masses, math.expm1(epsilon), get_loss(loss).structure)
        costs, k = all_costs(problem), problem.n
        for a in range(k - 1):  # neighbours suffice: the general inequality is a sum of these
            c = np.arange(a + 2, k)
            gain = costs[a, c] + costs[a + 1, c + 1] - costs[a, c + 1] - costs[a + 1, c]
            assert (gain <= 1e-12 * costs[a, c + 1]).all()
        best, total = math.inf, np.where(np.arange(k + 1) == 0, 0.0, np.inf)
        for d in range(1, k + 1):
            total = (total[:, None] + costs).min(axis=0)
            best = min(best, total[k] / (math.exp(epsilon) + d - 1))
        found = optimal_bins(prior, epsilon, loss).expected_loss
        assert found == pytest.approx(best * problem.cost_unit, rel=1e-11)


def test_the_unconstrained_cost_is_not_monge():
    """Why the constraint is there: labels 0, 1, 2 under the pull of a heavy 3, squared loss, e^ε = 3."""
    labels, masses = np.arange(4.0), np.array([1.0, 1.0, 1.0, 8.0])

    def cost(first, last):
        weights = np.where((labels >= first) & (labels <= last), 3.0, 1.0) * masses
        return weights @ (labels - weights @ labels / weights.sum()) ** 2

    assert cost(0, 1) + cost(1, 2) > cost(0, 2) + cost(1, 1) + 0.08


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_starting_from_a_sample_of_the_nodes_does_not_change_the_answer(loss):
    rng = np.random.default_rng(21)
    k, epsilon = 12_000, 3.0
    prior = Prior(np.cumsum(rng.random(k)), rng.random(k) ** 4)
    problem = interval_problem(prior.values, prior.masses, math.expm1(epsilon), get_loss(loss).structure)
    path, ratio = problem.first_path, math.inf
    while (new := problem.cost(path) / (math.exp(epsilon) + problem.bins(path) - 1)) < ratio:
        ratio, path = new, problem.best_path(new)
    assert optimal_bins(prior, epsilon, loss).expected_loss == pytest.approx(ratio * problem.cost_unit, rel=1e-12)
