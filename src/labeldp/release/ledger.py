"""The budget ledger: the agreed budget of each dataset, and all releases that were charged to it.

It is one SQLite file. A release is *reserved*, and thereby charged, before anything is drawn from the labels. Its
mechanism is *fixed* before the first label is randomized. It is *committed* when its message is published. Nothing is
ever refunded, so a crash can waste budget but cannot overspend it.

Triggers in the file prevent accidents: no INSERT, UPDATE or DELETE can undo anything (`ledger_file`). They do not stop
the owner of the file. A journal of hashes, written in the same transactions, reveals changes afterwards
(`ledger_journal`).
"""

from __future__ import annotations

import math
import os
import re
import secrets
import sqlite3
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.budget import Epsilon, decimal_text, exact_epsilon, float_up
from labeldp.errors import InsufficientBudget, InvalidInput, LabelDPError, described, expect, expect_path
from labeldp.formatting import Tabular
from labeldp.release.ledger_file import create_file, require_guards, transaction
from labeldp.release.ledger_journal import UNITS, Facts, LedgerBroken, append, replay, sha256_of
from labeldp.release.ledger_rows import (
    Batch,
    Dataset,
    Release,
    dataset_name,
    dataset_names,
    exact_budget,
    expect_mechanism,
    expect_records,
    expect_texts,
    expect_unit,
    key_fingerprint,
    read_batches,
    read_dataset,
    read_release,
    read_releases,
)
from labeldp.release_kind import LABELS, ReleaseKind

if TYPE_CHECKING:
    import pyarrow as pa

    from labeldp.mechanisms import FiniteMechanism

__all__ = ["Ledger", "dataset_name", "exact_budget", "expect_mechanism", "key_fingerprint"]

LOCK_TIMEOUT = 30.0
"""The number of seconds to wait for other processes. A transaction takes milliseconds, so a process that takes this long is stuck."""


