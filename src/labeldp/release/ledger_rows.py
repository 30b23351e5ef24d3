"""The content of a ledger: datasets, releases and batches, how they are read from its file, and valid values.

SQLite stores any value in any column, and converts some of them to text. The journal would then disagree with the table
permanently. So arguments are checked here before they are written.
"""

import difflib
import hashlib
import hmac
import sqlite3
import unicodedata
from dataclasses import dataclass, field, fields
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal

from labeldp.budget import MAX_DIGITS, MIN_EPSILON, Epsilon, abbreviated, fraction_of
from labeldp.errors import InvalidInput, LabelDPError, described
from labeldp.release.ledger_journal import MAX_BUDGET, UNITS, LedgerBroken, stored_amount
from labeldp.release_kind import ReleaseKind


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
        The number of charged releases. Several labels under one charge count once.
    uncommitted : int
        The number of unfinished messages. Kinds that are drawn at once, such as sums, do not count.
    created_at : datetime
        When the dataset was added.
    unit : {"record", "person"}
        The unit of privacy: each record, or each person with all records.
    batches, batch_records : int
        The number of later batches that `apply` has begun to add to these releases, and the number of their records.
    """

    name: str
    budget: Fraction
    spent: Fraction
    releases: int
    uncommitted: int
    created_at: datetime
    unit: str = "record"
    batches: int = 0
    batch_records: int = 0

    @property
    def remaining(self) -> Fraction:
        """The ε that is left for later releases."""
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
    kind : ReleaseKind
        The kind of release: "labels", "sums", "score" or "report". `kind.resumable` is true for labels. Sums are drawn
        at once, without a mechanism, so there is nothing to commit or resume.
    epsilon : Fraction
        The charge for each record or each person.
    entries : int
        The maximum number of randomized labels per record, which is 1, or per person.
    part_of : str or None
        The release whose charge covers this one: several labels of the same persons are charged once.
    part : str or None
        The name of this label among them. A charge covers each of them once.
    state : {"reserved", "committed"}
        Whether the message is published.
    reserved_at, committed_at : datetime
        When it was charged, and when it was finished (or None).
    mechanism_digest, mechanism_json : str
        The mechanism, once it is fixed.
    key_check, input_hmac, request : str
        The data that a later run must match to resume this release: the key's fingerprint, the input's fingerprint and
        the settings.
    batches, batch_records : int
        The number of later batches that `apply` has begun to add, and the number of their records, including records
        that were already in the message.
    """

    id: str
    dataset: str
    kind: ReleaseKind
    epsilon: Fraction
    entries: int
    part_of: str | None
    part: str | None
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
    def fixed(self) -> bool:
        """Whether the mechanism is stored. Before that, nothing is randomized under this release."""
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
        The number of records in the batch, including records that were already in the message.
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
    """Return the names of all datasets, in the order of entry."""
    return [_text(row["name"]) for row in connection.execute("SELECT name FROM dataset ORDER BY rowid")]


