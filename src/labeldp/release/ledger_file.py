"""The ledger's SQLite file: its tables, the triggers that guard them, durable transactions, and readable errors.

The triggers apply to every program that opens the file: no INSERT, UPDATE or DELETE can remove a row, change a charge
or replace a mechanism. SQLite does not offer triggers for DROP TABLE or ALTER TABLE, but `require_guards` detects these
before the next charge. The owner of the file can drop the triggers or replace the file; the journal (`ledger_journal`)
reveals that afterwards.

With OR REPLACE, SQLite deletes rows without firing a delete trigger. So each table also has an insert trigger that
rejects an existing key, including `rowid`. An update trigger that lists columns misses `SET rowid = …`, so the update
triggers do not list columns.

The file uses a rollback journal rather than a WAL. The ledger is then one file that can be copied or moved, and charges
are never in a `-wal` file that might get lost. With a rollback journal, `synchronous=FULL` may lose the last commit
when power fails, because the removal of the journal is not flushed. A charge must never be lost, so EXTRA is used.
"""

import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from labeldp.errors import InvalidInput, LabelDPError
from labeldp.release.ledger_journal import LedgerBroken

SCHEMA_VERSION = 1

APPLICATION_ID = 0x6C64704C
""""ldpL" in the file's header distinguishes a ledger from other SQLite databases."""

# Batches that `apply` has added, the journal, datasets and releases are numbered from 1: SQLite's triggers treat a row number
# below 1 as missing, and it would block every later entry.
_SCHEMA = """
CREATE TABLE dataset (
    name TEXT PRIMARY KEY NOT NULL,
    budget TEXT NOT NULL,
    unit TEXT NOT NULL CHECK (unit IN ('record', 'person')),
    created_at TEXT NOT NULL
)

CREATE TABLE release (
    number INTEGER PRIMARY KEY,
    id TEXT UNIQUE NOT NULL CHECK (length(id) = 32),
    dataset TEXT NOT NULL REFERENCES dataset (name),
    kind TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    entries INTEGER NOT NULL CHECK (entries > 0),
    part_of TEXT REFERENCES release (id),
    part TEXT,
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
    CHECK ((key_check IS NULL) = (input_hmac IS NULL)),
    CHECK (part_of IS NULL OR part IS NOT NULL),
    UNIQUE (part_of, part)
)

CREATE TABLE batch (
    release TEXT NOT NULL REFERENCES release (id),
    number INTEGER NOT NULL,
    records INTEGER NOT NULL CHECK (records > 0),
    input_hmac TEXT NOT NULL,
    recorded_at TEXT NOT NULL,
    PRIMARY KEY (release, number),
    UNIQUE (release, input_hmac)
) WITHOUT ROWID

CREATE TABLE journal (number INTEGER PRIMARY KEY, entry TEXT NOT NULL, hash TEXT NOT NULL)

CREATE TRIGGER dataset_kept BEFORE DELETE ON dataset
BEGIN SELECT RAISE(ABORT, 'a dataset stays in the ledger'); END

CREATE TRIGGER budget_kept BEFORE UPDATE ON dataset
BEGIN SELECT RAISE(ABORT, 'a budget stays as agreed'); END

CREATE TRIGGER dataset_entered_once BEFORE INSERT ON dataset
WHEN EXISTS (SELECT 1 FROM dataset WHERE name = NEW.name OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'a dataset is entered once'); END

CREATE TRIGGER dataset_numbered AFTER INSERT ON dataset WHEN NEW.rowid < 1
BEGIN SELECT RAISE(ABORT, 'rows are numbered from 1 on'); END

CREATE TRIGGER release_numbered AFTER INSERT ON release WHEN NEW.number < 1
BEGIN SELECT RAISE(ABORT, 'rows are numbered from 1 on'); END

CREATE TRIGGER release_kept BEFORE DELETE ON release
BEGIN SELECT RAISE(ABORT, 'a charged release stays in the ledger'); END

CREATE TRIGGER charge_kept BEFORE UPDATE ON release
WHEN (NEW.number, NEW.id, NEW.dataset, NEW.kind, NEW.epsilon, NEW.entries, NEW.part_of, NEW.part)
IS NOT (OLD.number, OLD.id, OLD.dataset, OLD.kind, OLD.epsilon, OLD.entries, OLD.part_of, OLD.part)
OR (NEW.reserved_at, NEW.key_check, NEW.input_hmac, NEW.request)
IS NOT (OLD.reserved_at, OLD.key_check, OLD.input_hmac, OLD.request)
BEGIN SELECT RAISE(ABORT, 'a charge stays as it was made'); END

CREATE TRIGGER mechanism_kept BEFORE UPDATE ON release
WHEN OLD.mechanism_json IS NOT NULL
AND (NEW.mechanism_digest, NEW.mechanism_json) IS NOT (OLD.mechanism_digest, OLD.mechanism_json)
BEGIN SELECT RAISE(ABORT, 'the mechanism of a release is fixed once'); END

CREATE TRIGGER commit_kept BEFORE UPDATE ON release
WHEN OLD.state = 'committed' AND (NEW.state, NEW.committed_at) IS NOT (OLD.state, OLD.committed_at)
BEGIN SELECT RAISE(ABORT, 'a committed release stays committed'); END

CREATE TRIGGER release_entered_once BEFORE INSERT ON release
WHEN EXISTS (SELECT 1 FROM release WHERE id = NEW.id OR number = NEW.number
OR (part_of = NEW.part_of AND part = NEW.part) OR (id = NEW.part_of AND part IS NEW.part))
BEGIN SELECT RAISE(ABORT, 'a release is charged once'); END

CREATE TRIGGER release_begins_reserved BEFORE INSERT ON release
WHEN NEW.state IS NOT 'reserved' OR NEW.mechanism_json IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a release is reserved, then fixed, then committed'); END

CREATE TRIGGER batch_kept BEFORE DELETE ON batch
BEGIN SELECT RAISE(ABORT, 'a batch stays in the ledger'); END

CREATE TRIGGER batch_unchanged BEFORE UPDATE ON batch
BEGIN SELECT RAISE(ABORT, 'a batch stays as it was recorded'); END

CREATE TRIGGER batch_appended BEFORE INSERT ON batch
WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM batch WHERE release = NEW.release)
OR EXISTS (SELECT 1 FROM batch WHERE release = NEW.release AND input_hmac = NEW.input_hmac)
BEGIN SELECT RAISE(ABORT, 'a batch is recorded once, as the next one of its release'); END

CREATE TRIGGER entry_kept BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'an entry stays in the journal'); END

CREATE TRIGGER entry_unchanged BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'an entry stays as it was written'); END

CREATE TRIGGER entry_appended BEFORE INSERT ON journal
WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM journal)
BEGIN SELECT RAISE(ABORT, 'an entry is added at the end of the journal'); END
"""
_STATEMENTS = _SCHEMA.strip().split("\n\n")


