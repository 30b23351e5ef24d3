"""A release from beginning to end: read, charge, fix the mechanism, randomize, publish, commit.

The order is what keeps the promises. Nothing is drawn from the labels before the ledger is charged; no label is randomized
before the mechanism is stored; the message appears by one rename. A run that dies anywhere can be repeated: with the
same key and the same input it continues the same release at no further cost, and keyed randomness gives every record
the draw it had.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.budget import decimal_text, exact
from labeldp.card import privacy_card
from labeldp.domain import Domain
from labeldp.engines import arrow
from labeldp.engines.arrow import Progress, Scan
from labeldp.engines.source import LabelSource
from labeldp.errors import InvalidInput
from labeldp.keyfile import KeptRelease, KeyFile
from labeldp.ledger import Ledger, key_fingerprint
from labeldp.mechanisms import FiniteMechanism, Mechanism
from labeldp.message import Header, Message, describe, flush, new_message
from labeldp.randomizer import LabelRandomizer
from labeldp.sampling import KeyedRandomness

Phase = Callable[[str, int | None], Progress | None]
"""Called when a phase begins, with its name and the number of rows if known; gives the callback for its progress."""


@dataclass(frozen=True)
class Outcome:
    """What the labels party may see of its own run. `clipped` is private: for the console, never for the message."""

    message: Path
    mechanism: FiniteMechanism
    records: int
    clipped: int
    resumed: bool
    already_held: int = 0


@dataclass(frozen=True)
class Journal:
    """Where a release is charged and remembered: a ledger's dataset, a key file, both or neither."""

    ledger: Ledger | None
    dataset: str | None
    keys: KeyFile | None

    @property
    def key(self) -> bytes:
        return self.keys.key if self.keys is not None else os.urandom(32)


