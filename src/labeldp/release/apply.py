"""`apply`: add a later batch of records to a message, under its mechanism and its release.

A batch uses the same steps as a release: scan, record in the ledger, draw, publish, and record in the key file.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from labeldp.artifact.card import message_card
from labeldp.artifact.description import PersonUnit, check_charge
from labeldp.artifact.labels_file import LabelsFile
from labeldp.artifact.manifest import MANIFEST, ListedBatch, ListedFile, Manifest, read_manifest, release_folder
from labeldp.artifact.reader import Message, open_to_extend
from labeldp.artifact.signing import SigningKey
from labeldp.artifact.staging import flush, os_reason, publish, replace_file, staging
from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.person_spill import SharedPersons
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.passes import DrawJob, LabelInput, Scan
from labeldp.errors import InvalidInput, LabelDPError, expect, expect_path
from labeldp.json_text import parse_json
from labeldp.mechanisms import FiniteMechanism
from labeldp.release.account import shared_release
from labeldp.release.flow import check_places
from labeldp.release.key_file import KeptRelease, KeyFile
from labeldp.release.labels import ReleaseOutcome, as_input, check_engine
from labeldp.release.ledger import Ledger, expect_mechanism, today
from labeldp.release_kind import CARD, LABELS
from labeldp.sampling.table import Words
from labeldp.tables.files import Phase


def apply(
    message: str | os.PathLike[str],
    source: LabelSource | LabelInput,
    *,
    key_file: str | os.PathLike[str],
    ledger: Ledger | None = None,
    out_of_range: OutOfRange = "clip",
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ReleaseOutcome:
    """Randomize new records and add them to an existing message, with the same mechanism and at no further cost.

    A new id is assumed to be a new label. If the same labels come again under new ids, each gets another draw and costs
    ε again, which cannot be detected here: after 40 such batches 99.85 % of the labels were recovered in a test. Never
    apply the same labels again with newly generated ids. The ledger records the number of batches and their records so
    that you can review them.

    Parameters
    ----------
    message : str or Path
        The message's folder.
    source : LabelSource or LabelInput
        The new records, in a file or as the input of an engine. The id column and the label column must have the same
        names as in the message.
    key_file : str or Path
        The key file that `privatize` was given for this message.
    ledger : Ledger, optional
        The ledger that was charged for this message. It is required if the release was charged to a ledger: the batch
        is recorded there before anything is drawn.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        How to handle labels outside the message's bounds, as in `LabelRandomizer`.
    sign_key : str or Path, optional
        Your private key, as in `privatize`. A signed message requires the key that signed it; an unsigned message is
        signed from now on.
    phase : callable, optional
        For progress bars, as in `privatize`.

    Returns
    -------
    ReleaseOutcome
        `records` counts the new records, `already_held` the records that were already in the message, and `left_out`
        the records of persons who were served before or have other chosen records.

    Raises
    ------
    InvalidInput
        If the batch does not fit the message, the key file belongs to another message, one of the two is an outdated
        copy, another batch was begun and not finished, the message is signed with another key, more than 20 % of the
        labels lie outside the bounds, or the ledger is missing or was not charged for this message.
    LabelDPError
        If the batch cannot be written. The error states whether the message was changed.

    Warns
    -----
    ClippingWarning
        If more than 5 % of the labels lie outside the bounds. The share is private: it is not in the message.

    See Also
    --------
    privatize : Write the first batch of a message.

    Privacy
    -------
    Costs nothing more if each new id is a new label: every record still has one draw. A record whose id is in the
    message keeps its private label, even if its label has changed, because a second draw under one release would reveal
    the change. The key file records the batches of the message, so an outdated copy of either is detected. It also
    records the input of a batch that was begun, so that no other batch can replace it.

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
    check_out_of_range(out_of_range)
    expect_path(message, "message", "give the folder of the message")
    expect_path(key_file, "key_file", "give the file that privatize was given")
    if ledger is not None:
        expect(ledger, Ledger, "ledger", "make one with Ledger(path)")
    labels, path, key_path = as_input(source), Path(message), Path(key_file)
    place = path.resolve()
    release_folder(place)  # raises an error for other folders before anything is locked
    check_engine(labels, place, key_path)
    check_places(place, key_path)
    signing = None if sign_key is None else SigningKey.read(sign_key, place)
    with KeyFile.use(key_path) as keys, staging(place) as hidden:
        opened = open_to_extend(place, signing)
        kept = _with_ledger(_kept_release(opened, keys, key_path), ledger, opened)
        domain = _check_columns(opened, labels)
        labels = _sharing(opened, kept, labels)
        typed = labels.in_unit(domain).with_ids_as(opened.id_type)
        progress = phase("checking", typed.row_count())
        scanned = typed.scan(domain, key=keys.key, out_of_range=out_of_range, progress=progress)
        domain.judge_clipping(scanned.clipped, scanned.records, out_of_range)
        if scanned.id_kind != opened.header.id_type:
            raise InvalidInput(_other_ids(labels, opened.header.id_type))
        served = keys.served(kept)
        if opened.header.persons is not None:
            scanned = _chosen(opened.header.persons, scanned, served)
            if opened.header.persons.shared:
                kept = replace(kept, batches=_shared_batches(opened, kept, keys, scanned))
        batch = _Batch(opened, typed, domain, scanned, keys, kept, served, signing, hidden, phase)
        known, is_there = batch.known_parts(path, key_path)
        if not is_there and hidden.stat().st_dev != place.stat().st_dev:
            raise InvalidInput(f"{path} is the top folder of a disk: move the message into a folder on that disk first")
        if ledger is not None:
            digest = opened.mechanism.digest
            ledger.record_batch(
                kept.id, records=scanned.records, input_hmac=scanned.input_hmac, mechanism_digest=digest
            )
        added = batch.finish() if is_there else batch.add(known, path)
    return ReleaseOutcome(
        path,
        opened.mechanism,
        added,
        scanned.clipped,
        resumed=kept.pending is not None,
        already_held=scanned.drawn - added,
        left_out=scanned.records - scanned.drawn,
        unit="record" if opened.header.persons is None else "person",
        entries=opened.header.entries,
        message_records=opened.records + (0 if is_there else added),
    )