@dataclass(frozen=True)
class Verification:
    """The result of a successful `Ledger.verify`.

    Attributes
    ----------
    head : str
        The hash of the last entry, which represents the whole journal. Keep it where people with write access to the
        ledger cannot change it, and pass it to a later check as `expect`.
    entries : int
        The number of entries in the journal.
    datasets, releases, batches : int
        The number of each.
    mechanisms : int
        The number of stored mechanisms that were proven, each within its charge.
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


class Ledger(Tabular):
    """A budget ledger on disk: datasets, their budgets, and all releases that were charged to them.

    `privatize` charges a ledger automatically. Call `reserve`, `fix` and `commit` only if you implement your own release.

    Each call opens the file, does one transaction and closes the file. So a `Ledger` is only a path: threads, forks and
    processes on one machine may share, copy and pickle it. Each call takes O(releases) time.

    Parameters
    ----------
    path : str or Path
        An existing ledger. `Ledger.create` makes a new one.
    timeout : float, optional
        The number of seconds to wait for other processes; 30 by default.

    Attributes
    ----------
    path : Path
        The ledger's file.
    timeout : float
        The number of seconds to wait for other processes.

    Raises
    ------
    InvalidInput
        If `path` is not a ledger, or a newer version of labeldp wrote it.
    LedgerBroken
        If the file is damaged or was edited. Every method raises this error when it detects that.

    Privacy
    -------
    For each dataset, the ε of all releases ever reserved add up, in exact arithmetic, to at most its budget. The check and
    the charge are one transaction, which is on disk before `reserve` returns. Nothing is ever refunded. A stored mechanism is
    proven and costs at most the charge.

    This holds as long as only labeldp writes the file. Its triggers reject every INSERT, UPDATE or DELETE that would
    undo something. They prevent accidents, but do not stop the owner of the file, who can drop them. `verify` detects
    such a change. With a head hash that was stored elsewhere, it also detects a file that was replaced or rewritten.

    Examples
    --------
    >>> import tempfile
    >>> from labeldp import Ledger
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +ELLIPSIS
    ...     ledger = Ledger.create(f"{folder}/ledger.db")
    ...     _ = ledger.add_dataset("sales", budget=3)
    ...     _ = ledger.reserve("sales", 0.1)
    ...     print(ledger)
    ...     history = ledger.to_arrow()
    Ledger(path='.../ledger.db', sales left=2.9 of 3)
    >>> history.select(["dataset", "epsilon", "state"]).to_pylist()
    [{'dataset': 'sales', 'epsilon': 0.1, 'state': 'reserved'}]
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float | None = None) -> None:
        expect_path(path, "path", "give the file of the ledger")
        self.path = Path(path).absolute()
        self.timeout = LOCK_TIMEOUT if timeout is None else timeout
        with self._reading():  # a wrong path or a newer format fails here, not at the first charge
            pass

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, exist_ok: bool = False, timeout: float | None = None) -> Ledger:
        """Make an empty ledger that only its owner can read.

        Parameters
        ----------
        path : str or Path
            The new file.
        exist_ok : bool, default False
            Open an existing ledger instead of raising an error.
        timeout : float, optional
            The number of seconds to wait for other processes; 30 by default.

        Returns
        -------
        Ledger

        Raises
        ------
        InvalidInput
            If the file exists and `exist_ok` is false, or if it cannot be created.
        """
        create_file(Path(path).absolute(), LOCK_TIMEOUT if timeout is None else timeout, exist_ok=exist_ok)
        return cls(path, timeout=timeout)

    def add_dataset(self, name: str, budget: Epsilon, *, unit: str = "record") -> Dataset:
        """Add a dataset with the ε that all its releases may cost together. It can be neither removed nor changed.

        Parameters
        ----------
        name : str
            1 to 100 printable characters. Names that differ only in case are the same.
        budget : float, str, Decimal or Fraction
            At most a million. A float means its decimal form: 0.1 is 1/10.
        unit : {"record", "person"}, default "record"
            The unit of privacy: each record, or each person with all records. Releases of the other unit are rejected.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidInput
            If the name is taken or invalid, or if the budget is not a positive number.
        """
        name, amount = dataset_name(name), exact_budget(budget)
        if unit not in UNITS:
            raise InvalidInput(f'the unit of a dataset must be "record" or "person", got {described(unit)}')
        with self._writing() as connection:
            for existing in dataset_names(connection):
                if existing.casefold() == name.casefold():  # two spellings would be two budgets for the same data
                    raise InvalidInput(
                        f"the ledger {self.path} already has a dataset {existing!r}, and its budget cannot be changed. "
                        "Use another name for other data"
                    )
            row: Facts = {"name": name, "budget": decimal_text(amount), "unit": unit, "created_at": _now()}
            _insert(connection, "dataset", row)
            append(connection, "dataset", **row)
            return read_dataset(connection, name)

    def datasets(self) -> list[Dataset]:
        """Return all datasets, in the order of entry.

        Returns
        -------
        list of Dataset
        """
        with self._reading() as connection:
            return [read_dataset(connection, name) for name in dataset_names(connection)]

    def remaining(self, dataset: str) -> Fraction:
        """Return the ε that is left for later releases of a dataset.

        Parameters
        ----------
        dataset : str
            The dataset's name.

        Returns
        -------
        Fraction
        """
        with self._reading() as connection:
            return read_dataset(connection, dataset).remaining

    def history(self, dataset: str | None = None) -> list[Release]:
        """Return all charged releases, oldest first.

        Parameters
        ----------
        dataset : str, optional
            The name of a dataset; without it, the releases of all datasets.

        Returns
        -------
        list of Release
        """
        with self._reading() as connection:
            if dataset is None:
                return read_releases(connection, "")
            read_dataset(connection, dataset)
            return read_releases(connection, "WHERE dataset = ?", dataset)

    def to_arrow(self) -> pa.Table:
        """Return the history as a table, one row per release, oldest first.

        Returns
        -------
        pyarrow.Table
            The columns `id`, `dataset`, `kind`, `epsilon` (a float, rounded up), `epsilon_exact` (text), `entries`, `state`,
            `reserved_at`, `committed_at`, `mechanism_digest`, `batches` and `batch_records`.
        """
        import pyarrow as pa

        text, time = pa.string(), pa.timestamp("s", "UTC")
        types = dict.fromkeys(("id", "dataset", "kind", "epsilon", "epsilon_exact", "entries", "state"), text)
        types |= {"epsilon": pa.float64(), "entries": pa.int64(), "reserved_at": time, "committed_at": time}
        types |= {"mechanism_digest": text, "batches": pa.int64(), "batch_records": pa.int64()}
        rows = [
            vars(release) | {"epsilon": float_up(release.epsilon), "epsilon_exact": decimal_text(release.epsilon)}
            for release in self.history()
        ]
        return pa.Table.from_pylist(rows, pa.schema(types))

    def require(self, dataset: str, epsilon: Epsilon, *, unit: str = "record", key_check: str | None = None) -> None:
        """Raise an error if a release would exceed the budget, before labels are read. Nothing is charged.

        Parameters
        ----------
        dataset : str
            The dataset's name.
        epsilon : float, str, Decimal or Fraction
            The cost of the release.
        unit : {"record", "person"}, default "record"
            The unit that the release protects.
        key_check : str, optional
            The key's fingerprint. If this key has an uncommitted release of the same ε, no error is raised, because
            that release may be resumable.

        Raises
        ------
        InsufficientBudget
            If less than `epsilon` is left.
        OtherUnit
            If the budget of the dataset is for another unit.
        """
        expect_texts(optional=("key_check",), key_check=key_check)
        amount = exact_epsilon(epsilon)
        with self._reading() as connection:
            charged = read_dataset(connection, dataset)
            expect_unit(charged, unit)
            remaining = charged.remaining
            where = "WHERE dataset = ? AND epsilon = ? AND key_check = ? AND state = 'reserved'"
            pending = key_check and read_releases(connection, where, dataset, decimal_text(amount), key_check)
        if amount > remaining and not pending:
            raise InsufficientBudget(dataset, amount, remaining)

    def reserve(
        self,
        dataset: str,
        epsilon: Epsilon,
        *,
        kind: ReleaseKind = LABELS,
        unit: str = "record",
        entries: int = 1,
        part_of: str | None = None,
        part: str | None = None,
        key_check: str | None = None,
        input_hmac: str | None = None,
        request: str | None = None,
    ) -> Release:
        """Charge a new release to a dataset permanently.

        Call this before anything is drawn from the labels, the private prior included. Give `key_check` and
        `input_hmac` if the release should be resumable.

        Parameters
        ----------
        dataset : str
            The dataset's name.
        epsilon : float, str, Decimal or Fraction
            The cost of the release: prior and labels together.
        kind : ReleaseKind
            The kind of release: "labels", "sums", "score" or "report".
        unit : {"record", "person"}, default "record"
            The unit that the release protects.
        entries : int, default 1
            The maximum number of randomized labels per person. The mechanism may cost ε/entries.
        part_of : str, optional
            The id of a release whose charge also covers this one: another label of the same persons, with the same ε
            and key, whose entries were chosen jointly. Nothing more is charged then.
        part : str, optional
            The name of this label among them. A charge covers each of them once.
        key_check : str, optional
            The fingerprint of the key, from `key_fingerprint`.
        input_hmac : str, optional
            An HMAC of ids and labels under that key.
        request : str, optional
            All other settings (domain, loss, mechanism and so on), as a text of the caller's choice.

        Returns
        -------
        Release

        Raises
        ------
        InsufficientBudget
            If less than `epsilon` is left. Nothing is charged then.
        OtherUnit
            If the budget of the dataset is for another unit. Nothing is charged then.
        InvalidInput
            If the dataset is unknown, or an argument is invalid. Nothing is charged then.
        """
        expect(kind, ReleaseKind, "kind", "give one of labeldp.release_kind, such as LABELS")
        texts = {"part_of": part_of, "part": part, "key_check": key_check, "input_hmac": input_hmac, "request": request}
        expect_texts(optional=tuple(texts), **texts)
        amount = exact_epsilon(epsilon)
        if (key_check is None) != (input_hmac is None):
            raise InvalidInput("key_check and input_hmac go together: a release is resumed by both or not at all")
        if type(entries) is not int or not 1 <= entries <= (math.inf if unit == "person" else 1):
            raise InvalidInput("entries must be a whole number from 1, and 1 where a record is the unit")
        with self._writing() as connection:
            charged = read_dataset(connection, dataset)
            expect_unit(charged, unit)
            if part_of is not None:
                whole = read_release(connection, part_of)
                _check_part(whole, dataset, amount, entries, key_check)
                parts = {each.part for each in read_releases(connection, "WHERE part_of = ?", part_of)} | {whole.part}
                if part is None or part in parts:
                    raise InvalidInput(
                        f"the charge of release {part_of} covers each label once, and this one was released or begun already. Use "
                        "that message, or make a new release of all labels with another --out, which is charged"
                    )
            elif amount > charged.remaining:
                raise InsufficientBudget(dataset, amount, charged.remaining)
            release = secrets.token_hex(16)
            row: Facts = {"id": release, "dataset": dataset, "kind": kind.value, "epsilon": decimal_text(amount)}
            row |= {"entries": entries, "reserved_at": _now()} | texts
            _insert(connection, "release", row | {"state": "reserved"})
            append(connection, "reserve", **row)
            return read_release(connection, release)

    def find_resumable(
        self, dataset: str, epsilon: Epsilon, *, key_check: str, input_hmac: str, request: str | None = None
    ) -> Release | None:
        """Return a charged, uncommitted release with the same parameters, which may be continued at no cost, or None.

        If it is `fixed`, its stored mechanism must be used, so that keyed randomness repeats every draw. If it is not,
        nothing was randomized yet: draw a prior and fix the mechanism as for a new release.

        Parameters
        ----------
        dataset : str
            The dataset's name.
        epsilon : float, str, Decimal or Fraction
            The cost of the release.
        key_check : str
            The fingerprint of the key.
        input_hmac : str
            The HMAC of ids and labels.
        request : str, optional
            All other settings.

        Returns
        -------
        Release or None
        """
        expect_texts(optional=("request",), key_check=key_check, input_hmac=input_hmac, request=request)
        where = (
            "WHERE dataset = ? AND epsilon = ? AND key_check = ? AND input_hmac = ? AND request IS ? "
            "AND state = 'reserved'"
        )
        with self._reading() as connection:
            read_dataset(connection, dataset)
            found = read_releases(
                connection, where, dataset, decimal_text(exact_epsilon(epsilon)), key_check, input_hmac, request
            )
        return min(found, key=lambda release: not release.fixed, default=None)

    def fix(self, release_id: str, mechanism: FiniteMechanism) -> Release:
        """Store the mechanism of a reserved release. Call this before the first label is randomized.

        A release has one mechanism, because a second one under the same charge would be a second release. Storing the
        same mechanism again is harmless.

        Parameters
        ----------
        release_id : str
            The release's id.
        mechanism : FiniteMechanism
            The mechanism, whose ε is proven.

        Returns
        -------
        Release

        Raises
        ------
        InvalidInput
            If this is not a mechanism that can release labels, or if the release is of a kind without one, such as sums.
        PrivacyRefused
            If it costs more than was charged, including the private prior.
        LabelDPError
            If another mechanism is already stored, for example by a faster process. Then nothing may be randomized.
        """
        from labeldp.artifact.description import check_charge
        from labeldp.mechanisms import FiniteMechanism

        expect(mechanism, FiniteMechanism, "mechanism", "LabelRandomizer(...).fit(labels) makes one")
        text, digest = mechanism.to_json(), mechanism.digest
        with self._writing() as connection:
            release = read_release(connection, release_id)
            if not release.kind.resumable:
                raise InvalidInput(
                    f"release {release_id} is of {release.kind}, which do not have a mechanism: reserve one of labels"
                )
            check_charge(mechanism, release.epsilon, release.entries)
            if release.fixed:
                if (release.mechanism_json, release.mechanism_digest) == (text, digest):
                    return release
                raise LabelDPError(
                    f"the mechanism of release {release_id} is fixed already and cannot change; another process may be "
                    "working on the same release. Nothing was randomized: run again to resume with the stored mechanism"
                )
            connection.execute(
                "UPDATE release SET mechanism_json = ?, mechanism_digest = ? WHERE id = ?", (text, digest, release_id)
            )
            facts = {"mechanism_digest": digest, "mechanism_sha256": sha256_of(text)}
            append(connection, "fix", id=release_id, fixed_at=_now(), **facts)
            return read_release(connection, release_id)

    def commit(self, release_id: str) -> Release:
        """Record that a release's message is published. It cannot be resumed any more. This may be repeated.

        Parameters
        ----------
        release_id : str
            The release's id.

        Returns
        -------
        Release

        Raises
        ------
        LabelDPError
            If the mechanism is not fixed yet.
        """
        with self._writing() as connection:
            release = read_release(connection, release_id)
            if not release.fixed:
                raise LabelDPError(
                    f"the mechanism of release {release_id} is not fixed yet: fix it, randomize, then commit"
                )
            if release.state == "reserved":
                now = _now()
                connection.execute(
                    "UPDATE release SET state = 'committed', committed_at = ? WHERE id = ?", (now, release_id)
                )
                append(connection, "commit", id=release_id, committed_at=now)
            return read_release(connection, release_id)

    def record_batch(self, release_id: str, *, records: int, input_hmac: str, mechanism_digest: str) -> Batch:
        """Record that a later batch is about to be added to a release's message. Call this before anything is drawn for it.

        Nothing is charged: ε is the budget of each label, and the labels of a later batch are assumed to be new. The
        ledger shows the number of later batches, so that people can review it. The same batch is recorded only once.

        Parameters
        ----------
        release_id : str
            The release's id.
        records : int
            The number of records in the batch.
        input_hmac : str
            An HMAC of its ids and labels under the release's key.
        mechanism_digest : str
            The digest of the mechanism that will randomize it.

        Returns
        -------
        Batch

        Raises
        ------
        InvalidInput
            If the release is unknown or has another mechanism, or if an argument is invalid.
        """
        expect_records(records)
        expect_texts(input_hmac=input_hmac, mechanism_digest=mechanism_digest)
        with self._writing() as connection:
            expect_mechanism(read_release(connection, release_id), mechanism_digest)
            known = read_batches(connection, release_id)
            if not any(batch.input_hmac == input_hmac for batch in known):
                row: Facts = {"release": release_id, "number": len(known) + 1, "records": records}
                row |= {"input_hmac": input_hmac, "recorded_at": _now()}
                _insert(connection, "batch", row)
                append(connection, "batch", **row)
                known = read_batches(connection, release_id)
            return next(batch for batch in known if batch.input_hmac == input_hmac)

    def batches(self, release_id: str) -> list[Batch]:
        """Return the later batches of a release, in the order of recording.

        Parameters
        ----------
        release_id : str
            The release's id.

        Returns
        -------
        list of Batch
        """
        with self._reading() as connection:
            read_release(connection, release_id)
            return read_batches(connection, release_id)

    def release(self, release_id: str) -> Release:
        """Return the release with this id.

        Parameters
        ----------
        release_id : str
            The release's id.

        Returns
        -------
        Release

        Raises
        ------
        InvalidInput
            If the release is unknown.
        """
        with self._reading() as connection:
            return read_release(connection, release_id)

    def verify(self, expect: str | None = None) -> Verification:
        """Check the whole ledger: its journal, its tables and its mechanisms. Nothing is changed.

        The chain of hashes must be complete. The tables must contain exactly the rows that the entries produce. No
        dataset may be overspent at any entry. Each stored mechanism is proven again, and must match its digest and cost
        at most its charge.

        Parameters
        ----------
        expect : str, optional
            A head hash that an earlier check returned. It must be in the chain.

        Returns
        -------
        Verification
            With the head hash and the number of entries.

        Raises
        ------
        LedgerBroken
            If a check fails. The message names the first invalid entry.

        Notes
        -----
        The check detects a change by someone who does not rewrite the rest of the chain. A ledger that was rewritten as
        a whole, or replaced by an older copy, passes unless `expect` is given: store the head elsewhere after each
        release.

        Examples
        --------
        >>> import tempfile
        >>> from labeldp import Ledger
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger.create(f"{folder}/ledger.db")
        ...     _ = ledger.add_dataset("sales", budget=3)
        ...     noted = ledger.verify().head
        ...     _ = ledger.reserve("sales", 1)
        ...     checked = ledger.verify(expect=noted)
        >>> checked.entries, checked.expected_at
        (2, 1)
        """
        wanted = _expected_hash(expect)
        with self._reading() as connection:
            require_guards(connection, self.path, alone=True)
            (report,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if report != "ok":  # an index that misses a row would hide a charge
                raise LedgerBroken(f"SQLite finds {self.path} damaged: {report}")
            played = replay(connection, wanted)
        rows = played.rows
        for release_id, entry in rows.fixed.items():  # in short transactions, because a proof may take seconds
            _prove(self.release(release_id), entry, rows.releases[release_id]["mechanism_sha256"])
        return Verification(
            head=played.head,
            entries=played.count,
            datasets=len(rows.datasets),
            releases=len(rows.releases),
            batches=len(rows.batches),
            mechanisms=len(rows.fixed),
            expected_at=played.expected_at,
        )

    def _facts(self) -> dict[str, str]:
        facts = {"path": repr(str(self.path))}
        with suppress(LabelDPError):  # repr must work even if the file is missing or locked
            facts |= {
                f"{dataset.name} left": f"{float(dataset.remaining):g} of {float(dataset.budget):g}"
                for dataset in self.datasets()
            }
        return facts

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self.path, self.timeout, "DEFERRED")

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self.path, self.timeout, "IMMEDIATE")


