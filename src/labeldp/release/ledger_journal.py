"""The ledger's journal: one entry for each thing that happened, chained by hashes.

An entry is a line of canonical JSON. Its hash is SHA-256 over the hash before it and this line, so a hash stands for
everything up to its entry. Each transaction of the ledger writes its entry itself: there is no state without an entry and no
entry without its state. Adding an entry hashes two lines, however long the journal is.

What the chain shows: an entry that was changed, removed or put in between, and tables that do not say what the entries say
(`ledger_replay`). What it cannot show by itself: a file that was replaced by an older copy, or rewritten as a whole with new
hashes. That is found by a head hash that was noted elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from labeldp.budget import abbreviated
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.json_text import parse_json
from labeldp.release.ledger_actions import Facts, check_facts

JOURNAL_TABLE = """
    CREATE TABLE journal (
        number INTEGER PRIMARY KEY,
        entry TEXT NOT NULL,
        hash TEXT NOT NULL
    )
    """

BEGINNING = "0" * 64
"""The hash before the first entry."""


class LedgerBroken(LabelDPError):  # noqa: N818
    """Something in a ledger's file is not as labeldp left it. Release nothing more until it is known why.

    Attributes
    ----------
    entry : int or None
        The number of the first bad entry, if it is about one.
    """

    exit_code = 3

    def __init__(self, wrong: str, entry: int | None = None) -> None:
        self.wrong, self.entry = wrong, entry
        where = "" if entry is None else f" (journal entry {entry:,})"
        super().__init__(
            f"the ledger was damaged or changed by hand{where}: {wrong}. Release nothing more until you know why. If you restore "
            "a backup, charge again what was released since"
        )

    def __reduce__(self) -> tuple[type[LedgerBroken], tuple[str, int | None]]:
        return type(self), (self.wrong, self.entry)  # pickling calls __init__ with these


class UnknownEntry(LedgerBroken):
    """The journal has an entry of a kind that this version does not know, so the ledger cannot be checked.

    Attributes
    ----------
    entry : int
        The number of the first such entry.
    """

    def __init__(self, action: str, entry: int) -> None:
        self.wrong, self.entry = action, entry
        Exception.__init__(
            self,
            f"journal entry {entry:,} of the ledger is a {abbreviated(action)}, which this labeldp does not know: a newer "
            "labeldp wrote it, or it was changed by hand. Upgrade labeldp and check again; release nothing more until then",
        )


def append(connection: sqlite3.Connection, action: str, **facts: Any) -> None:
    """Adds an entry at the end. The entry that was last must have the hash that it says.

    What is not text or a number where `ACTIONS` says so is refused: SQLite might hold it in another form than the journal.
    """
    try:
        check_facts(action, facts)
    except ValueError as error:
        raise InvalidInput(
            f"an entry {action!r} cannot be written to the ledger: {error}. Nothing was changed"
        ) from None
    last = connection.execute("SELECT number, entry, hash FROM journal ORDER BY number DESC LIMIT 2").fetchall()
    number, previous = 0, BEGINNING
    if last:
        number, entry, previous = last[0]
        if previous != chained(last[1]["hash"] if len(last) > 1 else BEGINNING, entry):
            raise LedgerBroken("its text does not have the hash that stands beside it", number)
    text = json.dumps({"action": action, **facts}, sort_keys=True, separators=(",", ":"))
    connection.execute(
        "INSERT INTO journal (number, entry, hash) VALUES (?, ?, ?)", (number + 1, text, chained(previous, text))
    )


def entries(connection: sqlite3.Connection) -> Iterator[tuple[int, str, Facts]]:
    """Every entry with its number and its hash, in order. Refuses the first one that breaks the chain."""
    previous = BEGINNING
    rows = connection.execute("SELECT number, entry, hash FROM journal ORDER BY number")
    for expected, (number, entry, stated) in enumerate(rows, start=1):
        if number != expected:
            raise LedgerBroken(f"it is missing, and entry {number:,} follows", expected)
        if stated != chained(previous, entry):
            raise LedgerBroken("its text does not have the hash that stands beside it", number)
        try:
            facts = parse_json(entry, "its text")
        except InvalidInput as error:
            raise LedgerBroken(str(error), number) from None
        if not isinstance(facts, dict):
            raise LedgerBroken("it is not a record", number)
        yield number, stated, facts
        previous = stated


def chained(previous: object, entry: object) -> str | None:
    """The hash of an entry that follows the hash `previous`; None for what is not text."""
    if not isinstance(previous, str) or not isinstance(entry, str):
        return None
    return hashlib.sha256(f"{previous}\n{entry}".encode("utf-8", "surrogatepass")).hexdigest()


def imported(connection: sqlite3.Connection) -> Iterator[Facts]:
    """The entries that the rows of a file of format 1 become."""
    for table, order in (("dataset", "rowid"), ("release", "number")):
        for row in rows_of(connection, table, order):
            yield {"action": f"import {table}", **row}


def import_rows(connection: sqlite3.Connection) -> None:
    """Begins the journal of a file of format 1."""
    for facts in list(imported(connection)):
        try:
            append(connection, **facts)
        except InvalidInput as error:
            raise LedgerBroken(str(error)) from None


def rows_of(connection: sqlite3.Connection, table: str, order: str) -> Iterator[Facts]:
    """The rows of a table as the journal states them: a mechanism by the hash of its text."""
    for row in connection.execute(f"SELECT * FROM {table} ORDER BY {order}"):  # noqa: S608 - our own names
        facts = dict(row)
        if table == "release":
            del facts["number"]  # the order of the entries says it
            facts["mechanism_sha256"] = sha256_of(facts.pop("mechanism_json"))
        yield facts


def sha256_of(text: str | None) -> str | None:
    """SHA-256 of a text, in hexadecimal."""
    return None if text is None else hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()
