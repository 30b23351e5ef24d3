"""The budget ledger: what was agreed for each dataset, and every release that was charged to it.

One SQLite file. A release is *reserved*, and thereby charged, before the first label is randomized, its mechanism is
*fixed* next, and it is *committed* once its message is in place. Nothing is ever refunded, so a crash at any moment
can waste budget but cannot overspend it.
"""

from __future__ import annotations

import difflib
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import unicodedata
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Literal

from labeldp.budget import (
    MAX_DIGITS,
    MIN_EPSILON,
    Epsilon,
    abbreviated,
    decimal_text,
    exact_epsilon,
    fraction_of,
    parse_amount,
)
from labeldp.errors import InsufficientBudget, InvalidInput, LabelDPError
from labeldp.release.ledger_file import LedgerLocked, create_file, transaction

__all__ = ["LOCK_TIMEOUT", "MAX_BUDGET", "Dataset", "Ledger", "LedgerLocked", "Release", "key_fingerprint"]

LOCK_TIMEOUT = 30.0
"""Seconds to wait for other processes: a transaction takes milliseconds, so this long means that one is stuck."""

MAX_BUDGET = 10**6


@dataclass(frozen=True)
class Dataset:
    """One dataset and the state of its budget; `spent` counts every charged release, committed or not."""

    name: str
    budget: Fraction
    spent: Fraction
    releases: int
    uncommitted: int
    created_at: datetime

    @property
    def remaining(self) -> Fraction:
        return self.budget - self.spent


@dataclass(frozen=True)
class Release:
    """One charged release. `id` is its 128-bit release id in hex, the one that its randomness is keyed with."""

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
        """Whether its mechanism is settled. Before that, no label was randomized under this release."""
        return self.mechanism_json is not None


