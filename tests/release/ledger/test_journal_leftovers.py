"""What a killed process leaves of SQLite's journal beside a ledger, and that it does no harm."""

from __future__ import annotations

import os
import sys

import pytest

from labeldp import Ledger
from labeldp.release.ledger_file import transaction
from soaking.outsider import is_hot

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")

FILLING = "CREATE TABLE filler AS WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 400) "
FILLING += "SELECT randomblob(4000) AS piece FROM n"


def die_while_writing(path, *statements):
    """A process that is killed after these statements of a transaction."""
    process = os.fork()
    if process == 0:
        try:
            with transaction(path, 5, "IMMEDIATE") as connection:
                for statement in statements:
                    connection.execute(statement)
                os._exit(9)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    ledger.reserve("sales", 1)
    return ledger


def test_a_journal_whose_header_was_not_written_belongs_to_an_untouched_ledger(ledger):
    """Reading leaves it, because it says nothing. The next charge removes it."""
    journal, before = ledger.path.with_name("ledger.db-journal"), ledger.path.read_bytes()
    die_while_writing(ledger.path, "CREATE TABLE filler (piece)")
    assert journal.read_bytes()[:12] == bytes(12)
    assert not is_hot(journal)
    assert ledger.path.read_bytes() == before
    Ledger(ledger.path).verify()
    assert ledger.remaining("sales") == 2
    assert ledger.path.read_bytes() == before
    assert journal.exists()
    ledger.reserve("sales", 1)
    assert not journal.exists()
    assert ledger.remaining("sales") == 1
    ledger.verify()


def test_a_journal_whose_header_was_written_undoes_what_the_ledger_holds_of_a_killed_transaction(ledger):
    """A tiny cache makes SQLite write to the ledger before the transaction ends. Reading is enough to undo it."""
    journal, before = ledger.path.with_name("ledger.db-journal"), ledger.path.read_bytes()
    die_while_writing(ledger.path, "PRAGMA cache_size = 1", FILLING)
    assert is_hot(journal)
    assert ledger.path.read_bytes() != before
    assert ledger.remaining("sales") == 2
    assert not journal.exists()
    assert ledger.path.read_bytes() == before
    ledger.verify()
