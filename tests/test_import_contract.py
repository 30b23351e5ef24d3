"""Rooms import downwards only, and the contract that says so would notice if they did not."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BREACHES = {
    "an import upwards": ("losses/squared.py", "from labeldp.mechanisms import RROnBins"),
    "a lazy import upwards": ("sampling/table.py", "def late():\n    from labeldp.release import privatize"),
    "an import for types upwards": (
        "priors/prior.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from labeldp.mechanisms import Mechanism",
    ),
    "neighbours on one line": ("binning/bins.py", "from labeldp.channels.anchors import Anchors"),
    "a cycle within a room": ("mechanisms/encoders.py", "from labeldp.mechanisms.finite import FiniteMechanism"),
    "a loose module in the root": ("helpers.py", "x = 1"),
}


def lint(folder):
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(folder / "src")}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def copy(tmp_path):
    pytest.importorskip("importlinter")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contract_is_kept(copy):
    outcome = lint(copy)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_noticed(copy, breach):
    path, line = BREACHES[breach]
    file = copy / "src" / "labeldp" / path
    file.write_text((file.read_text(encoding="utf-8") if file.exists() else "") + f"\n{line}\n", encoding="utf-8")
    outcome = lint(copy)
    assert outcome.returncode != 0
    assert "BROKEN" in outcome.stdout or "missing layers" in (outcome.stdout + outcome.stderr).lower()


def test_only_the_facade_and_shared_values_are_loose():
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    known = {name.strip() for line in layers["contracts"][0]["layers"] for name in line.split("|")}
    loose = {path.stem for path in (ROOT / "src" / "labeldp").glob("*.py")} - {"__init__"}
    assert loose <= known
    assert loose == {
        "__main__",
        "arrays",
        "budget",
        "catalogue",
        "domain",
        "durations",
        "errors",
        "json_text",
        "linear_algebra",
        "parquet_file",
        "plain_numbers",
        "randomizer",
        "shown",
        "spark",
    }
