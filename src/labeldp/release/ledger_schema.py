"""The tables of a ledger's file, and the triggers that guard them.

The triggers bind every program that opens the file: no INSERT, UPDATE or DELETE can remove a row, change a charge or swap a
mechanism. SQLite has none for DROP TABLE or ALTER TABLE, which `require_guards` notices before the next charge. Nor do they bind
the owner of the file, who can drop them or replace the file. For that there is the journal (`ledger_journal`): a chain of hashes,
which `labeldp ledger verify` walks.

SQLite deletes rows without firing a delete trigger when a statement says OR REPLACE. So each table also has an insert trigger
that refuses a key which is taken, `rowid` included. An update trigger that lists columns misses `SET rowid = …`, so the update
triggers list none.
"""

import sqlite3
from pathlib import Path

from labeldp.release.ledger_journal import JOURNAL_TABLE, LedgerBroken, import_rows

SCHEMA_VERSION = 2

APPLICATION_ID = 0x6C64704C
""""ldpL" in the file's header tells a ledger from other SQLite databases."""

_DATASET = """
    CREATE TABLE dataset (
        name TEXT PRIMARY KEY NOT NULL,
        budget TEXT NOT NULL,
        created_at TEXT NOT NULL
    )
    """

_RELEASE = """
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
    )
    """

# Since format 2: the batches that `apply` has added, and the journal. Both are filled from 1 on, one by one.
_BATCH = """
    CREATE TABLE batch (
        release TEXT NOT NULL REFERENCES release (id),
        number INTEGER NOT NULL,
        records INTEGER NOT NULL CHECK (records > 0),
        input_hmac TEXT NOT NULL,
        recorded_at TEXT NOT NULL,
        PRIMARY KEY (release, number),
        UNIQUE (release, input_hmac)
    ) WITHOUT ROWID
    """


def _refusal(name: str, event: str, when: str, text: str) -> str:
    """A trigger that refuses a statement, whatever it says about conflicts."""
    return f"CREATE TRIGGER {name} BEFORE {event} {when and f'WHEN {when} '}BEGIN SELECT RAISE(ABORT, '{text}'); END"


def _changed(columns: str) -> str:
    return " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in columns.split())


_GUARDS = (
    _refusal("dataset_kept", "DELETE ON dataset", "", "a dataset stays in the ledger"),
    _refusal("budget_kept", "UPDATE ON dataset", "", "a budget stays as agreed"),
    _refusal(
        "dataset_entered_once",
        "INSERT ON dataset",
        "EXISTS (SELECT 1 FROM dataset WHERE name = NEW.name OR rowid = NEW.rowid)",
        "a dataset is entered once",
    ),
    # A row number below 1 is one that SQLite's triggers take for "none given", and would stop every later entry.
    (
        "CREATE TRIGGER dataset_numbered AFTER INSERT ON dataset WHEN NEW.rowid < 1 "
        "BEGIN SELECT RAISE(ABORT, 'rows are numbered from 1 on'); END"
    ),
    (
        "CREATE TRIGGER release_numbered AFTER INSERT ON release WHEN NEW.number < 1 "
        "BEGIN SELECT RAISE(ABORT, 'rows are numbered from 1 on'); END"
    ),
    _refusal("release_kept", "DELETE ON release", "", "a charged release stays in the ledger"),
    _refusal(
        "charge_kept",
        "UPDATE ON release",
        _changed("number id dataset epsilon reserved_at key_check input_hmac request"),
        "a charge stays as it was made",
    ),
    _refusal(
        "mechanism_kept",
        "UPDATE ON release",
        f"OLD.mechanism_json IS NOT NULL AND ({_changed('mechanism_digest mechanism_json')})",
        "the mechanism of a release is fixed once",
    ),
    _refusal(
        "commit_kept",
        "UPDATE ON release",
        f"OLD.state = 'committed' AND ({_changed('state committed_at')})",
        "a committed release stays committed",
    ),
    _refusal(
        "release_entered_once",
        "INSERT ON release",
        "EXISTS (SELECT 1 FROM release WHERE id = NEW.id OR number = NEW.number)",
        "a release is charged once",
    ),
    _refusal(
        "release_begins_reserved",
        "INSERT ON release",
        "NEW.state IS NOT 'reserved' OR NEW.mechanism_json IS NOT NULL",
        "a release is reserved, then fixed, then committed",
    ),
    _refusal("batch_kept", "DELETE ON batch", "", "a batch stays in the ledger"),
    _refusal("batch_unchanged", "UPDATE ON batch", "", "a batch stays as it was recorded"),
    _refusal(
        "batch_appended",
        "INSERT ON batch",
        "NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM batch WHERE release = NEW.release) "
        "OR EXISTS (SELECT 1 FROM batch WHERE release = NEW.release AND input_hmac = NEW.input_hmac)",
        "a batch is recorded once, as the next one of its release",
    ),
    _refusal("entry_kept", "DELETE ON journal", "", "an entry stays in the journal"),
    _refusal("entry_unchanged", "UPDATE ON journal", "", "an entry stays as it was written"),
    _refusal(
        "entry_appended",
        "INSERT ON journal",
        "NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM journal)",
        "an entry is added at the end of the journal",
    ),
)