class Ledger:
    """A budget ledger on disk, safe to share between threads, forks and processes of one machine.

    Guarantee: for every dataset the ε of all releases ever reserved sum, in exact arithmetic, to at most its budget.
    Check and charge are one transaction under SQLite's write lock, on disk before `reserve` returns.

    Each call opens the file, does one transaction and closes it, so a `Ledger` is only a path: it may be pickled, copied
    and carried across forks. A call reads the dataset's releases once: O(releases).
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float | None = None) -> None:
        """Open an existing ledger; `timeout` is how many seconds to wait for other processes."""
        self.path = Path(path).absolute()
        self.timeout = LOCK_TIMEOUT if timeout is None else timeout
        with self._reading():  # a wrong path or a newer format shows here, not at the first charge
            pass

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, exist_ok: bool = False, timeout: float | None = None) -> Ledger:
        """Make an empty ledger that only its owner can read. With `exist_ok`, open it if it is there already."""
        create_file(Path(path).absolute(), LOCK_TIMEOUT if timeout is None else timeout, exist_ok=exist_ok)
        return cls(path, timeout=timeout)

    def add_dataset(self, name: str, budget: Epsilon) -> Dataset:
        """Enter a dataset with the total ε that its releases may ever cost. It can be neither removed nor changed."""
        name, amount = dataset_name(name), exact_budget(budget)
        with self._writing() as connection:
            for existing in _names(connection):
                if existing.casefold() == name.casefold():  # two spellings would be two budgets for the same data
                    raise InvalidInput(
                        f"the ledger {self.path} has a dataset {existing!r} already, and its budget stays as it was "
                        "agreed. Use another name for other data"
                    )
            connection.execute(
                "INSERT INTO dataset (name, budget, created_at) VALUES (?, ?, ?)", (name, decimal_text(amount), _now())
            )
            return _dataset(connection, name)

    def datasets(self) -> list[Dataset]:
        """All datasets in the order of their entry."""
        with self._reading() as connection:
            return [_dataset(connection, name) for name in _names(connection)]

    def remaining(self, dataset: str) -> Fraction:
        """What later releases of `dataset` may still cost together."""
        with self._reading() as connection:
            return _dataset(connection, dataset).remaining

    def history(self, dataset: str | None = None) -> list[Release]:
        """Every charged release, of one dataset or of all, oldest first."""
        with self._reading() as connection:
            if dataset is None:
                return _releases(connection, "")
            _dataset(connection, dataset)
            return _releases(connection, "WHERE dataset = ?", dataset)

    def require(self, dataset: str, epsilon: Epsilon, *, key_check: str | None = None) -> None:
        """Refuse early, before labels are read, what `reserve` would have to refuse later. Charges nothing.

        With `key_check`, passes if this key has an uncommitted release of the same ε, since that may turn out resumable.
        """
        amount = exact_epsilon(epsilon)
        with self._reading() as connection:
            remaining = _dataset(connection, dataset).remaining
            where = "WHERE dataset = ? AND epsilon = ? AND key_check = ? AND state = 'reserved'"
            pending = key_check and _releases(connection, where, dataset, decimal_text(amount), key_check)
        if amount > remaining and not pending:
            raise InsufficientBudget(dataset, amount, remaining)

    def reserve(
        self,
        dataset: str,
        epsilon: Epsilon,
        *,
        key_check: str | None = None,
        input_hmac: str | None = None,
        request: str | None = None,
    ) -> Release:
        """Charge `epsilon` to `dataset` for good and return the new release; InsufficientBudget if it does not fit.

        Call it before anything is drawn from the labels, the private prior included. A release that shall be resumable
        says here what it is: `key_fingerprint(key)`, the keyed HMAC of its ids and labels, and, as a text of the caller's
        making, whatever else was asked for (domain, loss, mechanism …).
        """
        amount = exact_epsilon(epsilon)
        if (key_check is None) != (input_hmac is None):
            raise InvalidInput("key_check and input_hmac go together: a release is resumed by both or not at all")
        with self._writing() as connection:
            remaining = _dataset(connection, dataset).remaining
            if amount > remaining:
                raise InsufficientBudget(dataset, amount, remaining)
            release = secrets.token_hex(16)
            connection.execute(
                "INSERT INTO release (id, dataset, epsilon, state, reserved_at, key_check, input_hmac, request) "
                "VALUES (?, ?, ?, 'reserved', ?, ?, ?, ?)",
                (release, dataset, decimal_text(amount), _now(), key_check, input_hmac, request),
            )
            return _release(connection, release)

    def find_resumable(
        self, dataset: str, epsilon: Epsilon, *, key_check: str, input_hmac: str, request: str | None = None
    ) -> Release | None:
        """A charged, uncommitted release of the same key, input, ε and request, or None. Continuing it costs nothing.

        If it is `fixed`, its stored mechanism must be used: keyed randomness then repeats every draw. If it is not, no
        label was randomized yet, and the caller draws a prior and fixes the mechanism as for a new release.
        """
        where = (
            "WHERE dataset = ? AND epsilon = ? AND key_check = ? AND input_hmac = ? AND request IS ? "
            "AND state = 'reserved'"
        )
        with self._reading() as connection:
            _dataset(connection, dataset)
            found = _releases(
                connection, where, dataset, decimal_text(exact_epsilon(epsilon)), key_check, input_hmac, request
            )
        return min(found, key=lambda release: not release.fixed, default=None)

    def fix(self, release_id: str, *, mechanism_json: str, mechanism_digest: str) -> Release:
        """Settle the mechanism of a reserved release, durably, before its first label is randomized.

        Only once: a second mechanism under one charge would be a second release. Repeating the same one is harmless;
        where another process was faster with a different one, this raises, and nothing may be randomized.
        """
        try:
            json.loads(mechanism_json)
        except (TypeError, ValueError):
            raise InvalidInput("mechanism_json must be the mechanism's JSON text, as to_json() gives it") from None
        with self._writing() as connection:
            release = _release(connection, release_id)
            if release.fixed:
                if (release.mechanism_json, release.mechanism_digest) == (mechanism_json, mechanism_digest):
                    return release
                raise LabelDPError(
                    f"the mechanism of release {release_id} is fixed already and cannot change; another process may be "
                    "working on the same release. Nothing was randomized: run again to resume with the stored mechanism"
                )
            connection.execute(
                "UPDATE release SET mechanism_json = ?, mechanism_digest = ? WHERE id = ?",
                (mechanism_json, mechanism_digest, release_id),
            )
            return _release(connection, release_id)

    def commit(self, release_id: str) -> Release:
        """Note that the release's message is in place. From now on it cannot be resumed. May be repeated."""
        with self._writing() as connection:
            release = _release(connection, release_id)
            if not release.fixed:
                raise LabelDPError(f"release {release_id} has no mechanism yet: fix it, randomize, then commit")
            if release.state == "reserved":
                connection.execute(
                    "UPDATE release SET state = 'committed', committed_at = ? WHERE id = ?", (_now(), release_id)
                )
            return _release(connection, release_id)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self.path, self.timeout, "DEFERRED")

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self.path, self.timeout, "IMMEDIATE")