@dataclass(frozen=True)
class _Batch:
    """A scanned batch and its message. The ids of the labels have the message's type."""

    message: Message
    labels: LabelInput
    domain: Domain
    scanned: Scan
    keys: KeyFile
    kept: KeptRelease
    served: list[Words]
    signing: SigningKey | None
    hidden: Path
    phase: Phase

    def known_parts(self, path: Path, key_file: Path) -> tuple[tuple[str, ...], bool]:
        """Return the digests of the finished batches, and whether this batch is already in the message.

        If it is, a run was killed after adding it, possibly before it was listed and recorded in the key file. Raise
        `InvalidInput` if another batch was begun, and for an outdated message or key file.
        """
        kept = self.kept
        resumed = kept.pending is not None
        if resumed and kept.pending != self.scanned.input_hmac:
            raise InvalidInput(
                "an earlier batch was begun and not finished, and a copy of the message may contain it: run apply with that "
                "batch's file first, unchanged. If the file is lost, make a new release with privatize"
            )
        digests = _digests(self.message.manifest)
        known = kept.parts or digests[:1]  # without parts, an older version was killed before it recorded the first one
        is_there = resumed and digests == (*known, kept.pending_part)
        if digests != known and not is_there:
            raise InvalidInput(_other_copy(path, key_file, len(digests), len(known) + bool(kept.pending_part)))
        if kept.papers and self.message.manifest.papers not in (kept.papers, kept.pending_papers):
            raise _changed(path, CARD, key_file)
        return known, is_there

    def finish(self) -> int:
        """List and record a batch that is already in the message. Return the number of records that it added."""
        manifest, kept = self.message.manifest, self.kept
        if len(read_manifest(self.message.path, LABELS)[0].batches) < len(manifest.batches):
            manifest = self._with_card(manifest)
            kept = self.keys.put(replace(kept, pending_papers=manifest.papers))
        self._put(manifest)
        self._record(replace(kept, done=True), manifest)
        return manifest.batches[-1].rows

    def add(self, known: tuple[str, ...], path: Path) -> int:
        """Record the batch as begun, randomize it, add it to the message and record it as finished.

        Return the number of records that it added. A batch that an earlier run had begun may have been released: if
        this run fails, it remains the only batch that may come next.
        """
        begun = self.keys.put(replace(self.kept, done=True, parts=known, pending=self.scanned.input_hmac))
        target = self.message.next_file
        try:
            manifest, added = self._write(begun, target)
        except BaseException as error:
            state = self._state_after(begun, target)
            if not isinstance(error, (OSError, MemoryError)):
                raise
            raise LabelDPError(
                f"cannot add to {path}: {os_reason(error)}. {state}. Fix the cause and run the same command again"
            ) from error
        self._record(begun, manifest)
        return added

    def _write(self, begun: KeptRelease, target: Path) -> tuple[Manifest, int]:
        """Draw the new records and publish them, the card and the manifest, in this order. Return the manifest and the number of new records."""
        message, staged, work = self.message, self.hidden / target.name, self.hidden / "work"
        work.mkdir()
        job = DrawJob(
            mechanism=message.mechanism,
            domain=self.domain,
            key=self.keys.key,
            release=bytes.fromhex(message.header.release),
            labels=staged,
            work=work,
            advice="Run again when no other program writes to the file",
            held=message,
        )
        added = self.labels.randomize(job, self.scanned, self.phase("randomizing", 2 * self.scanned.drawn))
        manifest = message.manifest  # the older digests, already checked
        if not added:
            self._put(manifest)
            return manifest, 0
        listed = ListedBatch.of(
            staged,
            target.relative_to(message.path).as_posix(),
            lambda path: LabelsFile(path, message.header, message.mechanism).count_written(),
        )
        manifest = self._with_card(replace(manifest, files=(*manifest.files, *listed.files)))
        manifest.content(self.signing)  # raises an error for a manifest that is too long, before anything is published
        self.keys.put(replace(begun, pending_part=listed.sha256, pending_papers=manifest.papers))
        target.parent.mkdir(exist_ok=True)
        publish(staged, target)
        flush(message.path)
        self._put(manifest)
        return manifest, added

    def _state_after(self, begun: KeptRelease, target: Path) -> str:
        """Allow another batch after a failure, if this one was certainly not released. Return a description of the message's state."""
        if target.exists():
            return "The batch was added but may not be listed yet, and until then readers reject the message"
        if self.kept.pending is None:
            try:
                back = replace(begun, pending=None, pending_part=None, pending_papers=(), batches=begun.batches[:-1])
                self.keys.put(back)
            except (
                LabelDPError,
                OSError,
                MemoryError,
            ):  # perhaps because of the same full disk: show the first error
                pass
            else:
                return "The message was not changed"
        return "The message was not changed, and accepts no other batch before this one"

    def _with_card(self, manifest: Manifest) -> Manifest:
        """Write the card of the message with all its batches to the hidden folder, and return the manifest with its digest."""
        message, staged = self.message, self.hidden / CARD
        card = message_card(message.mechanism, message.header, manifest.records, last_batch=today())
        staged.write_bytes(card.text().encode())
        new = ListedFile.of(staged, CARD)
        return replace(manifest, files=tuple(new if file.name == CARD else file for file in manifest.files))

    def _put(self, manifest: Manifest) -> None:
        """Move a new card, if there is one, and then the manifest into the message, unless they are already there.

        Readers reject the message between the two steps, as they do since the batch was added.
        """
        (self.hidden / MANIFEST).write_bytes(manifest.content(self.signing))
        for name in (CARD, MANIFEST):
            staged, place = self.hidden / name, self.message.path / name
            if staged.exists() and not (place.is_file() and staged.read_bytes() == place.read_bytes()):
                replace_file(staged, place)

    def _record(self, kept: KeptRelease, manifest: Manifest) -> None:
        """Record the release with this manifest and its new persons, without a pending batch."""
        persons = self.scanned.persons
        new = () if persons is None else (self.keys.serve(kept.id, persons.words(self.served)),)
        self.keys.put(
            replace(
                kept,
                served=(*kept.served, *new),
                parts=_digests(manifest),
                papers=manifest.papers,
                signed_by=None if self.signing is None else self.signing.verify_key.fingerprint,
                pending=None,
                pending_part=None,
                pending_papers=(),
            )
        )


