"""The README as a newcomer meets it: it says how to install first, its commands run as typed, its two targets exist.

`test_docs.py` runs its Python examples with those of the other pages.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from labeldp.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_two_commands_are_in_the_makefile(target):
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_first_thing_after_two_sentences_is_how_to_install():
    title, promise, description, block = README.split("\n\n")[:4]
    assert title == "# labeldp"
    assert promise.startswith("**")
    assert len(re.findall(r"\.(?:\s|$)", description)) == 2
    assert block.startswith("```console\npip install ")


def test_there_is_one_picture():
    assert re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README) == ["docs/plots/what-the-error-is-made-of.svg"]


def test_every_line_of_the_command_line_block_runs_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    section = README.split("## From the command line")[1]
    block = re.search(r"```console\n(.*?)```", section, re.DOTALL)[1]
    lines = block.replace("\\\n", " ").splitlines()
    assert len(lines) >= 8
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program == "labeldp"
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"{line}\n{done.output}"
    made = {path.name for path in tmp_path.iterdir()}
    assert {
        "sales.parquet",
        "clicks.parquet",
        "ledger.db",
        "sales.key",
        "message",
        "model",
        "predictions.parquet",
    } <= made
