"""Ledgers of format 1, without batches and journal: they are read as they are, and upgraded with the first write."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from labeldp.errors import InsufficientBudget
from labeldp.mechanisms import RROnBins
from labeldp.release import ledger_file, ledger_schema
from labeldp.release.ledger import Ledger
from labeldp.release.ledger_journal import BEGINNING, LedgerBroken

CHEAP = RROnBins([10, 100], epsilon="0.25")
FIRST, SECOND = "1" * 32, "2" * 32
TIME = "2026-01-01T00:00:00+00:00"

FORMAT_1 = """
    CREATE TABLE dataset (
        name TEXT PRIMARY KEY NOT NULL,
        budget TEXT NOT NULL,
        created_at TEXT NOT NULL
    );
    CREATE TABLE release (
        number INTEGER PRIMARY KEY,
        id TEXT UNIQUE NOT NULL CHECK (length(id) = 32),
        dataset TEXT NOT NULL REFERENCES dataset (name),
        epsilon TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('reserved', 'committed')),
        reserved_at TEXT NOT NULL,
        committed_at TEXT,
        mechanism_digest TEXT,
        key_check TEXT,
        input_hmac TEXT,
        request TEXT,
        mechanism_json TEXT,
        CHECK ((state = 'committed') = (committed_at IS NOT NULL)),
        CHECK (state = 'reserved' OR mechanism_json IS NOT NULL),
        CHECK ((mechanism_json IS NULL) = (mechanism_digest IS NULL)),
        CHECK ((key_check IS NULL) = (input_hmac IS NULL))
    );
    CREATE TRIGGER dataset_kept BEFORE DELETE ON dataset
    BEGIN SELECT RAISE(ABORT, 'a dataset stays in the ledger'); END;
    CREATE TRIGGER budget_kept BEFORE UPDATE ON dataset
    BEGIN SELECT RAISE(ABORT, 'a budget stays as agreed'); END;
    CREATE TRIGGER release_kept BEFORE DELETE ON release
    BEGIN SELECT RAISE(ABORT, 'a charged release stays in the ledger'); END;
    CREATE TRIGGER charge_kept
    BEFORE UPDATE OF number, id, dataset, epsilon, reserved_at, key_check, input_hmac, request ON release
    BEGIN SELECT RAISE(ABORT, 'a charge stays as it was made'); END;
    CREATE TRIGGER mechanism_kept BEFORE UPDATE OF mechanism_digest, mechanism_json ON release
    WHEN OLD.mechanism_json IS NOT NULL
    BEGIN SELECT RAISE(ABORT, 'the mechanism of a release is fixed once'); END;
    CREATE TRIGGER commit_kept BEFORE UPDATE OF state, committed_at ON release WHEN OLD.state = 'committed'
    BEGIN SELECT RAISE(ABORT, 'a committed release stays committed'); END;
    PRAGMA application_id = 1818521676;
    PRAGMA user_version = 1;