def key_fingerprint(key: bytes) -> str:
    """A fingerprint by which a ledger recognises a key without holding it. Keys must be random, 16 bytes or more."""
    if len(key) < 16:
        raise InvalidInput(f"a key has at least 16 random bytes, this one has {len(key)}")
    return hmac.new(key, b"labeldp ledger key check", hashlib.sha256).hexdigest()


def dataset_name(name: str) -> str:
    """`name` if it may name a dataset."""
    if not (0 < len(name) <= 100 and name.isprintable() and name == unicodedata.normalize("NFC", name).strip()):
        raise InvalidInput(
            f"{name!r} cannot name a dataset: use 1 to 100 printable characters with no space at either end"
        )
    return name


def exact_budget(budget: Epsilon) -> Fraction:
    """The fraction that a budget stands for, by the rules of `labeldp.budget.exact`, but up to a million."""
    value = fraction_of(budget)
    if value is None or not MIN_EPSILON <= value <= MAX_BUDGET or value.denominator > 10**MAX_DIGITS:
        raise InvalidInput(
            f"a budget must be a number above 0 and at most {MAX_BUDGET}, for instance 3 or 0.5, got {abbreviated(budget)}"
        )
    return value


def _names(connection: sqlite3.Connection) -> list[str]:
    return [row["name"] for row in connection.execute("SELECT name FROM dataset ORDER BY rowid")]


def _dataset(connection: sqlite3.Connection, name: str) -> Dataset:
    row = connection.execute("SELECT * FROM dataset WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise _unknown(name, _names(connection))
    charges = connection.execute("SELECT epsilon, state FROM release WHERE dataset = ?", (name,)).fetchall()
    return Dataset(
        name=name,
        budget=_stored(row["budget"]),
        spent=sum((_stored(charge["epsilon"]) for charge in charges), Fraction(0)),
        releases=len(charges),
        uncommitted=sum(charge["state"] == "reserved" for charge in charges),
        created_at=datetime.fromisoformat(row["created_at"]),
    )


def _unknown(name: str, names: list[str]) -> InvalidInput:
    if not names:
        hint = "It has none yet: add one with `labeldp ledger create DB --dataset NAME --budget B`"
    elif close := difflib.get_close_matches(name, names, n=1):
        hint = f"Did you mean {close[0]!r}?"
    else:
        shown = ", ".join(repr(known) for known in names[:5]) + (", …" if len(names) > 5 else "")
        hint = f"It has {shown}"
    return InvalidInput(f"the ledger has no dataset {name!r}. {hint}")


def _release(connection: sqlite3.Connection, release_id: str) -> Release:
    found = _releases(connection, "WHERE id = ?", release_id)
    if not found:
        raise InvalidInput(f"the ledger has no release {release_id!r}; `labeldp ledger history DB` lists them")
    return found[0]


def _releases(connection: sqlite3.Connection, where: str, *values: str | None) -> list[Release]:
    columns = [column.name for column in fields(Release)]
    query = f"SELECT {', '.join(columns)} FROM release {where} ORDER BY number"  # noqa: S608 - our own text
    found = []
    for row in connection.execute(query, values):
        known = dict(row)
        known["epsilon"] = _stored(row["epsilon"])
        known["reserved_at"] = datetime.fromisoformat(row["reserved_at"])
        known["committed_at"] = row["committed_at"] and datetime.fromisoformat(row["committed_at"])
        found.append(Release(**known))
    return found


def _stored(text: str) -> Fraction:
    """An amount as the file holds it. Whatever is not one would otherwise free budget, so it stops everything."""
    try:
        value = parse_amount(text)
    except InvalidInput:
        value = Fraction(0)
    if value == 0:
        raise InvalidInput(
            f"the ledger is damaged: it holds {text!r} where an amount belongs. Restore it from a backup"
        )
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
