"""The README's examples run as printed, and its links and commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from labeldp.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL) for kind in ("python", "console")}


def test_the_python_examples_run_as_printed():
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(BLOCKS["python"])], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "BiasVariance(epsilon=0.9" in run.stdout
    assert "proven" in run.stdout
    assert run.stdout.rstrip().endswith("1.0")


def commands():
    text = "".join(BLOCKS["console"]).replace("\\\n", " ")
    return [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("labeldp")]


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words[:3]))
def test_every_command_and_option_exists(words):
    command = get_command(app)
    rest = words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= known


def test_the_two_commands_are_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} links to {link}"
