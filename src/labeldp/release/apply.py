"""`apply`: adds a later batch of records to a message, under its mechanism and its release."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.engines.arrow import engine as arrow
from labeldp.engines.arrow.engine import Scan
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.arrow.spill import Spill, open_spill
from labeldp.errors import InvalidInput, LabelDPError, expect, expect_path
from labeldp.json_text import parse_json
from labeldp.message.labels_file import file_digest
from labeldp.message.reader import Message
from labeldp.release.input_checks import (
    check_paths,
    in_unit,
    quick_row_count,
    unchanged,
    with_integer_type,
    without_duplicates,
)
from labeldp.release.key_file import KeptRelease, KeyFile
from labeldp.release.privatize import Phase, ReleaseOutcome
from labeldp.release.release_record import stored_mechanism
from labeldp.release.staging import flush, os_reason, publish, staging
from labeldp.sampling import KeyedRandomness


def apply(
    message: str | os.PathLike[str],
    source: LabelSource,
    *,
    key_file: str | os.PathLike[str],
    out_of_range: OutOfRange = "clip",
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ReleaseOutcome:
    """Randomize new records and add them to an existing message, with the same mechanism and at no further cost.

    Parameters
    ----------
    message : str or Path
        The message's folder.
    source : LabelSource
        The new records. The id column must have the name that it has in the message.
    key_file : str or Path
        The key file that `privatize` was given for this message.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        What happens to labels outside the message's bounds, as in `LabelRandomizer`.
    phase : callable, optional
        For progress bars, as in `privatize`.

    Returns
    -------
    ReleaseOutcome
        `records` counts the new records, `already_held` those that the message held before.

    Raises
    ------
    InvalidInput
        If the batch does not fit the message, the key file is not that of the message, one of the two is an outdated
        copy, another batch was begun and not finished, or all labels lie outside the bounds.
    LabelDPError
        If the batch cannot be written. The message is then as it was.

    Warns
    -----
    ClippingWarning
        If more than 5 % of the labels lie outside the bounds. The share is private: the message does not hold it.

    See Also
    --------
    privatize : Writes the message in the first place.

    Privacy
    -------
    Costs nothing more: every record still has one draw. A record whose id is in the message keeps its private
    label, even if its label has changed, because a second draw under one release would show that it changed. The key file
    records which batches the message has, so an outdated copy of either is refused. It also records the input of a batch
    that was begun, so no other batch can take its place.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from labeldp import LabelRandomizer, LabelSource, apply, privatize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     monday, tuesday, key = f"{folder}/monday.parquet", f"{folder}/tuesday.parquet", f"{folder}/key"
    ...     pq.write_table(pa.table({"order": range(400), "amount": [20.0, 80.0] * 200}), monday)
    ...     pq.write_table(pa.table({"order": range(390, 420), "amount": [50.0] * 30}), tuesday)
    ...     randomizer = LabelRandomizer(epsilon=1, domain=(0, 100))
    ...     out = privatize(LabelSource(monday, "amount", "order"), randomizer, f"{folder}/message", key_file=key).message
    ...     outcome = apply(out, LabelSource(tuesday, "amount", "order"), key_file=key)
    >>> outcome  # doctest: +ELLIPSIS
    ReleaseOutcome(message=...Path('.../message'), records=20, resumed=False, already_held=10)
    """
    expect(source, LabelSource, "source", 'make one with LabelSource("labels.parquet", "label column", "id column")')
    check_out_of_range(out_of_range)
    expect_path(message, "message", "give the folder of the message")
    expect_path(key_file, "key_file", "give the file that privatize was given")
    path, key_path = Path(message), Path(key_file)
    place = path.resolve()
    Message.open(place)  # refuses what is not a message before anything is locked
    check_paths(source, place, key_path)
    with KeyFile.use(key_path) as keys, staging(place) as hidden:
        opened = Message.open(place)
        kept = _kept_release(opened, keys, key_path)
        opened = replace(opened, mechanism=stored_mechanism(kept.mechanism))  # with the bounds as the owner fixed them
        domain = _check_source(opened, source)
        source = in_unit(source, domain)
        typed = with_integer_type(source, opened.id_type) if pa.types.is_integer(opened.id_type) else source
        rows = quick_row_count(source)
        scanned = arrow.scan(
            without_duplicates(typed, rows),
            domain,
            out_of_range=out_of_range,
            key=keys.key,
            progress=phase("checking", rows),
        )
        assert scanned.input_hmac is not None
        domain.judge_clipping(scanned.clipped, scanned.records, out_of_range)
        if scanned.id_kind != opened.header.id_type:
            raise InvalidInput(
                f"the message's ids are {opened.header.id_type}, these are {scanned.id_kind}: they would never be the same "
                f"records. Give --id-type {opened.header.id_type}"
            )
        resumed = kept.pending is not None
        if resumed and kept.pending != scanned.input_hmac:
            raise InvalidInput(
                "an earlier batch was begun and not finished, and a copy of the message may contain it: run apply with that "
                "batch's file first, unchanged. If the file is lost, make a new release with privatize"
            )
        digests = tuple(file_digest(file.path) for file in opened.files)
        known = kept.parts or digests[:1]  # no parts: privatize was killed before it could record the first one
        if resumed and len(digests) == len(known) + 1 and digests[:-1] == known:
            keys.put(replace(kept, done=True, parts=digests, pending=None))  # published, but not recorded
            return _outcome(path, opened, scanned, opened.files[-1].count(), resumed=True)
        if digests != known:
            raise InvalidInput(_other_copy(path, key_path, len(digests), len(known)))
        if hidden.stat().st_dev != place.stat().st_dev:
            raise InvalidInput(f"{path} is the top folder of a disk: move the message into a folder on that disk first")
        target = opened.next_file
        staged = hidden / target.name
        kept = keys.put(replace(kept, done=True, parts=known, pending=scanned.input_hmac))
        try:
            added = _randomize(opened, typed, domain, keys.key, scanned, staged, phase)
            parts = (*known, file_digest(staged)) if added else known  # the older digests as they were checked
            if added:
                target.parent.mkdir(exist_ok=True)
                publish(staged, target)
                flush(place)
        except BaseException as error:
            if not target.exists():  # nothing was released for certain, so any other batch may come next
                keys.put(replace(kept, pending=None))
            if not isinstance(error, (OSError, MemoryError)):
                raise
            raise LabelDPError(
                f"cannot add to {path}: {os_reason(error)}. The message is as it was. Fix the cause and run the same command "
                "again"
            ) from error
        keys.put(replace(kept, parts=parts, pending=None))
    return _outcome(path, opened, scanned, added, resumed=resumed)


def _kept_release(message: Message, keys: KeyFile, key_file: Path) -> KeptRelease:
    if not message.header.keyed:
        raise InvalidInput(
            f"{message.path} was made without --key-file, so its key is gone and nothing can be added. Make a new release"
        )
    kept = keys.find(message.header.release)
    if kept is None or stored_mechanism(kept.mechanism) != message.mechanism:
        raise InvalidInput(
            f"{key_file} is not the key of {message.path}: it does not know release {message.header.release}. Give the key "
            "file that privatize was given"
        )
    if message.header.row_numbers or _requested_id(kept, key_file) is None:
        raise InvalidInput(
            f"the ids in {message.path} are row numbers, and a later batch would use the same numbers again: nothing can be "
            "added. Make a new release with --id"
        )
    return kept


def _requested_id(kept: KeptRelease, key_file: Path) -> str | None:
    """The id column that `privatize` was given for the release."""
    request = parse_json(kept.request, f"a request in the key file {key_file}")
    if not isinstance(request, dict) or not isinstance(request.get("id"), str | None):
        raise InvalidInput(f"the key file {key_file} is damaged (a request in it). Restore it from a backup")
    return request.get("id")


def _check_source(message: Message, source: LabelSource) -> Domain:
    if message.mechanism.domain is None:
        raise InvalidInput(f"{message.path} does not say which bounds its labels had, so nothing can be added")
    if source.id_column != message.header.id_column:
        raise InvalidInput(
            f"the message's id column is {message.header.id_column!r}, not {source.id_column!r}: give --id "
            f"{message.header.id_column}, and rename the column in the new file if it has another name"
        )
    return message.mechanism.domain


def _randomize(
    message: Message, source: LabelSource, domain: Domain, key: bytes, scanned: Scan, labels_file: Path, phase: Phase
) -> int:
    """Randomizes the new records into `labels_file`; returns how many there are."""
    work = labels_file.parent / "work"
    work.mkdir()
    randomness = KeyedRandomness(key, bytes.fromhex(message.header.release))

    def released(folder: Path, size: int) -> Spill:
        """The ids that the message holds, in partitions like those of the new batch."""
        spill = open_spill(folder, scanned.id_type, size, np.uint8)
        for ids, _ in message.batches():
            same = ids.cast(scanned.id_type)
            digests = randomness.id_digests(same, digest=message.mechanism.digest_bytes)
            spill.add(same, digests, np.zeros(len(same), np.uint8))
        return spill

    return arrow.randomize(
        unchanged(source, scanned, key),
        message.mechanism,
        domain,
        randomness,
        scanned,
        labels_file=labels_file,
        work=work,
        released=released,
        released_rows=message.records,
        progress=phase("randomizing", 2 * scanned.records),
    )


def _other_copy(message: Path, key_file: Path, held: int, known: int) -> str:
    if held < known:
        return (
            f"{message} is an outdated copy: it has {held} of the {known} batches that were released. Adding to it could "
            "release a record twice: use the newest copy"
        )
    if held > known:
        return (
            f"{message} has {held} batches, but {key_file} knows of {known}: the key file is an outdated copy. Adding could "
            "release a record twice: use the newest key file"
        )
    return (
        f"the batches in {message} are not those that {key_file} recorded: they were changed. Use the message as it was"
    )


def _outcome(path: Path, message: Message, scanned: Scan, added: int, *, resumed: bool) -> ReleaseOutcome:
    return ReleaseOutcome(
        path, message.mechanism, added, scanned.clipped, resumed=resumed, already_held=scanned.records - added
    )
