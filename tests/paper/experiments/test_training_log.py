"""Finished trainings survive whatever ends a reproduction."""

from __future__ import annotations

import math

import pytest

from labeldp.paper.experiments.trainings import Run, TrainedRun, TrainingLog

SETTINGS = {"experiment": "criteo", "rows": 1000}


def trained(method: str = "laplace", epsilon: float = 0.5, seed: int = 0, test: float = 1 / 3) -> TrainedRun:
    return TrainedRun(Run(method, epsilon, seed), 2.0, test, test, 1.5, 1.25)


@pytest.fixture
def log(tmp_path):
    return TrainingLog(tmp_path / "runs.jsonl", SETTINGS)


def test_what_is_written_is_read_back_bit_by_bit(log):
    written = [trained(), trained(epsilon=0.1), trained("not-private", math.inf), trained(seed=1)]
    for each in written:
        log.append(each)
    assert list(log.read().values()) == written


def test_nothing_there_is_no_run(log):
    assert log.read() == {}


def test_a_line_cut_off_is_skipped_and_the_next_one_whole(log):
    log.append(trained())
    log.append(trained(seed=1))
    text = log.path.read_text()
    log.path.write_text(text[:-30])
    assert set(log.read()) == {Run("laplace", 0.5, 0)}
    log.append(trained(seed=2))
    assert set(log.read()) == {Run("laplace", 0.5, 0), Run("laplace", 0.5, 2)}


def test_runs_of_other_settings_are_kept_and_not_used(log):
    other = TrainingLog(log.path, {**SETTINGS, "rows": 2000})
    other.append(trained(test=9.0))
    assert log.read() == {}
    log.append(trained())
    assert other.read()[Run("laplace", 0.5, 0)].test_loss == 9.0
    assert log.read()[Run("laplace", 0.5, 0)].test_loss == 1 / 3


def test_of_two_outcomes_of_one_run_the_first_counts(log):
    log.append(trained(test=1.0))
    log.append(trained(test=2.0))
    assert [each.test_loss for each in log.read().values()] == [1.0]


def test_a_loss_that_is_infinite_is_read_back(log):
    log.append(trained(test=math.inf))
    assert list(log.read().values()) == [trained(test=math.inf)]


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"seed": ' + b"7" * 5000 + b"}",
        b'{"settings": {"experiment": "criteo", "rows": 1000}}',
        b'{"settings": {"experiment": "criteo", "rows": 1000}, "method": "laplace", "epsilon": "x", "seed": 0}',
        b'{"settings": {"experiment": "criteo", "rows": 1000}, "method": "laplace", "epsilon": 1, "seed": 0, "new": 1}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_line_is_skipped(log, line):
    log.append(trained())
    with log.path.open("ab") as file:
        file.write(line + b"\n")
    log.append(trained(seed=1))
    assert set(log.read()) == {Run("laplace", 0.5, 0), Run("laplace", 0.5, 1)}
