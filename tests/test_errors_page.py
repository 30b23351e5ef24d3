"""docs/guides/errors.md has every error and every warning that the source can raise, each under a cure."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

import error_messages as found
import labeldp

pytestmark = pytest.mark.site

PAGE = found.PAGE.read_text(encoding="utf-8")
AGAIN = "Then run: python tests/error_messages.py"


def test_every_message_stands_in_one_section_of_the_page():
    listed = {heading: lines for heading, _, lines in found.sections(PAGE)}
    for said in found.messages():
        if not said.has_words:
            continue
        where = f"src/labeldp/{said.module}:{said.line} says {said.words!r}"
        headings = found.section_of(said, PAGE)
        assert headings, (
            f"{where}, and no section of docs/guides/errors.md is about {said.module}. Choose the section whose cure helps, or write "
            f"one with When and Cure, and name the module in its comment `messages of`. {AGAIN}"
        )
        assert len(headings) == 1, (
            f"{where}, and several sections of docs/guides/errors.md are about {said.place}: {headings}"
        )
        assert said.words in listed[headings[0]], (
            f"{where}, and docs/guides/errors.md does not list it. Read the cure of the section {headings[0]!r}: if it does not help with "
            f"this message, extend it, or name {said.place} in the comment of another section. {AGAIN}"
        )


def test_the_page_lists_nothing_that_is_no_longer_said():
    assert found.with_lists(PAGE) == PAGE, f"a message was changed or removed. {AGAIN}"


def test_what_a_section_is_about_exists():
    places = {place for said in found.messages() for place in (said.module, said.place)}
    for heading, named, _ in found.sections(PAGE):
        for place in named:
            known = (
                any(said.module.startswith(place) for said in found.messages())
                if place.endswith("/")
                else place in places
            )
            assert known, (
                f"the section {heading!r} of docs/guides/errors.md names {place}, which says nothing: leave it out"
            )


def test_a_message_without_words_of_its_own_says_where_they_come_from():
    silent = {said.place for said in found.messages() if not said.has_words}
    assert silent == set(found.SAID_ELSEWHERE), (
        "tests/error_messages.py: SAID_ELSEWHERE must name where the words of these come from, or names what is gone: "
        f"{sorted(silent ^ set(found.SAID_ELSEWHERE))}. If a function makes the words, name it in SAID_BY"
    )


def test_every_section_says_when_and_what_to_do():
    for part in re.split(r"^##+ ", PAGE, flags=re.MULTILINE):
        if "<!-- messages of:" in part:
            text = part[: part.index("<!-- messages of:")]
            assert re.search(r"^\*\*When\.\*\* \S.+", text, re.MULTILINE), part.splitlines()[0]
            assert re.search(r"^\*\*Cure\.\*\* \S.+", text, re.MULTILINE), part.splitlines()[0]


def test_every_public_error_and_warning_is_described():
    public = [getattr(labeldp, name) for name in labeldp.__all__]
    for kind in public:
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert f"| `{kind.__name__}` |" in PAGE, (
                f"docs/guides/errors.md: say what a {kind.__name__} is and what it carries"
            )
    for dotted in re.findall(r"^\| `(labeldp\.[\w.]+)` \| `(\w+)` \| (\d)", PAGE, re.MULTILINE):
        module, _, name = dotted[0].rpartition(".")
        kind = getattr(import_module(module), name)
        assert kind.__mro__[1].__name__ == dotted[1]
        assert kind.exit_code == int(dotted[2])


SPOKEN = """
from labeldp.errors import InvalidInput, expect
AGAIN = "Run it again"

class Tired(InvalidInput):
    def __init__(self, hours):
        super().__init__(f"it is tired after {hours} hours of work")

def work(x, why):
    if x == 1:
        raise InvalidInput(f"the number {x} is too small. {AGAIN}")
    if x == 2:
        raise InvalidInput("it is too late" if why else f"it is too early, {x} hours")
    expect(x, int, "x", "count it first")
    warnings.warn("it is nearly done", UserWarning)
    raise InvalidInput(why)

def helper(x):
    return InvalidInput("made by a helper: " + f"{x} of them")
"""


def test_messages_are_found_however_they_are_raised(tmp_path, monkeypatch):
    caches = (found.parsed, found.error_classes, found.constants, found.own_constants, found.messages)
    (tmp_path / "errors.py").write_text("class LabelDPError(Exception): ...\nclass InvalidInput(LabelDPError): ...\n")
    (tmp_path / "spoken.py").write_text(SPOKEN)
    monkeypatch.setattr(found, "SOURCE", tmp_path)
    for cache in caches:
        cache.cache_clear()
    try:
        said = found.messages()
    finally:
        for cache in caches:
            cache.cache_clear()
    assert {one.words for one in said} == {
        "it is tired after … hours of work",
        "the number … is too small. Run it again",
        "it is too late",
        "it is too early, … hours",
        "x must be a int, got …: count it first",
        "it is nearly done",
        "made by a helper: … of them",
        "…",
    }
    assert [one.place for one in said if not one.has_words] == ["spoken.py:work"]
