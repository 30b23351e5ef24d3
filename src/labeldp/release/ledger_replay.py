"""The check of a whole ledger: the journal is played again from its first entry, and the tables must say the same.

It takes O(entries) time and memory, and proves every stored mechanism again. The ledger is read in one transaction, so other
processes wait until that is done; mechanisms are proven afterwards, one by one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeldp.errors import InvalidInput
from labeldp.release.ledger_actions import ACTIONS, Facts, Rows, check_facts
from labeldp.release.ledger_entries import Release, expect_mechanism, read_release
from labeldp.release.ledger_journal import (
    BEGINNING,
    LedgerBroken,
    UnknownEntry,
    entries,
    imported,
    rows_of,
    sha256_of,
)
from labeldp.release.ledger_schema import format_of, require_guards


@dataclass(frozen=True)
class Verification:
    """What `Ledger.verify` found in order.

    Attributes
    ----------
    head : str
        The hash of the last entry, which stands for the whole journal. Note it where nobody who can write the ledger can
        change it, and give it to a later check as `expect`.
    entries : int
        How many entries the journal has; 0 for a file of format 1, which has none before its next charge.
    datasets, releases, batches : int
        How many of each there are.
    mechanisms : int
        How many stored mechanisms were proven, each within its charge.
    expected_at : int or None
        The number of the entry whose hash was expected.
    """

    head: str
    entries: int
    datasets: int
    releases: int
    batches: int
    mechanisms: int
    expected_at: int | None = None


def verify(
    path: Path, reading: Callable[[], AbstractContextManager[sqlite3.Connection]], expect: str | None
) -> Verification:
    """Checks the whole ledger at `path`; `reading` opens a transaction on it."""
    wanted = _expected_hash(expect)
    with reading() as connection:
        journal = format_of(connection) > 1
        if journal:
            require_guards(connection, path, alone=True)
        (report,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if report != "ok":  # an index that misses a row would hide a charge
            raise LedgerBroken(f"SQLite finds {path} damaged: {report}")
        played = _replayed(connection, expect=wanted, journal=journal)
    for release_id, entry in played.rows.fixed.items():
        with reading() as connection:  # a short transaction each: a proof may take seconds
            release = read_release(connection, release_id)
        _prove(release, entry, played.rows)
    return Verification(
        head=played.head,
        entries=played.count,
        datasets=len(played.rows.datasets),
        releases=len(played.rows.releases),
        batches=len(played.rows.batches),
        mechanisms=len(played.rows.fixed),
        expected_at=played.expected_at,
    )


@dataclass
class _Played:
    """The journal up to some entry: the rows it amounts to, its head, its length and where the expected hash was."""

    expected_at: int | None
    rows: Rows = field(default_factory=Rows)
    head: str = BEGINNING
    count: int = 0


def _replayed(connection: sqlite3.Connection, *, expect: str | None, journal: bool) -> _Played:
    """Plays the journal and checks the tables against it.

    Without a `journal`, in a file of format 1, the rows are taken for what they would become.
    """
    played = _Played(expected_at=0 if expect == BEGINNING else None)
    if journal:
        for played.count, played.head, facts in entries(connection):
            _play(played.rows, played.count, facts)
            if played.head == expect:
                played.expected_at = played.count
    else:
        for number, facts in enumerate(imported(connection), start=1):
            _play(played.rows, number, facts)
    if expect is not None and played.expected_at is None:
        raise LedgerBroken(
            f"its journal does not contain the hash {expect}. The file was replaced by an older copy or by another ledger, or it "
            "was rewritten"
        )
    _compare_tables(connection, played.rows, batches=journal)
    return played


def _play(rows: Rows, number: int, facts: Facts) -> None:
    """Takes one entry; refuses one that could not have happened."""
    action = facts.pop("action", None)
    if not isinstance(action, str):
        raise LedgerBroken("it does not say what happened", number)
    if action not in ACTIONS:
        raise UnknownEntry(action, number)
    try:
        check_facts(action, facts)
        ACTIONS[action].step(rows, number, facts)
    except ValueError as error:
        raise LedgerBroken(str(error), number) from error


def _compare_tables(connection: sqlite3.Connection, rows: Rows, *, batches: bool) -> None:
    """Refuses tables that do not hold exactly what the entries amount to, in the same order."""
    datasets = {row["name"]: row for row in rows_of(connection, "dataset", "rowid")}
    _compare("dataset", rows.datasets, datasets, rows.written)
    releases = {row["id"]: row for row in rows_of(connection, "release", "number")}
    _compare("release", rows.releases, releases, rows.written)
    if batches:
        held = {(row["release"], row["number"]): row for row in rows_of(connection, "batch", "release, number")}
        _compare("batch", rows.batches, held, rows.written, ordered=False)


def _compare(
    table: str,
    wanted: Mapping[Any, Facts],
    held: Mapping[Any, Facts],
    written: Mapping[Any, int],
    *,
    ordered: bool = True,
) -> None:
    for key, row in wanted.items():
        if held.get(key) != row:
            different = [name for name in row if held.get(key, {}).get(name, row) != row[name]]
            what = "is missing from" if key not in held else f"has another {', '.join(different)} in"
            raise LedgerBroken(f"the {table} {_shown(key)} {what} its table", written[table, key])
    for key in held:
        if key not in wanted:
            raise LedgerBroken(f"the table has a {table} {_shown(key)} that no entry of the journal tells of")
    if ordered and list(wanted) != list(held):
        raise LedgerBroken(f"the rows of the table {table} are in another order than their entries")


def _prove(release: Release, entry: int, rows: Rows) -> None:
    """Proves a stored mechanism again."""
    from labeldp.mechanisms import FiniteMechanism
    from labeldp.message.description import check_charge

    if sha256_of(release.mechanism_json) != rows.releases[release.id]["mechanism_sha256"]:
        raise LedgerBroken(f"the mechanism of release {release.id} changed during the check", entry)
    try:
        mechanism = FiniteMechanism.from_json(release.mechanism_json or "")
        expect_mechanism(release, mechanism.digest)
        check_charge(mechanism, release.epsilon)
    except InvalidInput as error:
        raise LedgerBroken(f"the mechanism of release {release.id} does not hold: {error}", entry) from error


def _expected_hash(text: str | None) -> str | None:
    """A hash as it was noted, in small letters and without blanks around it."""
    text = text.strip() if isinstance(text, str) else text
    if text is not None and not (isinstance(text, str) and re.fullmatch("[0-9a-fA-F]{64}", text)):
        raise InvalidInput(
            f"a head hash has 64 hexadecimal digits, as `labeldp ledger verify` prints it, got {text!r:.80}"
        )
    return None if text is None else text.lower()


def _shown(key: object) -> str:
    return f"{key[1]} of release {key[0]}" if isinstance(key, tuple) else repr(key)