def _check_part(whole: Release, dataset: str, amount: Fraction, entries: int, key_check: str | None) -> None:
    """Raise `InvalidInput` unless a release may be covered by the charge of another one."""
    found = (whole.dataset, whole.epsilon, whole.entries, whole.key_check, whole.part_of)
    if key_check is None or found != (dataset, amount, entries, key_check, None):
        raise InvalidInput(
            f"release {whole.id} does not cover this one: it must have the same dataset, epsilon, entries and key, and its own charge"
        )


def _insert(connection: sqlite3.Connection, table: str, row: Facts) -> None:
    columns, places = ", ".join(row), ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", tuple(row.values()))  # noqa: S608 - our own names


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def today() -> str:
    """Return the date in UTC, by the ledger's clock."""
    return _now()[:10]


def _prove(release: Release, entry: int, sha256: str) -> None:
    """Prove a stored mechanism again."""
    from labeldp.artifact.description import check_charge
    from labeldp.mechanisms import FiniteMechanism

    if sha256_of(release.mechanism_json) != sha256:
        raise LedgerBroken(f"the mechanism of release {release.id} changed during the check", entry)
    try:
        mechanism = FiniteMechanism.from_json(release.mechanism_json or "")
        expect_mechanism(release, mechanism.digest)
        check_charge(mechanism, release.epsilon, release.entries)
    except InvalidInput as error:
        raise LedgerBroken(f"the mechanism of release {release.id} does not hold: {error}", entry) from error


def _expected_hash(text: str | None) -> str | None:
    """Return a stored hash in lower case, without surrounding spaces."""
    text = text.strip() if isinstance(text, str) else text
    if text is not None and not (isinstance(text, str) and re.fullmatch("[0-9a-fA-F]{64}", text)):
        raise InvalidInput(
            f"a head hash has 64 hexadecimal digits, as `labeldp ledger verify` prints it, got {text!r:.80}"
        )
    return None if text is None else text.lower()
