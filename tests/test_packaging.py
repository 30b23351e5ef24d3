"""The files that say which versions to install agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def floors(*extras):
    listed = PROJECT["dependencies"] + [line for extra in extras for line in EXTRAS[extra]]
    found = {}
    for requirement in map(Requirement, listed):
        (specifier,) = requirement.specifier
        assert specifier.operator == ">=", f"{requirement}: a floor, and nothing else"
        found[canonicalize_name(requirement.name)] = Version(specifier.version)
    return found


def pins(name):
    lines = re.findall(r"^(\S+)==(\S+)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(package): Version(version) for package, version in lines}


def test_the_floors_that_are_tried_are_those_that_are_declared():
    declared, tried = floors("test", "data"), pins("constraints-floors.txt")
    assert {name: tried.get(name) for name in declared} == declared


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-floors.txt"])
def test_constraints_allow_what_is_declared(name):
    pinned = pins(name)
    assert all(pinned[package] >= floor for package, floor in floors("test", "torch", "data").items())


def test_every_dependency_of_every_extra_is_pinned_for_today():
    assert set(floors(*EXTRAS)) <= set(pins("constraints.txt"))
