"""The ledger's file: private, flushed, never taken back, and refused when it is not what it should be."""

from __future__ import annotations

import copy
import os
import pickle
import sqlite3
import stat
from contextlib import closing

import pytest

from labeldp.errors import InvalidInput
from labeldp.mechanisms import RROnBins
from labeldp.release.ledger import Ledger, key_fingerprint
from labeldp.release.ledger_file import SCHEMA_VERSION, transaction
from labeldp.release.ledger_journal import LedgerBroken

SAME = {"key_check": key_fingerprint(bytes(range(32))), "input_hmac": "ab" * 32}
CHEAP = RROnBins([10, 100], epsilon="0.25")


def test_only_the_owner_can_read_a_new_ledger(tmp_path):
    before = os.umask(0)
    try:
        ledger = Ledger.create(tmp_path / "ledger.db")
    finally:
        os.umask(before)
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600


def test_a_commit_is_flushed_before_the_call_returns(ledger):
    with transaction(ledger.path, 1.0, "IMMEDIATE") as connection:
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 3  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    assert [path.name for path in ledger.path.parent.iterdir()] == ["ledger.db"]


def test_creating_over_a_file_is_refused_and_leaves_it_alone(ledger, tmp_path):
    ledger.reserve("sales", 1)
    with pytest.raises(InvalidInput, match="exists already"):
        Ledger.create(ledger.path)
    assert Ledger.create(ledger.path, exist_ok=True).remaining("sales") == 2
    other = tmp_path / "notes.txt"
    other.write_text("not a ledger, but dear to somebody\n" * 100)
    before = other.read_bytes()
    with pytest.raises(InvalidInput, match="not a labeldp ledger"):
        Ledger.create(other, exist_ok=True)
    assert other.read_bytes() == before


def test_an_unfinished_file_of_a_crashed_creation_is_completed(tmp_path):
    path = tmp_path / "ledger.db"
    path.touch()
    with pytest.raises(InvalidInput, match="not a labeldp ledger"):
        Ledger(path)
    Ledger.create(path, exist_ok=True).add_dataset("sales", budget=1)
    assert Ledger(path).remaining("sales") == 1


