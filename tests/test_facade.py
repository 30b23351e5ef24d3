"""The public face: every name importable, typed, and loaded only when it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import labeldp


def test_the_stub_names_what_the_package_has():
    stub = ast.parse(Path(labeldp.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    typed = {
        (statement.module, alias.name)
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    names = {(f"labeldp.{labeldp._MODULE_OF[name]}", name) for name in labeldp.__all__}
    assert typed == names | {("labeldp", room) for room in labeldp._ROOMS}


def test_every_name_is_there():
    assert [name for name in labeldp.__all__ if getattr(labeldp, name).__name__ != name] == []
    assert set(labeldp.__all__) <= set(dir(labeldp))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = labeldp.nonsense


def test_importing_the_package_loads_none_of_it():
    code = "import sys, labeldp; print([m for m in sys.modules if m.startswith('labeldp.') or m == 'numpy'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
