"""The check of a whole ledger: the journal is played again from its first entry, and the tables must say the same.

It takes O(entries) time and memory, and proves every stored mechanism again. The ledger is read in one transaction, so other
processes wait until that is done; mechanisms are proven afterwards, one by one.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass, field
from fractions import Fraction

from labeldp.budget import decimal_text
from labeldp.errors import InvalidInput
from labeldp.release.ledger_entries import stored_amount
from labeldp.release.ledger_journal import BEGINNING, Facts, LedgerBroken, entries, imported, rows_of

_CHARGE = frozenset(["id", "dataset", "epsilon", "reserved_at", "key_check", "input_hmac", "request"])
_RELEASE = {"committed_at": None, "mechanism_digest": None, "mechanism_sha256": None, "state": "reserved"}


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


@dataclass
class Replay:
    """What the entries so far amount to. Each row knows the entry that wrote it last."""

    datasets: dict[str, Facts] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    releases: dict[str, Facts] = field(default_factory=dict)
    batches: dict[tuple[str, int], Facts] = field(default_factory=dict)
    spent: dict[str, Fraction] = field(default_factory=dict)
    written: dict[tuple[str, object], int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    head: str = BEGINNING
    count: int = 0

    def play(self, number: int, facts: Facts) -> None:
        """Takes one entry; refuses one that could not have happened."""
        steps = {
            "dataset": self._dataset,
            "reserve": self._reserve,
            "fix": self._fix,
            "commit": self._commit,
            "batch": self._batch,
            "import dataset": self._import_dataset,
            "import release": self._import_release,
        }
        try:
            step = steps[facts.pop("action")]
            step(number, facts)
        except LedgerBroken:
            raise
        except InvalidInput as error:
            raise LedgerBroken(str(error), number) from error
        except (KeyError, TypeError, AttributeError) as error:
            raise LedgerBroken("a part of it is missing or is not what it should be", number) from error

    def _dataset(self, number: int, facts: Facts) -> None:
        name = facts["name"]
        if name.casefold() in self.names:
            raise InvalidInput(f"it enters the dataset {name!r} a second time")
        stored_amount(facts["budget"])
        self.names.add(name.casefold())
        self.datasets[name], self.spent[name] = facts, Fraction(0)
        self.written["dataset", name] = number

    def _reserve(self, number: int, facts: Facts) -> None:
        if facts.keys() != _CHARGE:
            raise InvalidInput("it says more or less of a release than its charge")
        self._charge(number, facts)

    def _charge(self, number: int, facts: Facts) -> None:
        identity, name = facts["id"], facts["dataset"]
        if identity in self.releases:
            raise InvalidInput(f"it charges release {identity} a second time")
        if name not in self.datasets:
            raise InvalidInput(f"it charges a dataset {name!r} that was not entered before")
        self.spent[name] += stored_amount(facts["epsilon"])
        budget = stored_amount(self.datasets[name]["budget"])
        if self.spent[name] > budget:
            raise InvalidInput(
                f"with it the releases of {name!r} cost ε = {decimal_text(self.spent[name])}, and its budget is "
                f"{decimal_text(budget)}"
            )
        self.releases[identity] = _RELEASE | facts
        self.written["release", identity] = number

    def _fix(self, number: int, facts: Facts) -> None:
        release = self._release(facts)
        if release["mechanism_sha256"] is not None:
            raise InvalidInput(f"it fixes the mechanism of release {facts['id']} a second time")
        for name in ("mechanism_digest", "mechanism_sha256"):
            release[name] = facts[name]
        self.written["release", facts["id"]] = self.fixed[facts["id"]] = number

    def _commit(self, number: int, facts: Facts) -> None:
        release = self._release(facts)
        if release["mechanism_sha256"] is None or release["state"] == "committed":
            raise InvalidInput(f"it commits release {facts['id']}, which has no mechanism or is committed already")
        release |= {"state": "committed", "committed_at": facts["committed_at"]}
        self.written["release", facts["id"]] = number

    def _batch(self, number: int, facts: Facts) -> None:
        identity, batch = facts["release"], facts["number"]
        if self._release({"id": identity})["mechanism_sha256"] is None:
            raise InvalidInput(f"it adds a batch to release {identity}, which has no mechanism")
        if batch != 1 and (identity, batch - 1) not in self.batches:
            raise InvalidInput(f"it records batch {batch} of release {identity}, and the batch before is missing")
        if (identity, batch) in self.batches:
            raise InvalidInput(f"it records batch {batch} of release {identity} a second time")
        self.batches[identity, batch] = facts
        self.written["batch", (identity, batch)] = number

    def _import_dataset(self, number: int, facts: Facts) -> None:
        self._only_at_first(number)
        self._dataset(number, facts)

    def _import_release(self, number: int, facts: Facts) -> None:
        self._only_at_first(number)
        self._charge(number, facts)
        if facts["mechanism_sha256"] is not None:
            self.fixed[facts["id"]] = number

    def _only_at_first(self, number: int) -> None:
        if number != len(self.datasets) + len(self.releases) + 1:
            raise InvalidInput("rows are taken over from format 1 before anything else happens, not later")

    def _release(self, facts: Facts) -> Facts:
        if facts["id"] not in self.releases:
            raise InvalidInput(f"it is about release {facts['id']}, which was not charged before")
        return self.releases[facts["id"]]

    def compare(self, connection: sqlite3.Connection, *, batches: bool) -> None:
        """Refuses tables that do not hold exactly what the entries amount to, in the same order."""
        self._compare("dataset", self.datasets, {row["name"]: row for row in rows_of(connection, "dataset", "rowid")})
        self._compare("release", self.releases, {row["id"]: row for row in rows_of(connection, "release", "number")})
        if batches:
            rows = rows_of(connection, "batch", "release, number")
            self._compare("batch", self.batches, {(row["release"], row["number"]): row for row in rows}, ordered=False)

    def _compare(self, table: str, wanted: dict, held: dict, *, ordered: bool = True) -> None:  # type: ignore[type-arg]
        for key, row in wanted.items():
            if held.get(key) != row:
                different = [name for name in row if held.get(key, {}).get(name, row) != row[name]]
                what = "is missing from" if key not in held else f"has another {', '.join(different)} in"
                raise LedgerBroken(f"the {table} {_shown(key)} {what} its table", self.written[table, key])
        for key in held:
            if key not in wanted:
                raise LedgerBroken(f"the table has a {table} {_shown(key)} that no entry of the journal tells of")
        if ordered and list(wanted) != list(held):
            raise LedgerBroken(f"the rows of the table {table} are in another order than their entries")


def replay(connection: sqlite3.Connection, *, expect: str | None, journal: bool) -> tuple[Replay, int | None]:
    """Plays the journal, and returns it with the number of the entry whose hash is `expect`. Checks the tables against it.

    Without a `journal`, in a file of format 1, the rows are taken for what they would become.
    """
    played, expected_at = Replay(), 0 if expect == BEGINNING else None
    if journal:
        for number, played.head, facts in entries(connection):
            played.play(number, facts)
            played.count = number
            expected_at = number if played.head == expect else expected_at
    else:
        for number, facts in enumerate(imported(connection), start=1):
            played.play(number, facts)
    if expect is not None and expected_at is None:
        raise LedgerBroken(
            f"its journal does not contain the hash {expect}. The file was replaced by an older copy or by another ledger, or it "
            "was rewritten"
        )
    played.compare(connection, batches=journal)
    return played, expected_at


def expected_hash(text: str | None) -> str | None:
    """A hash as it was noted, in small letters and without blanks around it."""
    text = None if text is None else text.strip()
    if text is not None and not re.fullmatch("[0-9a-fA-F]{64}", text):
        raise InvalidInput(
            f"a head hash has 64 hexadecimal digits, as `labeldp ledger verify` prints it, got {text!r:.80}"
        )
    return None if text is None else text.lower()


def _shown(key: object) -> str:
    return f"{key[1]} of release {key[0]}" if isinstance(key, tuple) else repr(key)