def _digests(manifest: Manifest) -> tuple[str, ...]:
    return tuple(batch.sha256 for batch in manifest.batches)


def _kept_release(message: Message, keys: KeyFile, key_file: Path) -> KeptRelease:
    """Return the key file's record of the message's release.

    Raise `InvalidInput` for a message of another key or one that cannot be extended, and if its texts or signature
    differ from the release: a new signature would cover the change.
    """
    if not message.header.keyed:
        raise InvalidInput(
            f"{message.path} was made without --key-file, so its key is gone and nothing can be added. Make a new release"
        )
    kept = keys.find(message.header.release)
    if kept is None or (own := FiniteMechanism.from_json(kept.mechanism)) != message.mechanism:
        raise InvalidInput(
            f"{key_file} is not the key of {message.path}: it does not know release {message.header.release}. Give the key "
            "file that privatize was given"
        )
    if own.to_json() != message.mechanism.to_json():  # its bounds or its prior, which do not affect draws
        raise InvalidInput(
            f"{message.path} does not describe the mechanism as {key_file} recorded it: it was changed. Use the original message"
        )
    if message.header.row_numbers or _requested_id(kept, key_file) is None:
        raise InvalidInput(
            f"the ids in {message.path} are row numbers, and a later batch would use the same numbers again: nothing can be "
            "added. Make a new release with --id"
        )
    signed_by = None if message.signature is None else message.signature.key
    if kept.papers and kept.papers[0] != message.manifest.papers[0]:
        raise _changed(message.path, LABELS.description, key_file)
    if kept.signed_by not in (None, signed_by):
        raise InvalidInput(
            f"{message.path} was signed with the key {kept.signed_by} when it was released, and its signature is missing: "
            "someone changed it. Use the original message"
        )
    return kept


