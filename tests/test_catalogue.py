"""Catalogues: entries are found, ordered, and looked up with helpful errors."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from labeldp.catalogue import Catalogue
from labeldp.errors import InvalidInput
from labeldp.losses import LOSSES

SHARED = """
from dataclasses import dataclass
from labeldp.catalogue import Catalogue

@dataclass(frozen=True)
class Fruit:
    name: str
    rank: int = 50

FRUIT = Catalogue("fruit", "orchard")
"""


@pytest.fixture
def orchard(tmp_path, monkeypatch):
    """A package with a catalogue and two modules, each with one entry; nothing but the catalogue imports them."""
    package = tmp_path / "orchard"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "shared.py").write_text(SHARED)
    for name, rank in (("apple", 50), ("pear", 1)):
        (package / f"{name}.py").write_text(f"from orchard.shared import *\nFRUIT.add(Fruit({name!r}, {rank}))\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for module in [name for name in sys.modules if name.split(".")[0] == "orchard"]:
        del sys.modules[module]


@dataclass(frozen=True)
class Entry:
    name: str
    example: str = "x"


def test_a_new_module_in_the_package_is_all_that_a_new_entry_takes(orchard):
    (orchard / "banana.py").write_text("from orchard.shared import *\nFRUIT.add(Fruit('banana'))\n")
    from orchard.shared import FRUIT

    assert FRUIT.names == ["pear", "apple", "banana"]
    assert FRUIT["banana"].name == "banana"


def test_an_unknown_name_suggests_the_nearest_and_lists_the_others(orchard):
    from orchard.shared import FRUIT

    with pytest.raises(InvalidInput, match=r"^unknown fruit 'Aple'\. Did you mean 'apple'\? Known: pear, apple\.$"):
        FRUIT["Aple"]
    with pytest.raises(InvalidInput, match=r"^unknown fruit 'zzz'\. Known: pear, apple\.$"):
        FRUIT["zzz"]
    assert FRUIT.get("zzz") is None
    assert FRUIT.get(7) is None


def test_a_suggestion_is_written_as_a_user_writes_it():
    with pytest.raises(InvalidInput, match=r"Did you mean 'huber\(1\.5\)'\?"):
        LOSSES["hubr"]


def test_two_entries_of_one_name_are_refused_and_the_first_stays():
    catalogue = Catalogue("loss", "labeldp.losses")
    first = catalogue.add(Entry("twice"))
    with pytest.raises(ValueError, match="two entries for the loss 'twice'"):
        catalogue.add(Entry("twice", "y"))
    assert catalogue["twice"] is first