def require_guards(connection: sqlite3.Connection, path: Path, *, alone: bool = False) -> None:
    """Raise `LedgerBroken` unless the file has our tables and triggers; with `alone`, also if it has others."""
    wanted = {statement.split()[2]: _plain(statement) for statement in _STATEMENTS}
    found = {
        name: _plain(sql)
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        if not name.startswith("sqlite_stat")  # written by ANALYZE
    }
    missing = [name for name, sql in wanted.items() if found.get(name) != sql]
    if missing:
        raise LedgerBroken(f"in {path} the table or trigger {missing[0]!r} was removed or changed")
    if alone and (others := found.keys() - wanted.keys()):
        raise LedgerBroken(f"{path} has a table, trigger or index {min(others)!r} that labeldp did not make")


def _plain(statement: str) -> str:
    return " ".join(statement.split())


_BROKEN = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR,  # a table or a column is missing, or a sum of records overflows 64 bits
    sqlite3.SQLITE_CONSTRAINT,  # a table contradicts our next row
    sqlite3.SQLITE_MISMATCH,
}
"""SQLite's codes for a file with wrong content: our statements are valid for every unmodified ledger."""


class LedgerLocked(LabelDPError):  # noqa: N818
    """Another process held the ledger for longer than the timeout. Nothing was changed, and trying again is safe."""

    exit_code = 3


