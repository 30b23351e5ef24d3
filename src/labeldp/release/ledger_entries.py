"""What a ledger holds, datasets, releases and batches, and how they are read from its file."""

import difflib
import sqlite3
from dataclasses import dataclass, field, fields
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal

from labeldp.errors import InvalidInput, described
from labeldp.release.ledger_journal import LedgerBroken
from labeldp.release.ledger_schema import format_of
from labeldp.release.ledger_values import expect_texts, stored_amount

SUMS_REQUEST = '{"release": "private sums"'
"""How the request of a release of noisy sums begins."""


@dataclass(frozen=True)
class Dataset:
    """A dataset in a ledger and the state of its budget.

    Attributes
    ----------
    name : str
        The dataset's name.
    budget : Fraction
        The ε that all releases may cost together.
    spent : Fraction
        The ε of all charged releases, committed or not.
    releases : int
        How many releases were charged.
    uncommitted : int
        How many of them were not finished. Noisy sums, which are drawn at once, do not count.
    created_at : datetime
        When the dataset was entered.
    batches, batch_records : int
        How many later batches `apply` has begun to add to these releases, and how many records were in them.
    """

    name: str
    budget: Fraction
    spent: Fraction
    releases: int
    uncommitted: int
    created_at: datetime
    batches: int = 0
    batch_records: int = 0

    @property
    def remaining(self) -> Fraction:
        """What later releases may still cost together."""
        return self.budget - self.spent


@dataclass(frozen=True)
class Release:
    """A charged release in a ledger.

    Attributes
    ----------
    id : str
        The random 128-bit id, in hexadecimal. The release's randomness depends on it.
    dataset : str
        The name of the charged dataset.
    epsilon : Fraction
        What was charged.
    state : {"reserved", "committed"}
        Whether the message is in place.
    reserved_at, committed_at : datetime
        When it was charged, and when it was finished (or None).
    mechanism_digest, mechanism_json : str
        The mechanism, once it is fixed.
    key_check, input_hmac, request : str
        What a later run must have in common with this release to resume it: the key's fingerprint, the input's
        fingerprint and the settings.
    batches, batch_records : int
        How many later batches `apply` has begun to add, and how many records were in them, those that the message held
        already included.
    """

    id: str
    dataset: str
    epsilon: Fraction
    state: Literal["reserved", "committed"]
    reserved_at: datetime
    committed_at: datetime | None = None
    mechanism_digest: str | None = None
    mechanism_json: str | None = field(default=None, repr=False)
    key_check: str | None = field(default=None, repr=False)
    input_hmac: str | None = field(default=None, repr=False)
    request: str | None = field(default=None, repr=False)
    batches: int = 0
    batch_records: int = 0

    @property
    def of_sums(self) -> bool:
        """Whether noisy sums were released. They have no mechanism and are drawn at once, so there is nothing to commit or resume."""
        return self.request is not None and self.request.startswith(SUMS_REQUEST)

    @property
    def fixed(self) -> bool:
        """Whether the mechanism is stored. Before that, no label is randomized under this release."""
        return self.mechanism_json is not None


@dataclass(frozen=True)
class Batch:
    """A later batch of a release in a ledger, recorded before anything was drawn for it.

    Attributes
    ----------
    release : str
        The id of the release.
    number : int
        1 for the first batch after the release itself.
    records : int
        How many records the batch has, those that the message held already included.
    input_hmac : str
        The HMAC of its ids and labels.
    recorded_at : datetime
        When it was recorded.
    """

    release: str
    number: int
    records: int
    input_hmac: str = field(repr=False)
    recorded_at: datetime


def dataset_names(connection: sqlite3.Connection) -> list[str]:
    """The names of all datasets, in the order in which they were entered."""
    return [_text(row["name"]) for row in connection.execute("SELECT name FROM dataset ORDER BY rowid")]