def privatize(
    source: LabelSource,
    randomizer: LabelRandomizer,
    out: Path,
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    key_file: Path | None = None,
    keep_order: bool = False,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> Outcome:
    """Writes the message `out` from the labels in `source`, charging `dataset` in `ledger` where given.

    Privacy: the message is ε-label-DP for replacing one label, ε as in `randomizer`. With `key_file` the run can be
    resumed and later batches added; without, the key is forgotten when the run ends.
    """
    _check_place(out)
    domain = Domain.of(randomizer.domain)
    keys = None if key_file is None else KeyFile.open_or_create(key_file)
    epsilon = exact(randomizer.epsilon)
    if ledger is not None:
        if dataset is None:
            raise InvalidInput("a ledger needs the name of the dataset to charge: give --dataset")
        ledger.require(dataset, epsilon, key_check=None if keys is None else key_fingerprint(keys.key))
    journal = Journal(ledger, dataset, keys)
    key = journal.key
    scanned = arrow.scan(
        source,
        domain,
        out_of_range=randomizer.out_of_range,
        key=key if keys is not None else None,
        progress=phase("checking", None),
    )
    randomizer.plan(scanned.records)  # what the budget does not carry is refused before anything is charged
    request = _request(source, randomizer, scanned)
    begun = _resume(journal, epsilon, scanned, request)
    if out.exists():
        return _finish_existing(out, journal, begun, scanned)
    release = begun if begun is not None else _reserve(journal, epsilon, scanned, request)
    mechanism = _settle(journal, release, source, randomizer, scanned, phase)
    header = Header(release.id, source.id_name, scanned.id_kind, keep_order, keyed=keys is not None)
    with new_message(out, release.id) as folder, _work_folder(folder) as work:
        arrow.randomize(
            source,
            mechanism,
            domain,
            KeyedRandomness(key, bytes.fromhex(release.id)),
            scanned,
            labels_file=folder / "labels.parquet",
            work=work,
            keep_order=keep_order,
            progress=phase("randomizing", 2 * scanned.records),
        )
        (folder / "mechanism.json").write_text(describe(mechanism, header), encoding="utf-8")
        (folder / "PRIVACY.md").write_text(privacy_card(mechanism, header), encoding="utf-8")
    _commit(journal, release)
    return Outcome(out, mechanism, scanned.records, scanned.clipped, resumed=begun is not None)


def apply(
    message_path: Path,
    source: LabelSource,
    *,
    key_file: Path,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> Outcome:
    """Adds the records of `source` to a message, under its mechanism and its release. Costs nothing more.

    Privacy: new records get one draw each. An id that the message holds already keeps its private label, whatever its
    label is now: a second draw under one release would show that the label changed. The key file remembers how many
    batches the message has, so that an outdated copy of it is refused.
    """
    message = Message.open(message_path)
    keys = KeyFile.open(key_file)
    kept = keys.find(message.header.release)
    if kept is None or kept.mechanism is None or not _same_mechanism(kept.mechanism, message.mechanism):
        raise InvalidInput(
            f"{key_file} is not the key of {message_path}: its release {message.header.release} is not in it"
        )
    domain = message.mechanism.domain
    if domain is None:
        raise InvalidInput(f"{message_path} does not say which bounds its labels had")
    if source.id_name != message.header.id_column:
        raise InvalidInput(
            f"the message's id column is {message.header.id_column!r}, give --id {message.header.id_column}"
        )
    if source.id_column is None:
        raise InvalidInput("row numbers cannot be ids of a later batch: they would meet those of the first. Give --id")
    scanned = arrow.scan(source, domain, key=keys.key, progress=phase("checking", None))
    if scanned.id_kind != message.header.id_type:
        raise InvalidInput(
            f"the message's ids are {message.header.id_type}, these are {scanned.id_kind}: give --id-type {message.header.id_type}"
        )
    parts = len(message.files())
    folder = message.path / "labels"
    if kept.pending is not None and kept.pending != scanned.input_hmac:
        raise InvalidInput("an earlier batch was begun and not finished: run apply with that file again first")
    if kept.pending is not None and parts == kept.parts + 1:  # it was published, only the note of it is missing
        keys.put(replace(kept, parts=parts, pending=None))
        return Outcome(message.path, message.mechanism, 0, scanned.clipped, resumed=True, already_held=scanned.records)
    if parts != kept.parts:
        raise InvalidInput(
            f"{message_path} has {parts} batches and the key file knows of {kept.parts}: this is not the newest copy. "
            "Adding to an old copy could release a record twice; use the newest one"
        )
    keys = keys.put(replace(kept, pending=scanned.input_hmac))
    folder.mkdir(exist_ok=True)
    part = folder / f"part-{parts:05d}.parquet"
    with _work_folder(folder) as work:
        unfinished = work / part.name
        written, held = arrow.randomize(
            source,
            message.mechanism,
            domain,
            KeyedRandomness(keys.key, bytes.fromhex(message.header.release)),
            scanned,
            labels_file=unfinished,
            work=work,
            held=lambda place, rows: _spill_of(message, keys.key, scanned, place, rows),
            progress=phase("randomizing", 2 * scanned.records),
        )
        flush(unfinished)
        unfinished.rename(part)
        flush(folder)
    keys.put(replace(kept, parts=parts + 1, pending=None))
    return Outcome(
        message.path, message.mechanism, written, scanned.clipped, resumed=kept.pending is not None, already_held=held
    )


def _spill_of(message: Message, key: bytes, scanned: Scan, place: Path, rows: int) -> Any:
    """The ids that the message holds, in partitions like those of the new batch."""
    from labeldp.engines.spill import open_spill

    spill = open_spill(place, scanned.id_type, rows, np.uint8)
    randomness = KeyedRandomness(key, bytes.fromhex(message.header.release))
    for ids, _ in message.batches():
        same = ids.cast(scanned.id_type)
        records = randomness.id_digests(same, digest=message.mechanism.digest_bytes)
        spill.add(same, records, np.zeros(len(ids), np.uint8))
    return spill


@dataclass(frozen=True)
class _Begun:
    """A release that is charged, with its mechanism if that is fixed already."""

    id: str
    mechanism: str | None = None


def _resume(journal: Journal, epsilon: Any, scanned: Scan, request: str) -> _Begun | None:
    if journal.keys is None or scanned.input_hmac is None:
        return None
    kept = journal.keys.resumable(scanned.input_hmac, request)
    if journal.ledger is None:
        return None if kept is None else _Begun(kept.id, kept.mechanism)
    assert journal.dataset is not None
    found = journal.ledger.find_resumable(
        journal.dataset,
        epsilon,
        key_check=key_fingerprint(journal.keys.key),
        input_hmac=scanned.input_hmac,
        request=request,
    )
    return None if found is None else _Begun(found.id, found.mechanism_json)


def _reserve(journal: Journal, epsilon: Any, scanned: Scan, request: str) -> _Begun:
    if journal.ledger is None:
        return _Begun(secrets.token_hex(16))
    assert journal.dataset is not None
    known = journal.keys is not None
    release = journal.ledger.reserve(
        journal.dataset,
        epsilon,
        key_check=key_fingerprint(journal.keys.key) if journal.keys is not None else None,
        input_hmac=scanned.input_hmac if known else None,
        request=request if known else None,
    )
    return _Begun(release.id)


def _settle(
    journal: Journal, release: _Begun, source: LabelSource, randomizer: LabelRandomizer, scanned: Scan, phase: Phase
) -> FiniteMechanism:
    """The mechanism that was fixed, or a new one, stored before the first label is randomized."""
    if release.mechanism is not None:
        mechanism = Mechanism.from_json(release.mechanism)
        assert isinstance(mechanism, FiniteMechanism)
    else:
        grid, split = randomizer.plan(scanned.records)
        counts = (
            np.empty(0, np.int64)
            if split is None
            else arrow.count(source, grid, progress=phase("counting", scanned.records))
        )
        mechanism = randomizer.design(counts, scanned.records)
    text = mechanism.to_json()
    if journal.ledger is not None:
        journal.ledger.fix(release.id, mechanism_json=text, mechanism_digest=mechanism.digest)
    if journal.keys is not None and scanned.input_hmac is not None:
        request = _request(source, randomizer, scanned)
        kept = KeptRelease(release.id, scanned.id_kind, scanned.input_hmac, request, text, parts=1)
        journal.keys.put(kept)
    return mechanism


def _commit(journal: Journal, release: _Begun) -> None:
    if journal.ledger is not None:
        journal.ledger.commit(release.id)
    if journal.keys is not None:
        keys = KeyFile.open(journal.keys.path)
        kept = keys.find(release.id)
        assert kept is not None, "settled before"
        keys.put(replace(kept, done=True))


def _finish_existing(out: Path, journal: Journal, begun: _Begun | None, scanned: Scan) -> Outcome:
    """The message is there. If it is this very release, only the commit was missing; otherwise it is in the way."""
    if begun is not None:
        message = Message.open(out)
        if message.header.release == begun.id:
            _commit(journal, begun)
            return Outcome(out, message.mechanism, scanned.records, scanned.clipped, resumed=True)
    raise InvalidInput(f"{out} exists: choose another --out, nothing is overwritten")


def _request(source: LabelSource, randomizer: LabelRandomizer, scanned: Scan) -> str:
    """What was asked for, as text: only the same request may resume a release."""
    domain = Domain.of(randomizer.domain)
    prior = randomizer.prior
    return json.dumps(
        {
            "epsilon": decimal_text(exact(randomizer.epsilon)),
            "domain": [domain.lower, domain.upper, domain.cells],
            "loss": randomizer.loss if isinstance(randomizer.loss, str) else getattr(randomizer.loss, "name", "custom"),
            "mechanism": randomizer.mechanism,
            "prior": None if prior is None else [prior.values.tolist(), prior.masses.tolist()],
            "id": source.id_name,
            "id_type": scanned.id_kind,
        },
        sort_keys=True,
    )


def _same_mechanism(text: str, mechanism: FiniteMechanism) -> bool:
    stored = Mechanism.from_json(text)
    return isinstance(stored, FiniteMechanism) and stored == mechanism


def _check_place(out: Path) -> None:
    parent = out.absolute().parent
    if not parent.is_dir():
        raise InvalidInput(f"the folder {parent} for the message does not exist: make it first")
    if not os.access(parent, os.W_OK):
        raise InvalidInput(f"cannot write into {parent}: check its permissions")


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder for spilled partitions on the message's own disk, gone afterwards whatever happens."""
    work = folder / ".work"
    if work.exists():
        shutil.rmtree(work)
    work.mkdir(mode=0o700)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
