"""The `labeldp` script in this process, errors and exit codes included."""

from __future__ import annotations

import pytest

from labeldp.cli import app, main


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


@pytest.fixture(scope="session")
def labeldp():
    """`labeldp("audit", path)` runs a command in fixtures that several tests share. An error is raised, not printed."""
    return lambda *arguments: app([str(argument) for argument in arguments], standalone_mode=False)
