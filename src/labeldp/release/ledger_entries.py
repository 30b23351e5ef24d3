"""What a ledger holds, datasets and releases, and how they are read from its file."""

import difflib
import sqlite3
from dataclasses import dataclass, field, fields
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal

from labeldp.budget import abbreviated, parse_amount
from labeldp.errors import InvalidInput

MOST = 10**6
"""No amount in a ledger is larger: it is the largest budget."""


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
        How many of them were not finished.
    created_at : datetime
        When the dataset was entered.
    """

    name: str
    budget: Fraction
    spent: Fraction
    releases: int
    uncommitted: int
    created_at: datetime

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

    @property
    def fixed(self) -> bool:
        """Whether the mechanism is stored. Before that, no label is randomized under this release."""
        return self.mechanism_json is not None


def dataset_names(connection: sqlite3.Connection) -> list[str]:
    """The names of all datasets, in the order in which they were entered."""
    return [_text(row["name"]) for row in connection.execute("SELECT name FROM dataset ORDER BY rowid")]


def read_dataset(connection: sqlite3.Connection, name: str) -> Dataset:
    """The dataset of that name; refuses one that is not in the ledger."""
    row = connection.execute("SELECT * FROM dataset WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise _unknown(name, dataset_names(connection))
    charges = connection.execute("SELECT epsilon, state FROM release WHERE dataset = ?", (name,)).fetchall()
    return Dataset(
        name=name,
        budget=_stored(_field(row, "budget")),
        spent=sum((_stored(_field(charge, "epsilon")) for charge in charges), Fraction(0)),
        releases=len(charges),
        uncommitted=sum(charge["state"] == "reserved" for charge in charges),
        created_at=_time(_field(row, "created_at")),
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
    return InvalidInput(f"the ledger has no dataset {name!r}. {hint}")


def read_release(connection: sqlite3.Connection, release_id: str) -> Release:
    """The release of that id; refuses one that is not in the ledger."""
    found = read_releases(connection, "WHERE id = ?", release_id)
    if not found:
        raise InvalidInput(f"the ledger has no release {release_id!r}; `labeldp ledger history DB` lists them")
    return found[0]


def read_releases(connection: sqlite3.Connection, where: str, *values: str | None) -> list[Release]:
    """The releases that an SQL condition selects, oldest first."""
    columns = [column.name for column in fields(Release)]
    query = f"SELECT {', '.join(columns)} FROM release {where} ORDER BY number"  # noqa: S608 - our own text
    found = []
    for row in connection.execute(query, values):
        known: dict[str, Any] = {
            name: None if value is None else _text(value) for name, value in zip(columns, row, strict=True)
        }
        times = {name: _time(known[name]) for name in ("reserved_at", "committed_at") if known[name] is not None}
        if None in (known["id"], known["dataset"], known["state"], known["reserved_at"]):
            raise _damaged("a release has an empty field")
        found.append(Release(**known | times | {"epsilon": _stored(known["epsilon"])}))
    return found


def _stored(text: object) -> Fraction:
    """An amount from the file. Anything else there could free budget, so it is refused."""
    try:
        value = parse_amount(text)
    except InvalidInput:
        value = Fraction(0)
    if not 0 < value <= MOST:
        raise _damaged(f"it holds {abbreviated(text)} in place of an amount")
    return value


def _field(row: sqlite3.Row, name: str) -> object:
    try:
        return row[name]
    except IndexError:
        raise _damaged(f"it has no column {name}") from None


def _time(text: object) -> datetime:
    try:
        return datetime.fromisoformat(_text(text))
    except ValueError:
        raise _damaged("it holds something else in place of a time") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _damaged("something in it is not text")
    return value


def _damaged(what: str) -> InvalidInput:
    return InvalidInput(f"the ledger is damaged: {what}. Restore it from a backup")