"""


@pytest.fixture
def old(tmp_path):
    """A file of format 1: two datasets, a committed release of 1 and a reserved one of 1/2."""
    path = tmp_path / "old.db"
    mechanism = (CHEAP.digest, CHEAP.to_json())
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FORMAT_1)
        connection.executemany("INSERT INTO dataset VALUES (?, ?, ?)", [("sales", "3", TIME), ("visits", "1", TIME)])
        connection.execute(
            "INSERT INTO release VALUES (1, ?, 'sales', '1', 'committed', ?, ?, ?, 'key', 'hmac', '{}', ?)",
            (FIRST, TIME, TIME, *mechanism),
        )
        connection.execute(
            "INSERT INTO release (id, dataset, epsilon, state, reserved_at) VALUES (?, 'sales', '0.5', 'reserved', ?)",
            (SECOND, TIME),
        )
        connection.commit()
    return Ledger(path)


def version(ledger):
    with closing(sqlite3.connect(ledger.path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_format_1_is_read_and_checked_without_a_change(old):
    before = old.path.read_bytes()
    assert [(d.name, d.remaining, d.batches) for d in old.datasets()] == [
        ("sales", Fraction(3, 2), 0),
        ("visits", 1, 0),
    ]
    assert [(release.id, release.state) for release in old.history()] == [(FIRST, "committed"), (SECOND, "reserved")]
    assert old.batches(FIRST) == []
    checked = old.verify()
    assert (checked.entries, checked.head, checked.releases, checked.mechanisms) == (0, BEGINNING, 2, 1)
    assert old.path.read_bytes() == before


def test_the_first_write_takes_the_old_rows_over(old):
    before = old.history()
    new = old.reserve("visits", "0.25")
    assert version(old) == 2
    assert old.history() == [*before, new]
    assert old.verify().entries == 5
    with closing(sqlite3.connect(old.path)) as connection:
        entries = [json.loads(text) for (text,) in connection.execute("SELECT entry FROM journal ORDER BY number")]
    assert [entry["action"] for entry in entries] == [*["import dataset"] * 2, *["import release"] * 2, "reserve"]
    old.fix(SECOND, mechanism_json=CHEAP.to_json(), mechanism_digest=CHEAP.digest)
    old.commit(SECOND)
    old.record_batch(FIRST, records=7, input_hmac="aa", mechanism_digest=CHEAP.digest)
    assert old.verify().mechanisms == 2


def test_an_upgraded_file_has_the_tables_and_guards_of_a_new_one(old, ledger):
    old.reserve("sales", 1)
    read = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
    found = []
    for each in (old, ledger):
        with closing(sqlite3.connect(each.path)) as connection:
            found.append([(name, sql.split()) for name, sql in connection.execute(read)])
    assert found[0] == found[1]


def test_a_refused_charge_leaves_the_old_file_as_it_was(old):
    before = old.path.read_bytes()
    with pytest.raises(InsufficientBudget):
        old.reserve("visits", 2)
    assert old.path.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE dataset SET budget = '1.2'", "its budget is 1.2"),
        ("UPDATE release SET epsilon = '0.2' WHERE number = 1", r"only ε = 0\.2 was charged"),
        ("UPDATE release SET mechanism_digest = 'cd'", "another mechanism"),
    ],
)
@pytest.mark.parametrize("upgraded", [False, True])
def test_what_was_wrong_in_format_1_is_found(old, damage, says, upgraded):
    with closing(sqlite3.connect(old.path)) as connection:
        for name in ("budget_kept", "charge_kept", "mechanism_kept"):
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(damage.replace("'cd'", "'cd' WHERE number = 1"))
        connection.commit()
    if upgraded:
        old.add_dataset("new", 1)
    with pytest.raises(LedgerBroken, match=says):
        old.verify()


def test_a_row_of_format_1_that_no_entry_can_state_is_not_taken_over(old):
    with closing(sqlite3.connect(old.path)) as connection:
        connection.execute("DROP TRIGGER charge_kept")
        connection.execute("UPDATE release SET request = x'00' WHERE number = 1")
        connection.commit()
    before = old.path.read_bytes()
    with pytest.raises(LedgerBroken, match="its request is not text"):
        old.add_dataset("new", 1)
    with pytest.raises(LedgerBroken, match="its request is not text"):
        old.verify()
    assert old.path.read_bytes() == before


@pytest.fixture
def format_3(monkeypatch):
    """A labeldp of the future, whose format 3 adds a table to format 2."""
    note = "CREATE TABLE note (text TEXT NOT NULL)"
    monkeypatch.setitem(ledger_schema.SCHEMAS, 3, (*ledger_schema.SCHEMAS[2], note))
    monkeypatch.setitem(ledger_schema.UPGRADES, 2, lambda connection: connection.execute(note))
    for module in (ledger_schema, ledger_file):
        monkeypatch.setattr(module, "SCHEMA_VERSION", 3)


@pytest.mark.usefixtures("format_3")
def test_files_of_each_older_format_are_upgraded_step_by_step(old, tmp_path):
    old.reserve("visits", "0.25")
    assert (version(old), old.verify().entries) == (3, 5)
    assert Ledger.create(tmp_path / "new.db").verify().entries == 0


def test_a_file_of_format_2_is_checked_as_one_and_upgraded_by_a_later_version(ledger, request):
    ledger.reserve("sales", 1)
    request.getfixturevalue("format_3")
    assert (ledger.verify().entries, version(ledger)) == (2, 2)
    ledger.reserve("sales", 1)
    assert (ledger.verify().entries, version(ledger)) == (3, 3)


def test_a_file_that_lost_its_guards_is_not_upgraded(ledger, raw, request):
    raw("DROP TRIGGER release_kept")
    request.getfixturevalue("format_3")
    for act in (ledger.verify, lambda: ledger.reserve("sales", 1)):
        with pytest.raises(LedgerBroken, match="release_kept"):
            act()
    assert version(ledger) == 2
