"""Help: it opens fast, and it names what the catalogues hold, each entry on a line of its own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer.main import get_command

from labeldp.cli import app
from labeldp.learn.learners import learners
from labeldp.mechanisms import MECHANISMS

HEAVY = ["numpy", "scipy", "numba", "pyarrow", "sklearn", "torch", "matplotlib", "pyspark", "labeldp.mechanisms"]


@pytest.mark.parametrize("arguments", [("--help",), ("apply", "--help")])
def test_help_imports_nothing_heavy(arguments):
    script = f"""
import atexit, sys
from labeldp.cli import main
atexit.register(lambda: print("heavy:", [name for name in {HEAVY} if name in sys.modules]))
sys.argv = ["labeldp", *{arguments}]
main()
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "heavy: []" in run.stdout


def panel(text, title):
    """The lines of a panel, without its frame."""
    return re.search(rf"╭─ {title} ─+╮\n(.*?)╰─", text, re.DOTALL)[1].replace("│", " ").splitlines()


@pytest.mark.parametrize(
    ("command", "title", "entries"),
    [
        ("privatize", "Mechanisms", lambda: [entry for entry in MECHANISMS if entry.exact]),
        ("compare", "Mechanisms", lambda: list(MECHANISMS)),
        ("train", "Models", lambda: list(learners())),
    ],
)
def test_every_entry_of_a_catalogue_is_explained_on_its_own_line(run, command, title, entries):
    code, out, _ = run(command, "--help")
    assert code == 0
    lines = panel(out, title)
    assert [line.split()[0] for line in lines] == [entry.name for entry in entries()]
    for line, entry in zip(lines, entries(), strict=True):
        assert entry.help in line


def test_every_option_is_explained():
    commands = dict(get_command(app).commands)
    commands |= commands.pop("ledger").commands
    for name, command in commands.items():
        unexplained = [parameter.name for parameter in command.params if not getattr(parameter, "help", None)]
        assert unexplained == [], name
