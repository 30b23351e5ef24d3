"""The ledger's journal: one entry for each change, chained by hashes, and the check of a ledger against it.

An entry is a line of canonical JSON. Its hash is SHA-256 over the hash before it and this line, so a hash represents
everything up to its entry. Each transaction of the ledger writes its entry itself, so tables and journal change
together. Adding an entry hashes two lines, regardless of the length of the journal.

The chain reveals an entry that was changed, removed or inserted, and tables that differ from the entries. It cannot
reveal a file that was replaced by an older copy, or rewritten as a whole with new hashes. A head hash stored elsewhere
reveals that.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import NoneType
from typing import Any

from labeldp.budget import abbreviated, decimal_text, parse_amount
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.json_text import parse_json

BEGINNING = "0" * 64
"""The hash before the first entry."""

MAX_BUDGET = 10**6
"""The largest budget, and so the largest amount in a ledger."""

UNITS = ("record", "person")
"""The unit of privacy of a dataset: each record, or each person with all records."""

Facts = dict[str, Any]
"""An entry or a row: a text, an integer or None for each name."""


class LedgerBroken(LabelDPError):  # noqa: N818
    """A ledger's file was damaged or edited. Release nothing more until the cause is known.

    Attributes
    ----------
    entry : int or None
        The number of the first invalid entry, if the error is about one.
    """

    exit_code = 3

    def __init__(self, wrong: str, entry: int | None = None) -> None:
        self.wrong, self.entry = wrong, entry
        where = "" if entry is None else f" (journal entry {entry:,})"
        super().__init__(
            f"the ledger was damaged or edited{where}: {wrong}. Release nothing more until you know why. If you restore "
            "a backup, charge again what was released since"
        )

    def __reduce__(self) -> tuple[type[LedgerBroken], tuple[str, int | None]]:
        return type(self), (self.wrong, self.entry)  # pickling calls __init__ with these


class UnknownEntry(LedgerBroken):
    """The journal has an entry of an unknown kind, so the ledger cannot be checked.

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
            "labeldp wrote it, or it was edited. Upgrade labeldp and check again; release nothing more until then",
        )


@dataclass
class Rows:
    """The rows that the entries so far produce. `written` and `fixed` have the numbers of the entries that wrote them."""

    datasets: dict[str, Facts] = field(default_factory=dict)
    releases: dict[str, Facts] = field(default_factory=dict)
    batches: dict[tuple[str, int], Facts] = field(default_factory=dict)
    spent: dict[str, Fraction] = field(default_factory=dict)
    written: dict[tuple[str, object], int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)

    def release(self, release_id: str) -> Facts:
        """Return the release with that id, or raise `ValueError` if it was not charged before."""
        if release_id not in self.releases:
            raise ValueError(f"it is about release {release_id}, which was not charged before")
        return self.releases[release_id]


# Steps: each action changes the rows, and raises `ValueError` if it could not have happened after the entries before it.


def _dataset(rows: Rows, number: int, facts: Facts) -> None:
    name = facts["name"]
    if name.casefold() in map(str.casefold, rows.datasets):
        raise ValueError(f"it enters the dataset {name!r} a second time")
    stored_amount(facts["budget"])
    if facts["unit"] not in UNITS:
        raise ValueError(f"it enters a dataset with the unit {abbreviated(facts['unit'])}")
    rows.datasets[name], rows.spent[name] = facts, Fraction(0)
    rows.written["dataset", name] = number


def _reserve(rows: Rows, number: int, facts: Facts) -> None:
    identity, name = facts["id"], facts["dataset"]
    if identity in rows.releases:
        raise ValueError(f"it charges release {identity} a second time")
    if name not in rows.datasets:
        raise ValueError(f"it charges a dataset {name!r} that was not entered before")
    if facts["entries"] < 1 or (facts["entries"] > 1 and rows.datasets[name]["unit"] != "person"):
        raise ValueError(f"it charges release {identity} for another number of labels than its dataset's unit allows")
    if facts["part_of"] is None:
        rows.spent[name] += stored_amount(facts["epsilon"])
    else:
        whole = rows.release(facts["part_of"])
        same = ("dataset", "kind", "epsilon", "entries", "key_check")
        others = [whole["part"], *(row["part"] for row in rows.releases.values() if row["part_of"] == facts["part_of"])]
        fits = whole["part_of"] is None and facts["part"] is not None and facts["part"] not in others
        if not fits or any(whole[field] != facts[field] for field in same):
            raise ValueError(f"it enters release {identity} as a part of another charge than its own")
    budget = stored_amount(rows.datasets[name]["budget"])
    if rows.spent[name] > budget:
        raise ValueError(
            f"with it the releases of {name!r} cost ε = {decimal_text(rows.spent[name])}, and its budget is {decimal_text(budget)}"
        )
    open_fields = {"committed_at": None, "mechanism_digest": None, "mechanism_sha256": None, "state": "reserved"}
    rows.releases[identity] = open_fields | facts
    rows.written["release", identity] = number


