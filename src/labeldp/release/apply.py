"""Later batches: new records join a message under its mechanism and its release."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.domain import Domain
from labeldp.engines.arrow import engine as arrow
from labeldp.engines.arrow.engine import Scan
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.arrow.spill import Spill, open_spill
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.message.labels_file import stamp
from labeldp.message.reader import Message
from labeldp.release.input_checks import EarlyDuplicates, ObservedSource, SameInput, check_places, quick_row_count
from labeldp.release.key_file import KeptRelease, KeyFile
from labeldp.release.privatize import Phase, ReleaseOutcome
from labeldp.release.release_record import stored_mechanism
from labeldp.release.staging import flush, os_reason, publish, staging
from labeldp.sampling import KeyedRandomness


def apply(
    message_path: Path,
    source: LabelSource,
    *,
    key_file: Path,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ReleaseOutcome:
    """Adds the records of `source` to a message, under its mechanism and its release. Costs nothing more.

    Privacy: new records get one draw each. An id that the message holds already keeps its private label, whatever its
    label is now: a second draw under one release would show that the label changed. The key file remembers which
    batches the message has, so that an outdated copy of it is refused, and the input of a batch that was begun, so that
    no other one can take its place.
    """
    place = message_path.resolve()
    Message.open(place)  # what is no message is refused before anything is locked
    check_places(source, place, key_file)
    with KeyFile.use(key_file) as keys, staging(place) as hidden:
        message = Message.open(place)
        kept = _kept_release(message, keys, key_file)
        message = replace(message, mechanism=stored_mechanism(kept.mechanism))  # bounds and all as the owner fixed them
        domain = _check_source(message, source)
        typed = ObservedSource.of(source, integers=_integer_type(message))
        rows = quick_row_count(source)
        scanned = arrow.scan(
            ObservedSource.of(typed, EarlyDuplicates(typed, rows)),
            domain,
            key=keys.key,
            progress=phase("checking", rows),
        )
        assert scanned.input_hmac is not None
        if scanned.id_kind != message.header.id_type:
            raise InvalidInput(
                f"the message's ids are {message.header.id_type}, these are {scanned.id_kind}: they would never be the same "
                f"records. Give --id-type {message.header.id_type}"
            )
        resumed = kept.pending is not None
        if resumed and kept.pending != scanned.input_hmac:
            raise InvalidInput(
                "an earlier batch was begun and not finished, and it may be in a copy of the message: run apply with that "
                "file, unchanged, first. Where it is lost, only a new release (privatize) can go on"
            )
        stamps = tuple(stamp(file) for file in message.files())
        known = kept.parts or stamps[:1]  # none: privatize was killed before it could note the first one
        if resumed and len(stamps) == len(known) + 1 and stamps[:-1] == known:
            keys.put(replace(kept, done=True, parts=stamps, pending=None))  # published, only the note was missing
            added = pq.read_metadata(message.files()[-1]).num_rows
            return _outcome(message_path, message, scanned, added, resumed=True)
        if stamps != known:
            raise InvalidInput(_other_copy(message_path, key_file, len(stamps), len(known)))
        if hidden.stat().st_dev != place.stat().st_dev:
            raise InvalidInput(
                f"{message_path} is a disk of its own: move the message into a folder of that disk first"
            )
        part = place / "labels" / f"part-{len(stamps):05d}.parquet"
        kept = keys.put(replace(kept, done=True, parts=known, pending=scanned.input_hmac))
        try:
            added = _add(message, typed, domain, keys, scanned, hidden / part.name, phase)
            parts = (*known, stamp(hidden / part.name)) if added else known  # older batches as they were checked
            if added:
                part.parent.mkdir(exist_ok=True)
                publish(hidden / part.name, part)
                flush(place)
        except BaseException as error:
            if not part.exists():  # certain that nothing was released: any other input may come next
                keys.put(replace(kept, pending=None))
            if not isinstance(error, OSError):
                raise
            raise LabelDPError(
                f"cannot add to {message_path}: {os_reason(error)}. The message is as it was. Mend that and run the same command again"
            ) from error
        keys.put(replace(kept, parts=parts, pending=None))
    return _outcome(message_path, message, scanned, added, resumed=resumed)


def _kept_release(message: Message, keys: KeyFile, key_file: Path) -> KeptRelease:
    if not message.header.keyed:
        raise InvalidInput(
            f"{message.path} was made without --key-file, and its key is gone: nothing can be added. Make a new release"
        )
    kept = keys.find(message.header.release)
    if kept is None or stored_mechanism(kept.mechanism) != message.mechanism:
        raise InvalidInput(
            f"{key_file} is not the key of {message.path}: it does not know release {message.header.release}. Give the key "
            "file that privatize was given"
        )
    if json.loads(kept.request)["id"] is None:
        raise InvalidInput(
            f"the ids in {message.path} are row numbers, and those of a later batch would meet them: nothing can be added. "
            "Make a new release with --id"
        )
    return kept


def _check_source(message: Message, source: LabelSource) -> Domain:
    if message.mechanism.domain is None:
        raise InvalidInput(f"{message.path} does not say which bounds its labels had")
    if source.id_column != message.header.id_column:
        raise InvalidInput(
            f"the message's id column is {message.header.id_column!r}, not {source.id_column!r}: give --id "
            f"{message.header.id_column}, and rename the column in the new file if need be"
        )
    return message.mechanism.domain


def _integer_type(message: Message) -> pa.DataType | None:
    """The type of the message's ids if they are integers: 2^63 and above need an unsigned one, and a batch may have another."""
    kind = pq.read_schema(message.files()[0]).types[0]
    return kind if pa.types.is_integer(kind) else None


