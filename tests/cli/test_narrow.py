"""On a screen of 60 columns every table fits, and no name or figure in it is cut."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from labeldp.cli import console
from labeldp.release.ledger import Ledger

WIDTH = 60
DATASETS = ["sales", "visits-of-the-web-site-in-november-2026", "a [bold]name[/bold] in brackets", "売上高" * 6]


@pytest.fixture
def screen(monkeypatch):
    """What tables print on such a screen."""
    shown = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=shown, force_terminal=True, width=WIDTH, color_system=None))
    return shown


def check(text, names):
    """Lines with paths, which are there to be copied, may be longer."""
    lines = [line for line in text.splitlines() if not line.startswith(("report ", "figures "))]
    assert max(map(cell_len, lines)) <= WIDTH
    assert "…" not in text
    words = " ".join(" ".join(lines).split())
    for name in names:
        assert name in words


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "l.db"
    ledger = Ledger.create(path)
    for name in DATASETS:
        ledger.add_dataset(name, budget="1/3")
        ledger.reserve(name, "0.123456789")
    return path


def test_budgets_fit(run, screen, ledger):
    assert run("ledger", "show", ledger)[0] == 0
    check(screen.getvalue(), [*DATASETS, "0.123456789", "629629633/3000000000", "remaining", "releases"])


def test_the_history_of_a_ledger_fits(run, screen, ledger):
    assert run("ledger", "history", ledger)[0] == 0
    shown = [f"{release.reserved_at:%Y-%m-%d %H:%M}" for release in Ledger(ledger).history()]
    check(screen.getvalue(), [*DATASETS, "reserved", "reserved (UTC)", "mechanism", "not fixed", *shown])


def test_a_comparison_fits(run, screen):
    assert run("compare", "--dataset", "criteo", "--epsilon", "0.5,8", "--records", 50_000)[0] == 0
    check(screen.getvalue(), ["rr-on-bins", "randomized-response"])


def test_a_name_wider_than_the_screen_is_folded_and_not_cut(screen):
    name = "".join(f"{i:03d}" for i in range(40))
    console.print_table("names", ["name", "figure"], [[name, "1"]], left=[0])
    assert max(map(len, screen.getvalue().splitlines())) <= WIDTH
    assert name in "".join(screen.getvalue().split())
