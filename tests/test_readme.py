"""The README as a newcomer meets it: it says how to install first, its two targets exist.

`test_docs.py` runs its examples and commands with those of the other pages.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