SCHEMAS = {2: (_DATASET, _RELEASE, _BATCH, JOURNAL_TABLE, *_GUARDS)}
"""The tables and triggers of each format since the journal: a file must have exactly those of the format that it states."""

_FORMAT_1_GUARDS = ("dataset_kept", "budget_kept", "release_kept", "charge_kept", "mechanism_kept", "commit_kept")


def create_schema(connection: sqlite3.Connection) -> None:
    """Makes the tables and their guards in an empty database."""
    for statement in SCHEMAS[SCHEMA_VERSION]:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _to_2(connection: sqlite3.Connection) -> None:
    """Adds batches and journal. The rows of format 1 become the journal's first entries."""
    for name in _FORMAT_1_GUARDS:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    for statement in (_BATCH, JOURNAL_TABLE, *_GUARDS):
        connection.execute(statement)
    import_rows(connection)


UPGRADES = {1: _to_2}
"""How a file of each older format becomes one of the next format."""


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Brings an older file up to date, format by format, inside the caller's transaction. Refuses one without its guards."""
    for version in range(format_of(connection), SCHEMA_VERSION):
        require_guards(connection, path)
        UPGRADES[version](connection)
        connection.execute(f"PRAGMA user_version = {version + 1}")


def format_of(connection: sqlite3.Connection) -> int:
    """The format of the file that the connection has open."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def has_journal(connection: sqlite3.Connection) -> bool:
    """Whether the file has a journal, whatever format it says it has."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal'").fetchone() is not None


def require_guards(connection: sqlite3.Connection, path: Path, *, alone: bool = False) -> None:
    """Refuses a file whose tables or triggers are not those of its format; `alone`, also one that has others beside them.

    Nothing is refused in format 1, whose triggers were not checked.
    """
    if (version := format_of(connection)) not in SCHEMAS:
        return
    wanted = {_name(statement): _plain(statement) for statement in SCHEMAS[version]}
    found = {
        name: _plain(sql)
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        if not name.startswith("sqlite_stat")  # which ANALYZE writes
    }
    missing = [name for name, sql in wanted.items() if found.get(name) != sql]
    if missing:
        raise LedgerBroken(f"in {path} the table or trigger {missing[0]!r} was removed or changed")
    if alone and (others := found.keys() - wanted.keys()):
        raise LedgerBroken(f"{path} has a table, trigger or index {min(others)!r} that labeldp did not make")


def _name(statement: str) -> str:
    return statement.split()[2]


def _plain(statement: str) -> str:
    return " ".join(statement.split())
