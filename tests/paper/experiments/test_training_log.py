"""Finished trainings survive whatever ends a reproduction."""

from __future__ import annotations

import math

import pytest

from labeldp.paper.experiments.training_log import Run, TrainedRun, TrainingLog

SETTINGS = {"experiment": "criteo", "rows": 1000}


def outcome(method: str = "laplace", epsilon: float = 0.5, seed: int = 0, test: float = 1 / 3) -> TrainedRun:
    return TrainedRun(Run(method, epsilon, seed), 2.0, test, test, 1.5, 1.25)


@pytest.fixture
def journal(tmp_path):
    return TrainingLog(tmp_path / "runs.jsonl", SETTINGS)


def test_what_is_written_is_read_back_bit_by_bit(journal):
    written = [outcome(), outcome(epsilon=0.1), outcome("not-private", math.inf), outcome(seed=1)]
    for each in written:
        journal.append(each)
    assert list(journal.read().values()) == written


def test_nothing_there_is_no_run(journal):
    assert journal.read() == {}


def test_a_line_cut_off_is_skipped_and_the_next_one_whole(journal):
    journal.append(outcome())
    journal.append(outcome(seed=1))
    text = journal.path.read_text()
    journal.path.write_text(text[:-30])
    assert set(journal.read()) == {Run("laplace", 0.5, 0)}
    journal.append(outcome(seed=2))
    assert set(journal.read()) == {Run("laplace", 0.5, 0), Run("laplace", 0.5, 2)}


def test_runs_of_other_settings_are_kept_and_not_used(journal):
    other = TrainingLog(journal.path, {**SETTINGS, "rows": 2000})
    other.append(outcome(test=9.0))
    assert journal.read() == {}
    journal.append(outcome())
    assert other.read()[Run("laplace", 0.5, 0)].test_loss == 9.0
    assert journal.read()[Run("laplace", 0.5, 0)].test_loss == 1 / 3


def test_of_two_outcomes_of_one_run_the_first_counts(journal):
    journal.append(outcome(test=1.0))
    journal.append(outcome(test=2.0))
    assert [each.test_loss for each in journal.read().values()] == [1.0]
