"""docs/guides/choose-epsilon.md shows what its commands print. `...` stands for lines that are left out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from labeldp.cli import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "choose-epsilon.md"
SHOWN = re.findall(r"^```console\n\$ labeldp (.*)\n((?:.*\n)*?)```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[str(number) for number in range(len(SHOWN))])
def test_a_command_prints_what_the_page_shows(command, shown):
    done = CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "110"})
    assert done.exit_code == 0
    printed, wanted = " ".join(done.stdout.split()), " ".join(shown.removeprefix("...\n").removesuffix("...\n").split())
    start = re.search(re.escape(" ".join(wanted.split()[:2])), printed).start()
    found = printed[start:][: len(wanted) + 20]
    numbers, kept = ([float(n.replace(",", "")) for n in NUMBER.findall(text)] for text in (found, wanted))
    assert NUMBER.sub("#", found).startswith(NUMBER.sub("#", wanted))
    assert numbers[: len(kept)] == pytest.approx(
        kept, rel=0.02, abs=0.011
    )  # the last digit may differ between processors


def test_the_page_has_such_commands():
    assert len(SHOWN) >= 4
