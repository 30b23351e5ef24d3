"""What every test of the ledger starts from, and how another program would touch the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from labeldp.release.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    """A new ledger with one dataset, "sales", of budget 3."""
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", budget="3")
    return ledger


@pytest.fixture
def raw(ledger):
    """Runs one statement on the ledger's file as another program would that knows nothing of labeldp."""

    def run(statement):
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    return run