def read_dataset(connection: sqlite3.Connection, name: str) -> Dataset:
    """Return the dataset of that name."""
    expect_texts(dataset=name)
    row = connection.execute("SELECT budget, created_at, unit FROM dataset WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise _unknown(name, dataset_names(connection))
    budget, created_at, unit = row
    # Grouped, because few amounts differ: adding fractions takes far longer than counting rows.
    query = (
        "SELECT epsilon, state, kind, part_of IS NULL AS charged, count(*) AS times FROM release WHERE dataset = ? "
        "GROUP BY epsilon, state, kind, charged"
    )
    charges = connection.execute(query, (name,)).fetchall()
    query = "SELECT count(*), coalesce(sum(records), 0) FROM batch JOIN release ON id = batch.release WHERE dataset = ?"
    batches, batch_records = connection.execute(query, (name,)).fetchone()
    return Dataset(
        name=name,
        budget=_amount(budget),
        spent=sum(
            (_amount(charge["epsilon"]) * charge["times"] for charge in charges if charge["charged"]), Fraction(0)
        ),
        releases=sum(charge["times"] for charge in charges if charge["charged"]),
        uncommitted=sum(
            charge["times"] for charge in charges if charge["state"] == "reserved" and _kind(charge["kind"]).resumable
        ),
        created_at=_time(created_at),
        unit=_unit(unit),
        batches=batches,
        batch_records=_count(batch_records),
    )


class OtherUnit(LabelDPError):  # noqa: N818
    """A release protects another unit of privacy than the budget of its dataset."""

    exit_code = 3


def expect_unit(dataset: Dataset, unit: str) -> None:
    """Raise `OtherUnit` if a release of that unit cannot be charged to the dataset."""
    if dataset.unit == unit:
        return
    way = (
        "Name the column of persons (--person) if this kind of release supports it, or charge another dataset"
        if dataset.unit == "person"
        else "Charge a dataset that was created for persons: labeldp ledger create DB --dataset NAME --budget B --unit person"
    )
    raise OtherUnit(
        f"the budget of the dataset {dataset.name!r} is for each {dataset.unit}, and this release protects each {unit}: their ε cannot "
        f"be added up. Nothing was charged. {way}"
    )


def _unknown(name: str, names: list[str]) -> InvalidInput:
    """Return the error for an unknown dataset, which suggests another one."""
    if not names:
        hint = "It is empty: add a dataset with `labeldp ledger create DB --dataset NAME --budget B`"
    elif close := difflib.get_close_matches(name, names, n=1):
        hint = f"Did you mean {close[0]!r}?"
    else:
        shown = ", ".join(repr(known) for known in names[:5]) + (", …" if len(names) > 5 else "")
        hint = f"It has {shown}"
    return InvalidInput(f"the ledger does not contain the dataset {described(name)}. {hint}")


def read_release(connection: sqlite3.Connection, release_id: str) -> Release:
    """Return the release of that id."""
    expect_texts(release_id=release_id)
    found = read_releases(connection, "WHERE id = ?", release_id)
    if not found:
        raise InvalidInput(
            f"the ledger does not contain the release {described(release_id)}: give the ledger that privatize charged for this message, if it "
            "did. `labeldp ledger history DB` lists the releases of a ledger"
        )
    return found[0]


def expect_mechanism(release: Release, digest: str) -> None:
    """Raise `InvalidInput` unless the mechanism of a release has this digest."""
    if release.mechanism_digest is None:
        raise InvalidInput(f"the mechanism of release {release.id} is not in the ledger yet. Nothing was randomized")
    if release.mechanism_digest != digest:
        raise InvalidInput(
            f"the ledger has another mechanism for release {release.id}: it states the digest {release.mechanism_digest}, not "
            f"{digest}. Something was damaged or restored from a backup. Nothing was randomized"
        )


def read_releases(connection: sqlite3.Connection, where: str, *values: str | None) -> list[Release]:
    """Return the releases that an SQL condition selects, oldest first."""
    columns = [column.name for column in fields(Release) if not column.name.startswith("batch")]
    names = [*columns, "batches", "batch_records"]  # by position: SQLite takes the spelling of names from the file
    of_release = "FROM batch WHERE batch.release = release.id"
    counts = f"(SELECT count(*) {of_release}), (SELECT coalesce(sum(records), 0) {of_release})"
    query = f"SELECT {', '.join(columns)}, {counts} FROM release {where} ORDER BY number"  # noqa: S608 - our own names
    found = []
    for row in connection.execute(query, values):
        known: dict[str, Any] = dict(zip(names, row, strict=True))
        texts = {name: _text(known[name]) for name in columns if known[name] is not None and name != "entries"}
        if not {"id", "dataset", "kind", "state", "reserved_at"} <= texts.keys():
            raise LedgerBroken("a release has an empty field")
        known |= {name: _time(texts[name]) for name in ("reserved_at", "committed_at") if name in texts}
        known |= {"kind": _kind(texts["kind"]), "epsilon": _amount(known["epsilon"])}
        known |= {name: _count(known[name]) for name in ("batch_records", "entries")}
        found.append(Release(**known))
    return found


def read_batches(connection: sqlite3.Connection, release_id: str) -> list[Batch]:
    """Return the later batches of a release, in order."""
    query = "SELECT release, number, records, input_hmac, recorded_at FROM batch WHERE release = ? ORDER BY number"
    return [
        Batch(_text(release), _count(number), _count(records), _text(input_hmac), _time(recorded_at))
        for release, number, records, input_hmac, recorded_at in connection.execute(query, (release_id,))
    ]


def _amount(text: object) -> Fraction:
    try:
        return stored_amount(text)
    except ValueError as error:
        raise LedgerBroken(str(error)) from None


def _unit(text: object) -> str:
    if text not in UNITS:
        raise LedgerBroken(f"it has a dataset with the unit {abbreviated(text)}, which this labeldp does not know")
    return str(text)


def _kind(text: object) -> ReleaseKind:
    if text not in set(ReleaseKind):
        raise LedgerBroken(f"it has a release of the kind {abbreviated(text)}, which this labeldp does not know")
    return next(kind for kind in ReleaseKind if kind == text)


def _count(value: object) -> int:
    """Return a number of records from the file. SQLite also accepts fractions and texts there."""
    if not isinstance(value, int):
        raise LedgerBroken("it contains something else in place of a number of records")
    return value


def _time(text: object) -> datetime:
    try:
        return datetime.fromisoformat(_text(text))
    except ValueError:
        raise LedgerBroken("it contains something else in place of a time") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise LedgerBroken("something in it is not text")
    return value


MAX_RECORDS = 10**12
"""The maximum number of records of one batch. SQLite adds them in 64 bits, so millions of such batches fit."""


def key_fingerprint(key: bytes) -> str:
    """Return a fingerprint by which a ledger recognises a key without storing it.

    Parameters
    ----------
    key : bytes
        The key: at least 16 random bytes.

    Returns
    -------
    str
        An HMAC-SHA256 of a constant, in hexadecimal.

    Raises
    ------
    InvalidInput
        If the key is too short, or is not bytes.

    Examples
    --------
    >>> from labeldp.release.ledger import key_fingerprint
    >>> key_fingerprint(bytes(32))[:16]
    '767084f6d106ae33'
    """
    if not isinstance(key, (bytes, bytearray)):
        raise InvalidInput(f"a key must be bytes, got {type(key).__name__}")
    if len(key) < 16:
        raise InvalidInput(f"a key needs at least 16 random bytes, this one has {len(key)}")
    return hmac.new(key, b"labeldp ledger key check", hashlib.sha256).hexdigest()


def dataset_name(name: str) -> str:
    """Return `name` if it is a valid name of a dataset."""
    plain = isinstance(name, str) and name.isprintable() and name == unicodedata.normalize("NFC", name).strip()
    if not plain or not 0 < len(name) <= 100:
        raise InvalidInput(
            f"{described(name)} cannot name a dataset: use 1 to 100 printable characters with no space at either end"
        )
    return name


def exact_budget(budget: Epsilon) -> Fraction:
    """Return a budget as a fraction. It is parsed like an epsilon, but may be up to a million."""
    value = fraction_of(budget)
    if value is None or not MIN_EPSILON <= value <= MAX_BUDGET or value.denominator > 10**MAX_DIGITS:
        raise InvalidInput(
            f"a budget must be a number above 0 and at most {MAX_BUDGET}, for instance 3 or 0.5, got {abbreviated(budget)}"
        )
    return value


def expect_texts(*, optional: tuple[str, ...] = (), **given: object) -> None:
    """Raise `InvalidInput` for arguments that are not text, or text that cannot be written as UTF-8. Arguments in `optional` may be None."""
    for name, value in given.items():
        if value is None and name in optional:
            continue
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be text, got {type(value).__name__}. Nothing was changed")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{name} has a lone surrogate at index {error.start}, which UTF-8 cannot encode. Nothing was changed"
            ) from None


def expect_records(records: object) -> None:
    """Raise `InvalidInput` unless `records` is the number of records of a batch."""
    if isinstance(records, bool) or not isinstance(records, int) or not 1 <= records <= MAX_RECORDS:
        raise InvalidInput(
            f"records must be the number of records in the batch, from 1 to {MAX_RECORDS:,}, got {abbreviated(records)}"
        )