def create_file(path: Path, timeout: float, *, exist_ok: bool) -> None:
    """Create an empty ledger file with mode 0600. Complete an existing empty file, which a crash here may leave."""
    try:
        # Closed at once: POSIX locks belong to the process, and closing a second descriptor later would drop SQLite's lock.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not exist_ok:
            raise InvalidInput(f"{path} exists already. Open it, or choose another path") from None
    except FileNotFoundError:
        raise InvalidInput(
            f"cannot make a ledger at {path}: the folder {path.parent} does not exist. Make it first"
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot make a ledger at {path}: {error.strerror}. Choose another path") from None
    with _connection(path, timeout) as connection:
        _begin_writing(connection, timeout)
        if _number(connection, "SELECT count(*) FROM sqlite_master") == 0:
            for statement in [*_STATEMENTS, f"PRAGMA application_id = {APPLICATION_ID}"]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        _check(connection, path)
        connection.execute("COMMIT")


@contextmanager
def transaction(path: Path, timeout: float, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
    """Run one transaction on the ledger at `path`: on disk when the block ends, rolled back if the block raises.

    DEFERRED is for reading one consistent state. IMMEDIATE takes the write lock first, so that data read by the block
    are still valid when it writes, and two writers cannot wait for each other. It raises an error for a file whose
    tables have lost their guards.
    """
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder, but a ledger is a file: give the path of the file")
    if not path.exists():
        raise InvalidInput(
            f"there is no ledger at {path}. Check the path, or make one: "
            "labeldp ledger create DB --dataset NAME --budget B"
        )
    with _connection(path, timeout) as connection:
        if kind == "IMMEDIATE":
            _begin_writing(connection, timeout)
        else:
            connection.execute("BEGIN DEFERRED")
        _check(connection, path)
        if kind == "IMMEDIATE":
            require_guards(connection, path)
        yield connection
        connection.execute("COMMIT")


@contextmanager
def _connection(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Open a connection that never creates a file. Closing it rolls back uncommitted changes."""
    try:
        with closing(
            sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None)
        ) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves data in the drive's cache
            connection.execute("PRAGMA foreign_keys = ON")
            yield connection
    except sqlite3.Error as error:
        explained = _explained(error, path, timeout)
        raise explained from (None if isinstance(explained, LedgerBroken) else error)
    except UnicodeDecodeError:  # raised by SQLite's own error message about a damaged schema
        raise LedgerBroken(f"SQLite cannot read {path} (not UTF-8)") from None


def _begin_writing(connection: sqlite3.Connection, timeout: float) -> None:
    """Take the write lock. Attempts become more frequent with the waiting time, so that every process gets its turn.

    SQLite's own waiting does the opposite: with sixteen processes that charged without a pause, one of them waited 12 s
    of 15.
    """
    started = time.monotonic()
    if (
        connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    ):  # another program set it, and the file keeps it
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA busy_timeout = 0")
    while True:
        waited = time.monotonic() - started
        try:
            connection.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited >= timeout:
                raise
        pause = max(0.0005, 0.1 / (1 + 4 * waited) ** 2)
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - only spreads the attempts
    connection.execute(f"PRAGMA busy_timeout = {int(1000 * timeout)}")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise an error for a database that is not a ledger, or that a newer version wrote."""
    if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise InvalidInput(
            f"{path} is not a labeldp ledger. Check the path, or make one: "
            "labeldp ledger create DB --dataset NAME --budget B"
        )
    version = _number(connection, "PRAGMA user_version")
    if version > SCHEMA_VERSION:
        raise InvalidInput(
            f"the ledger {path} was written by a newer labeldp: it has format {version}, this one knows formats up to "
            f"{SCHEMA_VERSION}. Nothing was changed. Upgrade labeldp and run again"
        )
    if version < 1:
        raise LedgerBroken(f"{path} states the format {version}, which does not exist")


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _explained(error: sqlite3.Error, path: Path, timeout: float) -> Exception:
    """Turn SQLite's error into one of ours, with advice."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF  # extended codes carry the primary one in their low byte
    if primary in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return LedgerLocked(
            f"the ledger {path} is locked: another process held it for more than {timeout:g} s. Nothing was changed. "
            "Wait for that process or end it, then run again"
        )
    if primary == sqlite3.SQLITE_NOTADB:
        return InvalidInput(
            f"{path} is not a labeldp ledger, or its first bytes were overwritten ({error}). Check the path. If it was your ledger, "
            "release nothing more until you know why. If you restore a backup, charge again what was released since"
        )
    if primary in _BROKEN or (code is None and isinstance(error, sqlite3.OperationalError)):  # text that is not UTF-8
        # SQLite quotes a damaged schema, which may contain parts of any other file. Otherwise it quotes our names.
        quotes = primary in {None, sqlite3.SQLITE_CORRUPT} or "schema" in str(error)
        words = getattr(error, "sqlite_errorname", "not UTF-8") if quotes else str(error)
        return LedgerBroken(f"SQLite cannot work with {path} ({words})")
    if primary in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}:
        return InvalidInput(
            f"cannot open the ledger {path} ({error}). You must be able to write to the file and to its folder"
        )
    if primary in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
        return LabelDPError(
            f"the ledger {path} could not be read or written ({error}), so nothing may be released. "
            "Check the disk and its free space, then run again"
        )
    return LabelDPError(f"the ledger {path} refused an operation: {error}")
