"""A terminal that cannot encode ε gets the word, JSON gets escapes, and no command ends with an encoding error."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.cli import app, main
from labeldp.release.ledger import Ledger

COMMANDS = [[command.name] for command in app.registered_commands] + [["ledger", name] for name in ("create", "show")]


@pytest.fixture
def run_ascii(monkeypatch):
    """`run_ascii("train", "--help")` gives (exit code, standard output, standard error) of an ASCII terminal."""

    def run(*arguments):
        streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="ascii") for name in ("stdout", "stderr")}
        for name, stream in streams.items():
            monkeypatch.setattr(sys, name, stream)
        monkeypatch.setattr("sys.argv", ["labeldp", *map(str, arguments)])
        try:
            code = main() or 0
        except SystemExit as stop:
            code = stop.code or 0
        for stream in streams.values():
            stream.flush()
        return code, *(stream.buffer.getvalue().decode("ascii") for stream in streams.values())

    return run


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_is_printed(run_ascii, command):
    code, text, errors = run_ascii(*command, "--help")
    assert (code, errors) == (0, "")
    assert "Usage" in text


def test_a_release_and_its_ledger_are_printed_in_words(run_ascii, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"order": range(2000), "amount": np.linspace(0, 400, 2000)}), "sales.parquet")
    Ledger.create("ledger.db").add_dataset("café", 3)
    release = ("privatize", "sales.parquet", "--label", "amount", "--id", "order", "--lower", 0, "--upper", 400)
    code, text, errors = run_ascii(*release, "--epsilon", 1, "--dry-run")
    assert (code, errors) == (0, "")
    assert "\nepsilon1 " in text
    charged = ("--ledger", "ledger.db", "--dataset", "café")
    code, text, _ = run_ascii(*release, *charged, "--epsilon", 1, "--out", "message")
    assert code == 0
    assert "cafe has epsilon = 2 left" in text
    code, _, errors = run_ascii(*release, *charged, "--epsilon", 9, "--out", "other")
    assert code == 3
    assert "has epsilon = 2 left" in errors
    code, text, _ = run_ascii("ledger", "show", "ledger.db")
    assert code == 0
    assert "budget epsilon" in text
    code, text, _ = run_ascii("ledger", "show", "ledger.db", "--json")
    assert json.loads(text)["datasets"][0]["name"] == "café"


def test_the_package_is_a_command():
    run = subprocess.run([sys.executable, "-m", "labeldp", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("labeldp ")
