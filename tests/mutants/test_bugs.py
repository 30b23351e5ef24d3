"""The list of planted bugs fits the code. `make test-mutants` plants them, which takes longer."""

import ast
from pathlib import Path

import pytest

from mutants.run import all_bugs

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src"
CHANGE = "The code has changed: say in tests/mutants/bugs.toml where the same bug would stand now"


@pytest.mark.parametrize("bug", all_bugs(), ids=lambda bug: bug.name)
def test_bug_can_be_planted(bug):
    assert bug.fits(SOURCE), f"{bug.file} does not hold `old` exactly once. {CHANGE}"
    text = (SOURCE / "labeldp" / bug.file).read_text()
    changed = ast.dump(ast.parse(text.replace(bug.old, bug.new)))
    assert changed != ast.dump(ast.parse(text)), f"`new` does what `old` does. {CHANGE}"
    missing = [test for test in bug.tests if not (TESTS / test).exists()]
    assert bug.tests, "the bug needs tests to try first"
    assert not missing, f"there are no such tests: {missing}. Name the tests that are likely to find the bug"


def test_there_are_sixty_bugs():
    assert len(all_bugs()) >= 60
