"""`apply`: adds a later batch of records to a message, under its mechanism and its release."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from labeldp.domain import Domain, OutOfRange, check_out_of_range
from labeldp.engines.arrow.arrow_input import ArrowInput
from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.passes import LabelInput, Scan
from labeldp.errors import InvalidInput, LabelDPError, expect, expect_path
from labeldp.message.labels_file import labels_file
from labeldp.message.layout import MANIFEST
from labeldp.message.listing import ListedBatch
from labeldp.message.manifest import Manifest
from labeldp.message.reader import Message, message_folder, open_to_extend
from labeldp.message.signing import SigningKey
from labeldp.release.batch_checks import check_columns, kept_release, other_copy, other_ids, refuse_changes, with_ledger
from labeldp.release.input_checks import check_input
from labeldp.release.key_file import KeptRelease, KeyFile
from labeldp.release.ledger import Ledger
from labeldp.release.outcome import Phase, ReleaseOutcome
from labeldp.release.staging import flush, os_reason, publish, replace_file, staging


def apply(
    message: str | os.PathLike[str],
    source: LabelSource,
    *,
    key_file: str | os.PathLike[str],
    ledger: Ledger | None = None,
    out_of_range: OutOfRange = "clip",
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ReleaseOutcome:
    """Randomize new records and add them to an existing message, with the same mechanism and at no further cost.

    A new id is trusted to be a new label. If the same labels come again under new ids, each gets one more draw and costs ε once
    more, and nothing here can notice it: after 40 such batches 99.85 % of the labels were recovered in a test. Never apply
    labels again whose ids were made anew. The ledger keeps the number of batches and their records for you to judge.

    Parameters
    ----------
    message : str or Path
        The message's folder.
    source : LabelSource
        The new records. The id column and the label column must have the names that they have in the message.
    key_file : str or Path
        The key file that `privatize` was given for this message.
    ledger : Ledger, optional
        The ledger that was charged for this message. A release that was charged to a ledger can only be added to with it: the
        batch is recorded there before anything is drawn.
    out_of_range : {"clip", "clip-all", "error"}, default "clip"
        What happens to labels outside the message's bounds, as in `LabelRandomizer`.
    sign_key : str or Path, optional
        Your private key, as in `privatize`. A signed message takes a batch only with the key that it was signed with; an
        unsigned message is signed from now on.
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
        copy, another batch was begun and not finished, the message is signed with another key, more than 20 % of the labels lie
        outside the bounds, or the ledger is missing or is not the one that was charged.
    LabelDPError
        If the batch cannot be written. The text says whether the message is as it was.

    Warns
    -----
    ClippingWarning
        If more than 5 % of the labels lie outside the bounds. The share is private: the message does not hold it.

    See Also
    --------
    privatize : Writes the message in the first place.

    Privacy
    -------
    Costs nothing more if each new id is a new label: every record still has one draw. A record whose id is in the message
    keeps its private label, even if its label has changed, because a second draw under one release would show that it
    changed. The key file records which batches the message has, so an outdated copy of either is refused. It also records
    the input of a batch that was begun, so no other batch can take its place.

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
    return add_batch(
        message,
        ArrowInput(source),
        key_file=key_file,
        ledger=ledger,
        out_of_range=out_of_range,
        sign_key=sign_key,
        phase=phase,
    )