def test_opening_what_is_not_there_makes_nothing(tmp_path):
    with pytest.raises(InvalidInput, match="ledger create"):
        Ledger(tmp_path / "absent.db")
    with pytest.raises(InvalidInput, match="is a folder"):
        Ledger(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_programs_database_is_not_a_ledger(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE dataset (name TEXT)")
    for open_it in (Ledger, lambda path: Ledger.create(path, exist_ok=True)):
        with pytest.raises(InvalidInput, match="not a labeldp ledger"):
            open_it(path)


def test_a_ledger_of_a_newer_version_is_refused_even_by_one_already_open(ledger, raw):
    raw(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    for act in (lambda: Ledger(ledger.path), lambda: ledger.reserve("sales", 1), lambda: ledger.add_dataset("new", 1)):
        with pytest.raises(InvalidInput, match=r"newer labeldp.*Upgrade") as refusal:
            act()
        assert refusal.value.exit_code == 2
    assert raw("SELECT count(*) FROM release") == [(0,)]


def test_a_damaged_ledger_is_refused(ledger):
    size = ledger.path.stat().st_size
    with ledger.path.open("r+b") as file:
        file.truncate(size // 2)
    with pytest.raises(LedgerBroken, match=r"damaged.*restore a backup, charge again") as refusal:
        ledger.reserve("sales", 1)
    assert refusal.value.exit_code == 3


def test_a_file_that_is_no_database_any_more_may_have_been_a_ledger(ledger):
    with ledger.path.open("r+b") as file:
        file.write(bytes(16))
    with pytest.raises(InvalidInput, match=r"not a labeldp ledger, or .* charge again"):
        ledger.reserve("sales", 1)


@pytest.mark.parametrize("change", ["DROP TABLE {0}", "ALTER TABLE {0} RENAME TO other"])
@pytest.mark.parametrize("table", ["dataset", "release", "batch", "journal"])
def test_a_table_that_is_gone_is_noticed_by_the_next_charge_and_by_the_check(ledger, raw, table, change):
    """No trigger of SQLite can refuse these statements."""
    ledger.reserve("sales", 1)
    raw(change.format(table))
    for act in (lambda: ledger.reserve("sales", 1), ledger.verify):
        with pytest.raises(LedgerBroken, match="damaged or edited"):
            act()
    if table != "journal":
        with pytest.raises(LedgerBroken, match=r"damaged or edited.*no such table"):
            ledger.datasets()


def test_a_batch_that_the_table_contradicts_is_not_recorded(ledger, raw):
    """A gap in the numbers makes labeldp's next row one that the table refuses."""
    release = ledger.fix(ledger.reserve("sales", 1).id, CHEAP)
    batch = {"records": 9, "mechanism_digest": CHEAP.digest}
    ledger.record_batch(release.id, input_hmac="aa", **batch)
    (guard,) = raw("SELECT sql FROM sqlite_master WHERE name = 'batch_unchanged'")[0]
    raw("DROP TRIGGER batch_unchanged")
    raw("UPDATE batch SET number = 7")
    raw(guard)
    with pytest.raises(LedgerBroken, match="a batch is recorded once"):
        ledger.record_batch(release.id, input_hmac="bb", **batch)


@pytest.mark.parametrize("text", ["-2", "lots"])
def test_a_stored_amount_that_would_free_budget_stops_everything(ledger, raw, text):
    raw(
        "INSERT INTO release (id, dataset, kind, epsilon, entries, state, reserved_at) "
        f"VALUES ('{'0' * 32}', 'sales', 'labels', '{text}', 1, 'reserved', '2026-01-01T00:00:00+00:00')",
    )
    with pytest.raises(LedgerBroken, match=r"edited: it contains .* in place of an amount"):
        ledger.reserve("sales", 1)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM release",
        "DELETE FROM dataset",
        "UPDATE dataset SET budget = '100'",
        "UPDATE dataset SET unit = 'person'",
        "UPDATE release SET entries = 1 + entries",
        "UPDATE release SET epsilon = '0.001'",
        "UPDATE release SET kind = 'sums'",
        "UPDATE release SET input_hmac = 'other'",
        "UPDATE release SET mechanism_json = '{}'",
        "UPDATE release SET state = 'reserved', committed_at = NULL",
        "DELETE FROM batch",
        "UPDATE batch SET records = 1",
        "DELETE FROM journal",
        "UPDATE journal SET entry = '{}'",
        # SQLite removes the row that is in the way, and fires no delete trigger for it
        "INSERT OR REPLACE INTO dataset VALUES ('sales', '100', 'record', 'now')",
        "REPLACE INTO dataset VALUES ('sales', '100', 'record', 'now')",
        "INSERT INTO dataset VALUES ('sales', '9', 'record', 'now') ON CONFLICT (name) DO UPDATE SET budget = '100'",
        "INSERT OR REPLACE INTO dataset (rowid, name, budget, unit, created_at) VALUES (1, 'other', '100', 'record', 'now')",
        "INSERT OR REPLACE INTO dataset (oid, name, budget, unit, created_at) VALUES ('1', 'other', '100', 'record', 'now')",
        "UPDATE OR REPLACE dataset SET rowid = 2",
        # -1 is what an insert trigger sees where no number is given: such a row would stop every later entry
        "INSERT INTO dataset (rowid, name, budget, unit, created_at) VALUES (-1, 'other', '1', 'record', 'now')",
        (
            "INSERT INTO release (number, id, dataset, kind, epsilon, entries, state, reserved_at) VALUES (-1, "
            "'00000000000000000000000000000000', 'sales', 'labels', '1', 1, 'reserved', 'now')"
        ),
        (
            "INSERT OR REPLACE INTO release SELECT number, id, dataset, kind, '0.001', 1, NULL, NULL, 'reserved', reserved_at, NULL, NULL, NULL, NULL, "
            "NULL, NULL FROM release WHERE epsilon = '1'"
        ),
        (
            "INSERT OR REPLACE INTO release (number, id, dataset, kind, epsilon, entries, state, reserved_at) VALUES (1, "
            "'00000000000000000000000000000000', 'sales', 'labels', '0.001', 1, 'reserved', 'now')"
        ),
        (
            "INSERT OR REPLACE INTO release (rowid, id, dataset, kind, epsilon, entries, state, reserved_at) VALUES (1, "
            "'00000000000000000000000000000000', 'sales', 'labels', '0.001', 1, 'reserved', 'now')"
        ),
        "UPDATE OR REPLACE release SET number = 1 WHERE number = 2",
        "UPDATE OR REPLACE release SET rowid = 1 WHERE rowid = 2",  # a trigger on the column `number` does not see this one
        "UPDATE OR REPLACE release SET _rowid_ = 7",
        "UPDATE OR REPLACE release SET id = (SELECT id FROM release WHERE number = 1) WHERE number = 2",
        (
            "INSERT INTO release SELECT 3, '00000000000000000000000000000000', dataset, kind, '0.5', 1, NULL, NULL, 'committed', reserved_at, "
            "committed_at, mechanism_digest, NULL, NULL, NULL, mechanism_json FROM release WHERE number = 1"
        ),
        "INSERT OR REPLACE INTO batch SELECT release, number, 1, 'other', recorded_at FROM batch",
        "INSERT OR REPLACE INTO batch SELECT release, number + 1, records, input_hmac, recorded_at FROM batch",
        "UPDATE OR REPLACE batch SET number = 2",
        "INSERT OR REPLACE INTO journal VALUES (1, '{}', 'hash')",
        "INSERT OR REPLACE INTO journal (rowid, entry, hash) VALUES (1, '{}', 'hash')",
        "INSERT INTO journal VALUES (70, '{}', 'hash')",
        "UPDATE OR REPLACE journal SET rowid = 1 WHERE rowid = 2",
    ],
)
def test_the_file_itself_refuses_to_take_anything_back(ledger, raw, statement):
    release = ledger.reserve("sales", 1, **SAME)
    ledger.fix(release.id, CHEAP)
    ledger.commit(release.id)
    ledger.reserve("sales", "0.5")
    ledger.record_batch(release.id, records=9, input_hmac="aa", mechanism_digest=CHEAP.digest)
    tables = ("dataset", "release", "batch", "journal")
    before = [raw(f"SELECT * FROM {table}") for table in tables]
    with pytest.raises(sqlite3.IntegrityError):
        raw(statement)
    assert [raw(f"SELECT * FROM {table}") for table in tables] == before
    assert ledger.verify().entries == 6


def test_a_ledger_can_be_copied_and_pickled(ledger):
    ledger.reserve("sales", 1)
    for twin in (copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):
        twin.reserve("sales", "0.5")
    assert ledger.remaining("sales") == 1


def test_a_relative_path_means_the_folder_it_was_opened_in(ledger, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened = Ledger("ledger.db")
    monkeypatch.chdir("/")
    assert opened.remaining("sales") == 3


def test_a_write_ahead_log_that_another_program_chose_is_given_up_by_the_next_charge(ledger, raw):
    assert raw("PRAGMA journal_mode = WAL") == [("wal",)]
    ledger.reserve("sales", 1)
    assert raw("PRAGMA journal_mode") == [("delete",)]
    assert {path.name for path in ledger.path.parent.iterdir()} == {ledger.path.name}