def _changed(message: Path, name: str, key_file: Path) -> InvalidInput:
    return InvalidInput(
        f"{message} has another {name} than {key_file} recorded: it was changed. Use the original message"
    )


def _with_ledger(kept: KeptRelease, ledger: Ledger | None, message: Message) -> KeptRelease:
    """Return the release, marked as charged to a ledger. Raise `InvalidInput` for a batch without that ledger, or with another one."""
    if ledger is None:
        if kept.ledger:
            raise InvalidInput(
                f"{message.path} was charged to a ledger, which has to record each later batch: give --ledger, the file that "
                "privatize was given"
            )
        return kept
    charged = ledger.release(kept.id)
    expect_mechanism(charged, message.mechanism.digest)
    check_charge(message.mechanism, charged.epsilon, message.header.entries)
    return replace(kept, ledger=True)


def _check_columns(message: Message, labels: LabelInput) -> Domain:
    """Return the bounds of the message's labels. Raise `InvalidInput` if the column names differ from the message."""
    if message.mechanism.domain is None:
        raise InvalidInput(
            f"{message.path} does not state the bounds of its labels, so nothing can be added. Make a new release"
        )
    if labels.id_column != message.header.id_column:
        raise InvalidInput(
            f"the message's id column is {message.header.id_column!r}, not {labels.id_column!r}: give --id "
            f"{message.header.id_column}, and rename the column in the new file if it has another name"
        )
    person = None if message.header.persons is None else message.header.persons.column
    if labels.person_column != person:
        raise InvalidInput(
            f"this message protects {'records' if person is None else f'the persons in the column {person!r}'}, and the new file is "
            f"read {'without persons' if labels.person_column is None else f'with persons in {labels.person_column!r}'}: "
            + (
                "leave out --person"
                if person is None
                else f"give --person {person}, and rename the column in the new file if need be"
            )
        )
    known = message.header.label_column
    if labels.label_column != known:
        raise InvalidInput(
            f"the labels of this message are called {known!r}, you gave {labels.label_column!r}: another quantity must not be "
            f"added to it. Give --label {known}, and rename the column in the new file if it is the same quantity"
        )
    return message.mechanism.domain


