"""The ledger's SQLite file: its durable transactions, and SQLite's errors in plain words.

It uses a rollback journal rather than a WAL. The ledger is then one file that can be copied or moved, and no charge sits
in a `-wal` file that might get lost. With a rollback journal, `synchronous=FULL` may forget the last commit when power
fails, because the removal of the journal is not flushed. A charge must never be forgotten, so it uses EXTRA.
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
from labeldp.release.ledger_schema import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    create_schema,
    format_of,
    has_journal,
    require_guards,
    upgrade,
)

_BROKEN = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR,  # a table or a column is missing, or a sum of records leaves 64 bits
    sqlite3.SQLITE_CONSTRAINT,  # a table holds what our next row contradicts
    sqlite3.SQLITE_MISMATCH,
}
"""SQLite's codes for a file whose content is at fault: our statements are right for every ledger as labeldp made it."""


class LedgerLocked(LabelDPError):  # noqa: N818
    """Another process held the ledger for longer than the timeout. Nothing was changed, and trying again is safe."""

    exit_code = 3


def create_file(path: Path, timeout: float, *, exist_ok: bool) -> None:
    """Makes an empty ledger file with mode 0600. Completes an empty file, which a crash in here may leave."""
    try:
        # Closed at once: POSIX locks belong to the process, and closing a second descriptor later would drop SQLite's lock.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not exist_ok:
            raise InvalidInput(f"{path} exists already. Open it, or choose another path") from None
    except FileNotFoundError:
        raise InvalidInput(f"cannot make a ledger at {path}: there is no folder {path.parent}. Make it first") from None
    except OSError as error:
        raise InvalidInput(f"cannot make a ledger at {path}: {error.strerror}. Choose another path") from None
    with _connection(path, timeout) as connection:
        _begin_writing(connection, timeout)
        if _number(connection, "SELECT count(*) FROM sqlite_master") == 0:
            create_schema(connection)
        _check(connection, path)
        connection.execute("COMMIT")


@contextmanager
def transaction(path: Path, timeout: float, kind: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
    """One transaction on the ledger at `path`: on disk when the block ends, undone if the block raises.

    DEFERRED is for reading one consistent state. IMMEDIATE takes the write lock first, so that what the block reads still
    holds when it writes, and no two writers can wait for each other. It brings a file of an older format up to date, and refuses
    one whose tables have lost their guards.
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
        version = _check(connection, path)
        if kind == "IMMEDIATE":
            if version < SCHEMA_VERSION:
                upgrade(connection, path)
            require_guards(connection, path)
        yield connection
        connection.execute("COMMIT")


@contextmanager
def _connection(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection that never creates a file. Closing it rolls back what was not committed."""
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
    except UnicodeDecodeError:  # in the words of SQLite's own error about a damaged schema
        raise LedgerBroken(f"SQLite cannot read {path} (not UTF-8)") from None


def _begin_writing(connection: sqlite3.Connection, timeout: float) -> None:
    """Takes the write lock, trying more often the longer it has waited, so that every process gets its turn.

    SQLite's own waiting does the opposite: a process that has waited long loses to newcomers. With sixteen processes that
    charged without a pause, one waited for 12 s of 15.
    """
    started = time.monotonic()
    if (
        connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    ):  # another program chose it, and the file keeps it
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
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - only spreads the tries
    connection.execute(f"PRAGMA busy_timeout = {int(1000 * timeout)}")


def _check(connection: sqlite3.Connection, path: Path) -> int:
    """The format of the ledger. Refuses a database that is not a ledger or has a newer format."""
    if _number(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise InvalidInput(
            f"{path} is not a labeldp ledger. Check the path, or make one: "
            "labeldp ledger create DB --dataset NAME --budget B"
        )
    version = format_of(connection)
    if version > SCHEMA_VERSION:
        raise InvalidInput(
            f"the ledger {path} was written by a newer labeldp: it has format {version}, this one knows formats up to "
            f"{SCHEMA_VERSION}. Nothing was changed. Upgrade labeldp and run again"
        )
    if version < 1 or (version == 1 and has_journal(connection)):
        raise LedgerBroken(f"{path} says that its format is {version}, and its tables are not of that format")
    return version


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _explained(error: sqlite3.Error, path: Path, timeout: float) -> Exception:
    """SQLite's error as one of ours, with what to do."""
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
        # SQLite quotes a damaged schema, which may be overwritten with a part of any other file. Else it quotes our names.
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
