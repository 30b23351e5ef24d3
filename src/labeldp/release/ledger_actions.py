"""All that can happen to a ledger: for each action, the fields of its journal entry and what it does to the rows.

`ledger_journal.append` writes no entry with other fields, and the check of a ledger (`ledger_replay`) accepts none. A step raises
`ValueError` if it could not have happened after the entries before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from types import NoneType
from typing import Any

from labeldp.budget import decimal_text
from labeldp.release.ledger_values import stored_amount

Facts = dict[str, Any]
"""What an entry says of a row, or a row itself: a text, an integer or None for each name."""

_NOT_YET = {"committed_at": None, "mechanism_digest": None, "mechanism_sha256": None, "state": "reserved"}


@dataclass
class Rows:
    """The rows that the entries so far amount to. `written` and `fixed` know the entries that wrote them."""

    datasets: dict[str, Facts] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    releases: dict[str, Facts] = field(default_factory=dict)
    batches: dict[tuple[str, int], Facts] = field(default_factory=dict)
    spent: dict[str, Fraction] = field(default_factory=dict)
    written: dict[tuple[str, object], int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)

    def release(self, release_id: str) -> Facts:
        """The release of that id, which must have been charged before."""
        if release_id not in self.releases:
            raise ValueError(f"it is about release {release_id}, which was not charged before")
        return self.releases[release_id]


def _dataset(rows: Rows, number: int, facts: Facts) -> None:
    name = facts["name"]
    if name.casefold() in rows.names:
        raise ValueError(f"it enters the dataset {name!r} a second time")
    stored_amount(facts["budget"])
    rows.names.add(name.casefold())
    rows.datasets[name], rows.spent[name] = facts, Fraction(0)
    rows.written["dataset", name] = number


def _reserve(rows: Rows, number: int, facts: Facts) -> None:
    identity, name = facts["id"], facts["dataset"]
    if identity in rows.releases:
        raise ValueError(f"it charges release {identity} a second time")
    if name not in rows.datasets:
        raise ValueError(f"it charges a dataset {name!r} that was not entered before")
    rows.spent[name] += stored_amount(facts["epsilon"])
    budget = stored_amount(rows.datasets[name]["budget"])
    if rows.spent[name] > budget:
        raise ValueError(
            f"with it the releases of {name!r} cost ε = {decimal_text(rows.spent[name])}, and its budget is {decimal_text(budget)}"
        )
    rows.releases[identity] = _NOT_YET | facts
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
        raise ValueError(f"it commits release {facts['id']}, which has no mechanism or is committed already")
    release |= {"state": "committed", "committed_at": facts["committed_at"]}
    rows.written["release", facts["id"]] = number


def _batch(rows: Rows, number: int, facts: Facts) -> None:
    identity, batch = facts["release"], facts["number"]
    if rows.release(identity)["mechanism_sha256"] is None:
        raise ValueError(f"it adds a batch to release {identity}, which has no mechanism")
    if batch != 1 and (identity, batch - 1) not in rows.batches:
        raise ValueError(f"it records batch {batch} of release {identity}, and the batch before is missing")
    if (identity, batch) in rows.batches:
        raise ValueError(f"it records batch {batch} of release {identity} a second time")
    rows.batches[identity, batch] = facts
    rows.written["batch", (identity, batch)] = number


def _import_dataset(rows: Rows, number: int, facts: Facts) -> None:
    _only_at_first(rows, number)
    _dataset(rows, number, facts)


def _import_release(rows: Rows, number: int, facts: Facts) -> None:
    _only_at_first(rows, number)
    _reserve(rows, number, facts)
    if facts["mechanism_sha256"] is not None:
        rows.fixed[facts["id"]] = number


def _only_at_first(rows: Rows, number: int) -> None:
    if number != len(rows.datasets) + len(rows.releases) + 1:
        raise ValueError("rows are taken over from format 1 before anything else happens, not later")


@dataclass(frozen=True)
class Action:
    """Something that can happen: the types of its entry's fields, and its step from the rows before to those after."""

    fields: dict[str, tuple[type, ...]]
    step: Callable[[Rows, int, Facts], None]


def _action(step: Callable[[Rows, int, Facts], None], texts: str, *, optional: str = "", numbers: str = "") -> Action:
    """An action whose fields are texts, texts or None, and integers."""
    fields: dict[str, tuple[type, ...]] = dict.fromkeys(texts.split(), (str,))
    fields |= dict.fromkeys(optional.split(), (str, NoneType))
    return Action(fields | dict.fromkeys(numbers.split(), (int,)), step)


ACTIONS = {
    "dataset": _action(_dataset, "name budget created_at"),
    "reserve": _action(_reserve, "id dataset epsilon reserved_at", optional="key_check input_hmac request"),
    "fix": _action(_fix, "id fixed_at mechanism_digest mechanism_sha256"),
    "commit": _action(_commit, "id committed_at"),
    "batch": _action(_batch, "release input_hmac recorded_at", numbers="number records"),
    # what the rows of a file of format 1 became
    "import dataset": _action(_import_dataset, "name budget created_at"),
    "import release": _action(
        _import_release,
        "id dataset epsilon state reserved_at",
        optional="committed_at mechanism_digest key_check input_hmac request mechanism_sha256",
    ),
}


def check_facts(action: str, facts: Facts) -> None:
    """Raises `ValueError` unless an entry has exactly the fields of its action, each of the right type."""
    if action not in ACTIONS:
        raise ValueError("there is no such action")
    fields = ACTIONS[action].fields
    if facts.keys() != fields.keys():
        different = ", ".join(sorted(facts.keys() ^ fields.keys()))
        raise ValueError(f"it says more or less than an entry {action!r} does: {different}")
    wrong = [
        name for name, types in fields.items() if not isinstance(facts[name], types) or isinstance(facts[name], bool)
    ]
    if wrong:
        raise ValueError(f"its {wrong[0]} is not {'a number' if int in fields[wrong[0]] else 'text'}")