def _fix(rows: Rows, number: int, facts: Facts) -> None:
    release = rows.release(facts["id"])
    if release["mechanism_sha256"] is not None:
        raise ValueError(f"it fixes the mechanism of release {facts['id']} a second time")
    release |= {name: facts[name] for name in ("mechanism_digest", "mechanism_sha256")}
    rows.written["release", facts["id"]] = rows.fixed[facts["id"]] = number


def _commit(rows: Rows, number: int, facts: Facts) -> None:
    release = rows.release(facts["id"])
    if release["mechanism_sha256"] is None or release["state"] == "committed":
        raise ValueError(
            f"it commits release {facts['id']}, whose mechanism is not fixed or which is committed already"
        )
    release |= {"state": "committed", "committed_at": facts["committed_at"]}
    rows.written["release", facts["id"]] = number


def _batch(rows: Rows, number: int, facts: Facts) -> None:
    identity, batch = facts["release"], facts["number"]
    if rows.release(identity)["mechanism_sha256"] is None:
        raise ValueError(f"it adds a batch to release {identity}, whose mechanism is not fixed")
    if batch != 1 and (identity, batch - 1) not in rows.batches:
        raise ValueError(f"it records batch {batch} of release {identity}, and the batch before is missing")
    if (identity, batch) in rows.batches:
        raise ValueError(f"it records batch {batch} of release {identity} a second time")
    rows.batches[identity, batch] = facts
    rows.written["batch", (identity, batch)] = number


@dataclass(frozen=True)
class Action:
    """An action: its step, and the names of its entry's fields by type."""

    step: Callable[[Rows, int, Facts], None]
    texts: str
    optional: str = ""
    numbers: str = ""

    @property
    def fields(self) -> dict[str, tuple[type, ...]]:
        """The valid types of each field."""
        kinds: list[tuple[str, tuple[type, ...]]]
        kinds = [(self.texts, (str,)), (self.optional, (str, NoneType)), (self.numbers, (int,))]
        return {name: types for names, types in kinds for name in names.split()}


ACTIONS = {
    "dataset": Action(_dataset, "name budget unit created_at"),
    "reserve": Action(
        _reserve,
        "id dataset kind epsilon reserved_at",
        optional="part_of part key_check input_hmac request",
        numbers="entries",
    ),
    "fix": Action(_fix, "id fixed_at mechanism_digest mechanism_sha256"),
    "commit": Action(_commit, "id committed_at"),
    "batch": Action(_batch, "release input_hmac recorded_at", numbers="number records"),
}


def check_facts(action: str, facts: Facts) -> None:
    """Raise `ValueError` unless an entry has exactly the fields of its action, each of the right type."""
    if action not in ACTIONS:
        raise ValueError("there is no such action")
    fields = ACTIONS[action].fields
    if facts.keys() != fields.keys():
        different = ", ".join(sorted(facts.keys() ^ fields.keys()))
        raise ValueError(f"it has missing or unexpected fields for an entry {action!r}: {different}")
    for name, types in fields.items():
        if not isinstance(facts[name], types) or isinstance(facts[name], bool):
            raise ValueError(f"its {name} is not {'a number' if int in types else 'text'}")  # noqa: TRY004 - a fault of the entry


def stored_amount(text: object) -> Fraction:
    """Return an amount from the file. Raise `ValueError` for anything else, because it could free budget."""
    try:
        value = parse_amount(text)
    except InvalidInput:
        value = Fraction(0)
    if not 0 < value <= MAX_BUDGET:
        raise ValueError(f"it contains {abbreviated(text)} in place of an amount")
    return value


