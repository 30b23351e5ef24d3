from __future__ import annotations

import re

import numpy as np

from labeldp.paper.data.criteo import identifiers, titles, uniform

CODES = np.arange(-1, 5000)


def test_identifiers_look_like_the_genuine_ones_and_are_distinct():
    names = identifiers(CODES, salt=3)
    names.validate(full=True)
    names = names.to_pylist()
    assert names[0] == "-1"
    assert all(re.fullmatch(r"[0-9A-F]{32}", name) for name in names[1:])
    assert len(set(names)) == len(names)
    assert not set(names[1:]) & set(identifiers(CODES, salt=4).to_pylist())


def test_an_identifier_depends_on_its_code_alone():
    assert identifiers(CODES[100:110], salt=3).equals(identifiers(CODES, salt=3)[100:110])
    assert titles(CODES[100:110], salt=3).equals(titles(CODES, salt=3)[100:110])


def test_titles_are_words_separated_by_single_spaces_and_may_be_empty():
    names = titles(CODES, salt=9)
    names.validate(full=True)
    names = names.to_pylist()
    assert names[0] == "-1"
    assert "" in names
    assert all(re.fullmatch(r"(?:[0-9A-F]{32}(?: [0-9A-F]{32}){0,5})?", name) for name in names[1:])
    assert {name.count(" ") for name in names if name} == set(range(6))


def test_uniform_fills_the_interval_evenly():
    draw = uniform(np.arange(100_000), salt=1)
    assert draw.min() >= 0
    assert draw.max() < 1
    assert np.abs(np.histogram(draw, 20, (0, 1))[0] - 5000).max() < 400
