"""What somebody sees who gets every message, every copy of one and even what a killed run leaves, and what must hold of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp import Ledger, Message
from labeldp.artifact.reader import open_to_extend
from labeldp.artifact.signing import SigningKey
from labeldp.errors import LabelDPError

STAGED = ".*.labeldp-partial"
HIDDEN = (".*.labeldp-*", "*-journal")
"""What a run that ended well leaves none of."""

INTERRUPTED = "a run of apply is under way or was interrupted"


class Violation(Exception):  # noqa: N818 - reads as what it is
    """A promise is broken."""


class Outsider:
    """Remembers the code of every record under every release that it ever saw, and notices a second one.

    It reads hidden folders too. Nobody sends those, but a draw that is on disk has been made: if a later run draws the record
    again and gets another code, then one charge has paid for two draws.
    """

    def __init__(self, sign_key: Path | None = None) -> None:
        self.sign_key = sign_key
        self.codes: dict[tuple[str, str], int] = {}
        self.costs: dict[str, Fraction] = {}
        self.later: dict[str, int] = {}

    def look(self, folder: Path) -> None:
        """Takes in all messages in a folder. Refuses one that is not whole, and a record with two codes."""
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.name.startswith("."):
                self.read(path)
        for path in sorted(folder.glob(STAGED)):
            self._read_staged(path)

    def read(self, path: Path) -> Message:
        """Takes in one message, which must be whole, but for a batch of a killed run that is not listed yet."""
        try:
            message = open_message(path, self.sign_key)
            rows = [(ids, codes.tolist()) for ids, codes in message.batches()]
        except LabelDPError as error:
            raise Violation(f"{path.name} is not a whole message: {error}") from error
        release = message.header.release
        self.later[release] = max(len(message.manifest.batches) - 1, self.later.get(release, 0))
        self.costs[release] = message.epsilon_exact
        names = [name for ids, _ in rows for name in id_names(ids)]
        if len(set(names)) != len(names):
            raise Violation(f"{path.name} has an id twice")
        self._take(release, zip(names, (code for _, codes in rows for code in codes), strict=True))
        return message

    def _read_staged(self, hidden: Path) -> None:
        """Takes in what a killed run had drawn, as far as it can be read: it was never published, so it need not be whole."""
        target = hidden.parent / hidden.name.removeprefix(".").removesuffix(".labeldp-partial")
        for description in (hidden / "message" / "mechanism.json", target / "mechanism.json"):
            try:
                release = _release_of(json.loads(description.read_text()))
            except (OSError, ValueError):
                release = ""
            if not release:
                continue
            for file in hidden.rglob("*.parquet"):
                try:
                    table = pq.read_table(file)
                except (pa.ArrowInvalid, OSError):
                    continue
                ids = table.column(0).combine_chunks()
                self._take(release, zip(id_names(ids), table["code"].to_pylist(), strict=True))
            return

    def _take(self, release: str, rows: Iterator[tuple[str, int]]) -> None:
        for name, code in rows:
            if self.codes.setdefault((release, name), code) != code:
                raise Violation(f"a record has two codes under release {release}: one charge has paid for two draws")

    def compare(self, ledger: Ledger) -> None:
        """Every release that was seen must have been charged, and the charges must keep within the budgets."""
        with closing(sqlite3.connect(ledger.path)) as connection:
            (found,) = connection.execute("PRAGMA integrity_check").fetchone()
        if found != "ok":
            raise Violation(f"the ledger's file is damaged: {found}")
        try:
            ledger.verify()
        except LabelDPError as error:
            raise Violation(f"the ledger's chain does not hold: {error}") from error
        charged = {entry.id: entry.epsilon for entry in ledger.history()}
        for dataset in ledger.datasets():
            total = sum((entry.epsilon for entry in ledger.history(dataset.name)), Fraction(0))
            if total != dataset.spent or total > dataset.budget:
                raise Violation(
                    f"{dataset.name} spent {total} of {dataset.budget}, and the ledger says {dataset.spent}"
                )
        for release in {release for release, _ in self.codes}:
            if release not in charged:
                raise Violation(f"release {release} was drawn and is not in the ledger")
            if self.costs.get(release, Fraction(0)) > charged[release]:
                raise Violation(f"release {release} costs {self.costs[release]} and was charged {charged[release]}")
            if self.later.get(release, 0) > len(ledger.batches(release)):
                raise Violation(f"release {release} has a later batch that is not in the ledger")


def open_message(path: Path, sign_key: Path | None = None) -> Message:
    """The message, also if a run of `apply` was killed between adding a batch and listing it. Readers refuse it until then."""
    try:
        return Message.open(path)
    except LabelDPError as error:
        if INTERRUPTED not in str(error):
            raise
    return open_to_extend(path, None if sign_key is None else SigningKey.read(sign_key, path))


def id_names(ids: pa.Array) -> list[str]:
    """One name for each id. Integers are taken modulo 2⁶⁴: the same 64 bits with another sign are the same record."""
    if isinstance(ids.type, pa.DictionaryType):
        ids = ids.dictionary_decode()
    if pa.types.is_integer(ids.type):
        return [str(value % (1 << 64)) for value in ids.to_pylist()]
    return [str(value) for value in ids.to_pylist()]


def leftovers(*folders: Path) -> list[str]:
    """Hidden files and journals, of which a run that ended well leaves none."""
    return sorted({path.name for folder in folders for pattern in HIDDEN for path in folder.glob(pattern)})


def is_hot(journal: Path) -> bool:
    """Whether SQLite rolls the ledger back with this journal: its first byte is not 0.

    SQLite writes zeros there first, then the pages as they were, flushes both and only then writes the true header; the ledger
    itself is changed after that. A journal that begins with 0 therefore stands for a ledger that was not touched. Readers
    ignore it, and the next writer begins it anew and removes it (pager.c: writeJournalHdr, syncJournal, hasHotJournal).
    """
    return journal.read_bytes()[:1] not in (b"", b"\0")


def _release_of(description: object) -> str:
    """The release's id, wherever in the description it stands."""
    if isinstance(description, dict):
        for name, value in description.items():
            if name == "release" and isinstance(value, str):
                return value
            if isinstance(value, dict) and (found := _release_of(value)):
                return found
    return ""
