"""Rooms import downwards only, and the contract that says so would notice if they did not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BREACHES = {
    "a lazy import upwards": ("sampling/table.py", "def late():\n    from labeldp.release import privatize"),
    "a cycle within a room": ("mechanisms/mechanism.py", "from labeldp.mechanisms.finite import FiniteMechanism"),
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