def _chosen(persons: PersonUnit, scanned: Scan, served: list[Words]) -> Scan:
    """Return the scan with the rows of new persons chosen. Persons who are in the message get no further label."""
    assert scanned.persons is not None, "the columns were compared"
    if scanned.persons.kind != persons.kind:
        words = {"int": "whole numbers", "str": "text"}
        raise InvalidInput(
            f"the persons of this message are {words[persons.kind]}, these are {words[scanned.persons.kind]}, so no served person would be "
            f"recognised. Convert the column {persons.column!r} first"
        )
    return scanned.choose(persons.entries, served)


def _sharing(message: Message, kept: KeptRelease, labels: LabelInput) -> LabelInput:
    """Return the labels with the shared persons, if the message shares its persons with others."""
    if message.header.persons is None or not message.header.persons.shared:
        return labels
    found = shared_release(kept)
    if found is None or not isinstance(labels, ArrowInput):
        raise InvalidInput(
            f"{message.path} was released together with other labels of the same persons: add to it from files on one machine (--engine arrow)"
        )
    own = message.header.persons.shared.index(found[1])
    return replace(labels, shared=SharedPersons(found[2], own))


def _shared_batches(message: Message, kept: KeptRelease, keys: KeyFile, scanned: Scan) -> tuple[str, ...]:
    """Return the fingerprints of all later batches with this one. Raise `InvalidInput` unless all messages that share the persons get the same.

    Entries of a new person are chosen among all label columns of the batch. With another batch, the person could get a label in two messages.
    """
    assert message.header.persons is not None, "the message has persons"
    assert scanned.persons is not None, "and so has the batch"
    before = kept.batches if kept.pending is None else kept.batches[:-1]
    now = (*before, scanned.persons.fingerprint)
    group = shared_release(kept)
    known = {
        found[1]: other
        for other in keys.releases
        if (found := shared_release(other)) and group and found[0] == group[0]
    }
    for label in message.header.persons.shared:
        folder, other = message.path.parent / label, known.get(label)
        if other is None or not (folder / MANIFEST).is_file():
            raise InvalidInput(
                f"{message.path} shares its persons with the label {label!r}, and {folder} is missing or not finished. Keep all messages of "
                "one release in one folder, and finish the release with the same privatize command first"
            )
        there = _digests(read_manifest(folder, LABELS)[0])
        if there not in (other.parts, (*other.parts, other.pending_part)):
            raise InvalidInput(_other_copy(folder, keys.path, len(there), len(other.parts)))
        done = other.batches if other.pending is None else other.batches[:-1]
        if done[: len(before)] != before or other.batches[len(before) :] not in ((), now[-1:]):
            raise InvalidInput(
                f"the messages next to {message.path} do not have the same batches: {folder} has or needs another one. Apply the same file, with "
                "the same persons and ids, to all of them before the next one"
            )
    return now


def _other_ids(labels: LabelInput, kind: str) -> str:
    """Return the error for ids of another kind than the message's. Reads the ids again, as that kind."""
    words = {"int": "whole numbers", "str": "text"}
    these = words["str" if kind == "int" else "int"]
    if labels.readable_as(kind):
        advice = f"Give --id-type {kind}"
    else:
        advice = f"Not all of them could be {words[kind]}: is {labels.id_column!r} the right column?"
    return f"the message's ids are {words[kind]}, these are {these}: they would never be the same records. {advice}"


def _other_copy(message: Path, key_file: Path, held: int, known: int) -> str:
    """Return the error for a message with other batches than the key file knows."""
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
    return f"the batches in {message} differ from the ones that {key_file} recorded: they were changed. Use the original message"


def _requested_id(kept: KeptRelease, key_file: Path) -> str | None:
    """Return the id column that `privatize` was given for the release."""
    request = parse_json(kept.request, f"a request in the key file {key_file}")
    if not isinstance(request, dict) or not isinstance(request.get("id"), str | None):
        raise InvalidInput(f"the key file {key_file} is damaged (a request in it). Restore it from a backup")
    return request.get("id")
