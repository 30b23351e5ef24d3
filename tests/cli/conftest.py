"""The `labeldp` script in this process, errors and exit codes included."""

from __future__ import annotations

import pytest

from labeldp.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    """`run("audit", path)` gives (exit code, standard output, standard error)."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["labeldp", *map(str, arguments)])
        try:
            code = main() or 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
