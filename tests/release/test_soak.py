"""The soak in `benchmarks/soak.py` finds no broken promise in a few faults, and finds the bugs that are planted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, mounts and pipes as Linux has them")


def soak(*options):
    return subprocess.run([sys.executable, str(SOAK), *options], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_short_soak_finds_no_violation():
    ended = soak("--faults", "25", "--seed", "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "violations: 0" in ended.stdout


@pytest.mark.soak  # races: which fault shows first depends on the load
def test_every_planted_bug_is_found():
    ended = soak("--self-test")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "not found" not in ended.stdout


@pytest.mark.soak
def test_a_long_soak_finds_no_violation():
    ended = soak("--faults", "1000", "--seed", "2")
    assert ended.returncode == 0, ended.stdout + ended.stderr