def read_dataset(connection: sqlite3.Connection, name: str) -> Dataset:
    """The dataset of that name; refuses one that is not in the ledger."""
    expect_texts(dataset=name)
    row = connection.execute("SELECT * FROM dataset WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise _unknown(name, dataset_names(connection))
    # Grouped, since few amounts differ: adding up fractions takes far longer than counting rows.
    query = (
        "SELECT epsilon, state, coalesce(substr(request, 1, ?) = ?, 0) AS sums, count(*) AS times FROM release WHERE dataset = ? "
        "GROUP BY epsilon, state, sums"
    )
    charges = connection.execute(query, (len(SUMS_REQUEST), SUMS_REQUEST, name)).fetchall()
    batches, batch_records = 0, 0
    if format_of(connection) > 1:
        query = (
            "SELECT count(*), coalesce(sum(records), 0) FROM batch JOIN release ON id = batch.release WHERE dataset = ?"
        )
        batches, batch_records = connection.execute(query, (name,)).fetchone()
    return Dataset(
        name=name,
        budget=_amount(_field(row, "budget")),
        spent=sum((_amount(charge["epsilon"]) * charge["times"] for charge in charges), Fraction(0)),
        releases=sum(charge["times"] for charge in charges),
        uncommitted=sum(charge["times"] for charge in charges if charge["state"] == "reserved" and not charge["sums"]),
        created_at=_time(_field(row, "created_at")),
        batches=batches,
        batch_records=_count(batch_records),
    )


def _unknown(name: str, names: list[str]) -> InvalidInput:
    """An error that suggests a dataset."""
    if not names:
        hint = "It has none yet: add one with `labeldp ledger create DB --dataset NAME --budget B`"
    elif close := difflib.get_close_matches(name, names, n=1):
        hint = f"Did you mean {close[0]!r}?"
    else:
        shown = ", ".join(repr(known) for known in names[:5]) + (", …" if len(names) > 5 else "")
        hint = f"It has {shown}"
    return InvalidInput(f"the ledger has no dataset {described(name)}. {hint}")


def read_release(connection: sqlite3.Connection, release_id: str) -> Release:
    """The release of that id; refuses one that is not in the ledger."""
    expect_texts(release_id=release_id)
    found = read_releases(connection, "WHERE id = ?", release_id)
    if not found:
        raise InvalidInput(
            f"the ledger has no release {described(release_id)}: give the ledger that privatize charged for this message, if it "
            "did. `labeldp ledger history DB` lists the releases of a ledger"
        )
    return found[0]


def expect_mechanism(release: Release, digest: str) -> None:
    """Refuses a release whose mechanism in the ledger is not the one with this digest."""
    if release.mechanism_digest is None:
        raise InvalidInput(f"release {release.id} has no mechanism in the ledger yet. Nothing was randomized")
    if release.mechanism_digest != digest:
        raise InvalidInput(
            f"the ledger has another mechanism for release {release.id}: it states the digest {release.mechanism_digest}, not "
            f"{digest}. Something was damaged or restored from a backup. Nothing was randomized"
        )


def read_releases(connection: sqlite3.Connection, where: str, *values: str | None) -> list[Release]:
    """The releases that an SQL condition selects, oldest first."""
    columns = [column.name for column in fields(Release) if not column.name.startswith("batch")]
    names = [*columns, "batches", "batch_records"]  # by place, since SQLite spells names as a damaged file does
    query = f"SELECT {', '.join(columns)}, {_batch_columns(connection)} FROM release {where} ORDER BY number"  # noqa: S608
    found = []
    for row in connection.execute(query, values):
        known: dict[str, Any] = dict(zip(names, row, strict=True))
        texts = {name: _text(known[name]) for name in columns if known[name] is not None}
        if not {"id", "dataset", "state", "reserved_at"} <= texts.keys():
            raise LedgerBroken("a release has an empty field")
        known |= {name: _time(texts[name]) for name in ("reserved_at", "committed_at") if name in texts}
        known["epsilon"] = _amount(known["epsilon"])
        known["batch_records"] = _count(known["batch_records"])
        found.append(Release(**known))
    return found


def read_batches(connection: sqlite3.Connection, release_id: str) -> list[Batch]:
    """The later batches of a release, in order."""
    if format_of(connection) == 1:
        return []
    names = [column.name for column in fields(Batch)]
    query = f"SELECT {', '.join(names)} FROM batch WHERE release = ? ORDER BY number"  # noqa: S608 - our own names
    found = []
    for row in connection.execute(query, (release_id,)):
        release, number, records, input_hmac, recorded_at = row
        found.append(Batch(_text(release), _count(number), _count(records), _text(input_hmac), _time(recorded_at)))
    return found


def _batch_columns(connection: sqlite3.Connection) -> str:
    """The number of batches of a release and of their records, for a query. Format 1 knew none."""
    if format_of(connection) == 1:
        return "0 AS batches, 0 AS batch_records"
    of_release = "FROM batch WHERE batch.release = release.id"
    return (
        f"(SELECT count(*) {of_release}) AS batches, (SELECT coalesce(sum(records), 0) {of_release}) AS batch_records"
    )


def _amount(text: object) -> Fraction:
    try:
        return stored_amount(text)
    except ValueError as error:
        raise LedgerBroken(str(error)) from None


def _count(value: object) -> int:
    """A number of records from the file, where SQLite takes fractions and texts too."""
    if not isinstance(value, int):
        raise LedgerBroken("it holds something else in place of a number of records")
    return value


def _field(row: sqlite3.Row, name: str) -> object:
    try:
        return row[name]
    except IndexError:
        raise LedgerBroken(f"it has no column {name}") from None


def _time(text: object) -> datetime:
    try:
        return datetime.fromisoformat(_text(text))
    except ValueError:
        raise LedgerBroken("it holds something else in place of a time") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise LedgerBroken("something in it is not text")
    return value
