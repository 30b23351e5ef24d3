"""The mechanism half of the paper's evaluation, from the calibrated distribution of Criteo labels."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from labeldp.paper.data import published_criteo
from labeldp.paper.experiments import Reproduction, get_task
from labeldp.paper.experiments.tasks import PAPER_EPSILONS, get_method

TASK = get_task("criteo")
METHODS_SHOWN = tuple(name for name in TASK.methods if not get_method(name).ours)


@pytest.fixture(scope="module")
def exact():
    work = Reproduction.load(replace(TASK, methods=METHODS_SHOWN), data=None, rows=None, trained=False)
    work.compute_exact()
    return {key: measured.mean for key, measured in work.exact.items()}


def test_all_24_published_figures_agree_within_a_thousandth(exact):
    compared = 0
    for row in published_criteo():
        if math.isfinite(row.epsilon):
            assert exact["laplace", row.epsilon] == pytest.approx(row.mechanism_laplace, rel=1e-3)
            assert exact["rr-on-bins", row.epsilon] == pytest.approx(row.mechanism_rr_on_bins, rel=1e-3)
            compared += 2
    assert compared == 24


@pytest.mark.parametrize("rival", [name for name in METHODS_SHOWN if name != "rr-on-bins"])
def test_rr_on_bins_is_lowest_everywhere(exact, rival):
    assert all(exact["rr-on-bins", epsilon] < exact[rival, epsilon] for epsilon in PAPER_EPSILONS)


def test_the_exponential_mechanism_is_worse_than_clipped_laplace_at_moderate_and_high_epsilon(exact):
    worse = [
        epsilon for epsilon in PAPER_EPSILONS if exact["continuous-exponential", epsilon] > exact["laplace", epsilon]
    ]
    assert worse == [1.5, 2.0, 3.0, 4.0, 6.0, 8.0]


def test_the_exponential_mechanism_is_the_worst_of_all_at_high_epsilon(exact):
    for epsilon in (4.0, 6.0, 8.0):
        assert max(METHODS_SHOWN, key=lambda name: exact[name, epsilon]) == "continuous-exponential"


@pytest.mark.parametrize("name", ["laplace", "staircase"])
def test_clipping_helps_most_at_small_epsilon(exact, name):
    gains = [exact[f"{name}-unclipped", epsilon] / exact[name, epsilon] for epsilon in PAPER_EPSILONS]
    assert min(gains) > 1
    assert all(smaller > larger for smaller, larger in pairwise(gains))


def test_noise_without_clipping_has_the_variance_of_the_books(exact):
    for epsilon in PAPER_EPSILONS:
        assert exact["laplace-unclipped", epsilon] == pytest.approx(2 * (400 / epsilon) ** 2, rel=1e-9)


def test_a_designed_mechanism_pays_for_its_prior_and_a_plain_one_does_not():
    source = TASK.calibrated
    assert source is not None
    bins = get_method("rr-on-bins").mechanism(source.prior, TASK.domain, 1.0, source.records)
    assert float(bins.epsilon_exact) == pytest.approx(1 - math.sqrt(401 / source.records))
    assert get_method("laplace").mechanism(source.prior, TASK.domain, 1.0, source.records).epsilon == 1


def test_exact_losses_are_what_sampling_finds(monkeypatch):
    # Exact losses are those of a prior without noise; debiased values react to it by several per cent.
    for module in ("priors.private_histogram", "mechanisms.auto"):
        monkeypatch.setattr(f"labeldp.{module}.noisy_counts", lambda counts, scale: counts)
    source = TASK.calibrated
    assert source is not None
    generator = np.random.default_rng(0)
    labels = generator.choice(source.prior.values, 200_000, p=source.prior.masses)
    for name in (
        "laplace",
        "staircase",
        "continuous-exponential",
        "debiased",
        "auto",
        "rr-on-bins",
        "laplace-unclipped",
    ):
        values = get_method(name).targets(labels, TASK.domain, 2.0, generator).values
        exact = get_method(name).expected_loss(source.prior, TASK.domain, 2.0, labels.size)
        errors = (values - labels) ** 2
        # Exact methods draw afresh each time: 7 standard errors of that, and 2 % for labels that are a sample.
        room = 7 * errors.std() / np.sqrt(labels.size) + 0.02 * exact
        assert errors.mean() == pytest.approx(exact, abs=room), name


def test_float_methods_repeat_with_their_generator_and_exact_ones_never():
    labels = np.linspace(0, 400, 2_000)

    def draw(name: str):
        return get_method(name).targets(labels, TASK.domain, 2.0, np.random.default_rng(5)).values

    assert np.array_equal(draw("laplace"), draw("laplace"))
    assert not np.array_equal(draw("rr-on-bins"), draw("rr-on-bins"))