def add_batch(
    message: str | os.PathLike[str],
    labels: LabelInput,
    *,
    key_file: str | os.PathLike[str],
    ledger: Ledger | None = None,
    out_of_range: OutOfRange = "clip",
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ReleaseOutcome:
    """Randomizes new records that an engine reads and adds them to a message. `apply` describes the parameters."""
    check_out_of_range(out_of_range)
    expect_path(message, "message", "give the folder of the message")
    expect_path(key_file, "key_file", "give the file that privatize was given")
    if ledger is not None:
        expect(ledger, Ledger, "ledger", "make one with Ledger(path)")
    path, key_path = Path(message), Path(key_file)
    place = path.resolve()
    message_folder(place)  # refuses what is not a message before anything is locked
    check_input(labels, place, key_path)
    signing = None if sign_key is None else SigningKey.read(sign_key, place)
    with KeyFile.use(key_path) as keys, staging(place) as hidden:
        opened = open_to_extend(place, signing)
        kept = kept_release(opened, keys, key_path)
        refuse_changes(opened, kept, key_path)
        kept = with_ledger(kept, ledger, opened)
        domain = check_columns(opened, labels)
        batch = _scan_batch(opened, labels.in_unit(domain), domain, keys.key, out_of_range, phase)
        known, is_there = _place_of_batch(batch, kept, path, key_path)
        if not is_there and hidden.stat().st_dev != place.stat().st_dev:
            raise InvalidInput(f"{path} is the top folder of a disk: move the message into a folder on that disk first")
        if ledger is not None:
            ledger.record_batch(
                kept.id,
                records=batch.scanned.records,
                input_hmac=batch.scanned.input_hmac,
                mechanism_digest=opened.mechanism.digest,
            )
        if is_there:
            added = _finish_listed(batch, keys, kept, hidden, signing)
        else:
            begun = keys.put(replace(kept, done=True, parts=known, pending=batch.scanned.input_hmac))
            resumed = kept.pending is not None
            added = _add_batch(batch, keys, begun, hidden, signing, phase, path, resumed=resumed)
    return ReleaseOutcome(
        path,
        opened.mechanism,
        added,
        batch.scanned.clipped,
        resumed=kept.pending is not None,
        already_held=batch.scanned.records - added,
        message_records=opened.records + (0 if is_there else added),
    )


@dataclass(frozen=True)
class _Batch:
    """A batch that was scanned, and the message that it is for. The ids of the labels have the message's type."""

    message: Message
    labels: LabelInput
    domain: Domain
    scanned: Scan


def _scan_batch(
    message: Message, labels: LabelInput, domain: Domain, key: bytes, out_of_range: OutOfRange, phase: Phase
) -> _Batch:
    """Reads the whole batch once. Refuses rows that cannot be released and ids that are not such as the message has."""
    typed = labels.with_ids_as(message.id_type)
    progress = phase("checking", typed.row_count())
    scanned = typed.scan(domain, key=key, out_of_range=out_of_range, progress=progress)
    domain.judge_clipping(scanned.clipped, scanned.records, out_of_range)
    if scanned.id_kind != message.header.id_type:
        raise InvalidInput(other_ids(labels, message.header.id_type))
    return _Batch(message, typed, domain, scanned)


def _place_of_batch(batch: _Batch, kept: KeptRelease, path: Path, key_file: Path) -> tuple[tuple[str, ...], bool]:
    """The digests of the batches that were finished before, and whether this batch is in the message already.

    If it is, a run was killed after adding it: it is perhaps not listed, and not recorded in the key file. Refuses any other
    batch than one that was begun, and a message or a key file that is not the newest.
    """
    resumed = kept.pending is not None
    if resumed and kept.pending != batch.scanned.input_hmac:
        raise InvalidInput(
            "an earlier batch was begun and not finished, and a copy of the message may contain it: run apply with that "
            "batch's file first, unchanged. If the file is lost, make a new release with privatize"
        )
    digests = _digests(batch.message.manifest)
    known = kept.parts or digests[:1]  # no parts: privatize was killed before it could record the first one
    is_there = resumed and digests == (*known, kept.pending_part)
    if digests != known and not is_there:
        raise InvalidInput(other_copy(path, key_file, len(digests), len(known) + bool(kept.pending_part)))
    return known, is_there


def _finish_listed(batch: _Batch, keys: KeyFile, kept: KeptRelease, hidden: Path, signing: SigningKey | None) -> int:
    """Lists and records a batch that is in the message already; returns how many records it added."""
    message = batch.message
    _put_manifest(_stage_manifest(message.manifest, hidden, signing), message.path)
    keys.put(replace(_as_released(kept, message.manifest, signing), done=True))
    return message.manifest.batches[-1].rows


def _add_batch(
    batch: _Batch,
    keys: KeyFile,
    begun: KeptRelease,
    hidden: Path,
    signing: SigningKey | None,
    phase: Phase,
    path: Path,
    *,
    resumed: bool,
) -> int:
    """Randomizes a batch that the key file knows as begun, adds it to the message and records it as finished.

    Returns how many records it added. A batch that an earlier run had begun (`resumed`) may have been released: if this run
    fails, it stays the only one that may come next.
    """
    target = batch.message.next_file
    try:
        manifest, added = _write_batch(batch, keys, begun, target, hidden, signing, phase)
    except BaseException as error:
        state = _state_after(keys, begun, target, resumed=resumed)
        if not isinstance(error, (OSError, MemoryError)):
            raise
        raise LabelDPError(
            f"cannot add to {path}: {os_reason(error)}. {state}. Fix the cause and run the same command again"
        ) from error
    keys.put(_as_released(begun, manifest, signing))
    return added


def _write_batch(
    batch: _Batch,
    keys: KeyFile,
    begun: KeptRelease,
    target: Path,
    hidden: Path,
    signing: SigningKey | None,
    phase: Phase,
) -> tuple[Manifest, int]:
    """Draws the new records and puts them and then the manifest in place. Returns the manifest and how many records are new."""
    message, place = batch.message, batch.message.path
    staged = hidden / target.name
    added = _randomize(batch, keys.key, staged, phase)
    manifest = message.manifest  # the older digests as they were checked
    if added:
        name = target.relative_to(place).as_posix()
        listed = ListedBatch.of(
            staged, name, lambda path: labels_file(path, message.header, message.mechanism).count_written()
        )
        manifest = replace(manifest, files=(*manifest.files, *listed.files))
    new_manifest = _stage_manifest(manifest, hidden, signing)
    if added:
        keys.put(replace(begun, pending_part=listed.sha256))
        target.parent.mkdir(exist_ok=True)
        publish(staged, target)
        flush(place)
    _put_manifest(new_manifest, place)
    return manifest, added


def _state_after(keys: KeyFile, begun: KeptRelease, target: Path, *, resumed: bool) -> str:
    """Frees the way for another batch after a failure, if this one was certainly not released. Says how the message is."""
    if target.exists():
        return "The batch is there but perhaps not listed, and until then readers refuse the message"
    if resumed:
        return "The message is as it was, and takes no other batch before this one"
    try:
        keys.put(replace(begun, pending=None, pending_part=None))
    except (LabelDPError, OSError, MemoryError):  # perhaps the same full disk: the first error is the one to show
        return "The message is as it was, and takes no other batch before this one"
    return "The message is as it was"


def _digests(manifest: Manifest) -> tuple[str, ...]:
    return tuple(batch.sha256 for batch in manifest.batches)


def _stage_manifest(manifest: Manifest, hidden: Path, signing: SigningKey | None) -> Path:
    staged = hidden / MANIFEST
    staged.write_bytes(manifest.content(signing))
    return staged


def _put_manifest(staged: Path, message: Path) -> None:
    """Puts a manifest into the message, unless it is there already. Readers see the old one or the new one."""
    if staged.read_bytes() != (message / MANIFEST).read_bytes():
        replace_file(staged, message / MANIFEST)


def _as_released(kept: KeptRelease, manifest: Manifest, signing: SigningKey | None) -> KeptRelease:
    """The release with this manifest in place, and nothing begun."""
    return replace(
        kept,
        parts=_digests(manifest),
        papers=manifest.papers,
        signed_by=None if signing is None else signing.verify_key.fingerprint,
        pending=None,
        pending_part=None,
    )


def _randomize(batch: _Batch, key: bytes, labels_file: Path, phase: Phase) -> int:
    """Randomizes the new records into `labels_file`; returns how many there are."""
    work = labels_file.parent / "work"
    work.mkdir()
    return batch.labels.randomize(
        batch.message.mechanism,
        batch.domain,
        batch.scanned,
        key=key,
        release=bytes.fromhex(batch.message.header.release),
        advice="Run again when nobody writes to the file",
        labels=labels_file,
        work=work,
        held=batch.message,
        progress=phase("randomizing", 2 * batch.scanned.records),
    )