def _add(
    message: Message, source: LabelSource, domain: Domain, keys: KeyFile, scanned: Scan, part: Path, phase: Phase
) -> int:
    """Randomizes the new records into the file `part`; returns how many there were."""
    work = part.parent / "work"
    work.mkdir()
    written, _ = arrow.randomize(
        ObservedSource.of(source, SameInput(source.path, scanned.records, keys.key, scanned.input_hmac)),
        message.mechanism,
        domain,
        KeyedRandomness(keys.key, bytes.fromhex(message.header.release)),
        scanned,
        labels_file=part,
        work=work,
        held=lambda place, rows: _spill_of(message, keys.key, scanned, place, rows),
        held_rows=message.rows,
        progress=phase("randomizing", 2 * scanned.records),
    )
    return written


def _spill_of(message: Message, key: bytes, scanned: Scan, place: Path, rows: int) -> Spill:
    """The ids that the message holds, in partitions like those of the new batch."""
    spill = open_spill(place, scanned.id_type, rows, np.uint8)
    randomness = KeyedRandomness(key, bytes.fromhex(message.header.release))
    for ids, _ in message.batches():
        same = ids.cast(scanned.id_type)
        records = randomness.id_digests(same, digest=message.mechanism.digest_bytes)
        spill.add(same, records, np.zeros(len(same), np.uint8))
    return spill


def _other_copy(message: Path, key_file: Path, held: int, known: int) -> str:
    if held < known:
        return (
            f"{message} is an outdated copy: it has {held} of the {known} batches that were released. Adding to it could "
            "release a record twice; use the newest copy"
        )
    if held > known:
        return (
            f"{message} has {held} batches and {key_file} knows of {known}: the key file is an outdated copy. Adding could "
            "release a record twice; use the newest key file"
        )
    return f"the batches in {message} are not those that {key_file} remembers: they were changed. Use the message as it was"


def _outcome(path: Path, message: Message, scanned: Scan, added: int, *, resumed: bool) -> ReleaseOutcome:
    return ReleaseOutcome(
        path, message.mechanism, added, scanned.clipped, resumed=resumed, already_held=scanned.records - added
    )