def append(connection: sqlite3.Connection, action: str, **facts: Any) -> None:
    """Add an entry at the end, after checking the hash of the last one.

    Fields must have the types in `ACTIONS`: SQLite might store others in another form than the journal.
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
            raise LedgerBroken("its text does not have the hash next to it", number)
    text = json.dumps({"action": action, **facts}, sort_keys=True, separators=(",", ":"))
    connection.execute(
        "INSERT INTO journal (number, entry, hash) VALUES (?, ?, ?)", (number + 1, text, chained(previous, text))
    )


def entries(connection: sqlite3.Connection) -> Iterator[tuple[int, str, Facts]]:
    """Yield every entry with its number and its hash, in order. Raise `LedgerBroken` for the first that breaks the chain."""
    previous = BEGINNING
    rows = connection.execute("SELECT number, entry, hash FROM journal ORDER BY number")
    for expected, (number, entry, stated) in enumerate(rows, start=1):
        if number != expected:
            raise LedgerBroken(f"it is missing, and entry {number:,} follows", expected)
        if stated != chained(previous, entry):
            raise LedgerBroken("its text does not have the hash next to it", number)
        try:
            facts = parse_json(entry, "its text")
        except InvalidInput as error:
            raise LedgerBroken(str(error), number) from None
        if not isinstance(facts, dict):
            raise LedgerBroken("it is not a record", number)
        yield number, stated, facts
        previous = stated


def chained(previous: object, entry: object) -> str | None:
    """Return the hash of an entry that follows the hash `previous`, or None if it is not text."""
    if not isinstance(previous, str) or not isinstance(entry, str):
        return None
    return sha256_of(f"{previous}\n{entry}")


def sha256_of(text: str | None) -> str | None:
    """Return the SHA-256 of a text in hexadecimal."""
    return None if text is None else hashlib.sha256(str(text).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class Replay:
    """A replayed journal: the rows it produces, its head, its length, and the entry with the expected hash."""

    expected_at: int | None
    rows: Rows = field(default_factory=Rows)
    head: str = BEGINNING
    count: int = 0


def replay(connection: sqlite3.Connection, expect: str | None) -> Replay:
    """Replay the journal and check that the tables have exactly the rows that it produces, in the same order."""
    played = Replay(expected_at=0 if expect == BEGINNING else None)
    for played.count, played.head, facts in entries(connection):
        _take(played.rows, played.count, facts)
        if played.head == expect:
            played.expected_at = played.count
    if expect is not None and played.expected_at is None:
        raise LedgerBroken(
            f"its journal does not contain the hash {expect}. The file was replaced by an older copy or by another ledger, or it "
            "was rewritten"
        )
    rows = played.rows
    datasets = {row["name"]: row for row in _table(connection, "dataset", "rowid")}
    releases = {row["id"]: row for row in _table(connection, "release", "number")}
    batches = {(row["release"], row["number"]): row for row in _table(connection, "batch", "release, number")}
    _compare("dataset", rows.datasets, datasets, rows.written)
    _compare("release", rows.releases, releases, rows.written)
    _compare("batch", rows.batches, batches, rows.written, ordered=False)
    return played


def _take(rows: Rows, number: int, facts: Facts) -> None:
    """Apply one entry to the rows."""
    action = facts.pop("action", None)
    if not isinstance(action, str):
        raise LedgerBroken("it does not name its action", number)
    if action not in ACTIONS:
        raise UnknownEntry(action, number)
    try:
        check_facts(action, facts)
        ACTIONS[action].step(rows, number, facts)
    except ValueError as error:
        raise LedgerBroken(str(error), number) from error


def _table(connection: sqlite3.Connection, table: str, order: str) -> Iterator[Facts]:
    """Yield the rows of a table in the form of the journal: a mechanism is replaced by the hash of its text."""
    for row in connection.execute(f"SELECT * FROM {table} ORDER BY {order}"):  # noqa: S608 - our own names
        facts = dict(row)
        if table == "release":
            del facts["number"]  # the order of the entries gives it
            facts["mechanism_sha256"] = sha256_of(facts.pop("mechanism_json"))
        yield facts


def _compare(
    table: str,
    wanted: Mapping[Any, Facts],
    found: Mapping[Any, Facts],
    written: Mapping[Any, int],
    *,
    ordered: bool = True,
) -> None:
    """Raise `LedgerBroken` unless a table has exactly the wanted rows."""
    for key, row in wanted.items():
        if found.get(key) != row:
            different = [name for name in row if found.get(key, {}).get(name, row) != row[name]]
            what = "is missing from" if key not in found else f"has another {', '.join(different)} in"
            raise LedgerBroken(f"the {table} {_key_text(key)} {what} its table", written[table, key])
    for key in found:
        if key not in wanted:
            raise LedgerBroken(f"the table has a {table} {_key_text(key)} that is in no entry of the journal")
    if ordered and list(wanted) != list(found):
        raise LedgerBroken(f"the rows of the table {table} are in another order than their entries")


def _key_text(key: object) -> str:
    return f"{key[1]} of release {key[0]}" if isinstance(key, tuple) else repr(key)
