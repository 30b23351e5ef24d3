"""A release from beginning to end, on any engine.

The order of the steps keeps the promises: read, charge, fix the mechanism, randomize, publish, commit. Nothing is drawn from
the labels before the ledger is charged. No label is randomized before the mechanism is stored. The message appears by
one rename. A run that dies at any point can be repeated: with the same key and the same input it continues the same release
at no further cost, and keyed randomness gives every record the same draw.
"""

import hashlib
import json
import os
import shutil
from contextlib import ExitStack
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np

from labeldp.budget import decimal_text, exact_epsilon
from labeldp.domain import Domain
from labeldp.engines.passes import LabelInput, Scan
from labeldp.errors import InvalidInput, LabelDPError, expect, expect_path
from labeldp.losses import Custom, LossLike, get_loss
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.description import Header
from labeldp.message.manifest import read_manifest
from labeldp.message.reader import Message
from labeldp.message.signing import SigningKey
from labeldp.message.writer import new_message
from labeldp.randomizer import LabelRandomizer
from labeldp.release.input_checks import check_input
from labeldp.release.key_file import KeyFile
from labeldp.release.ledger import Ledger
from labeldp.release.outcome import Phase, ReleaseOutcome
from labeldp.release.release_record import OpenRelease, ReleaseRecord
from labeldp.release.staging import os_reason, publish, staging


def release_labels(
    labels: LabelInput,
    randomizer: LabelRandomizer,
    out: str | os.PathLike[str],
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    key_file: str | os.PathLike[str] | None = None,
    keep_order: bool = False,
    sign_key: str | os.PathLike[str] | None = None,
    phase: Phase = lambda name, rows: None,  # noqa: ARG005
) -> ReleaseOutcome:
    """Randomizes the labels that an engine reads and writes them as a message. `privatize` describes the parameters."""
    expect(randomizer, LabelRandomizer, "randomizer", "make one with LabelRandomizer(epsilon=1, domain=(lower, upper))")
    if ledger is not None:
        expect(ledger, Ledger, "ledger", "make one with Ledger(path), or Ledger.create(path) for a new one")
    elif dataset is not None:
        raise InvalidInput("dataset names a dataset in a ledger: give ledger=Ledger(path) too")
    expect_path(out, "out", "the message is a new folder")
    if key_file is not None:
        expect_path(key_file, "key_file", "the key is kept in a file, which is made if there is none")
    out, key_path = Path(out), None if key_file is None else Path(key_file)
    check_input(labels, out, key_path, keep_order=keep_order)
    signing = None if sign_key is None else SigningKey.read(sign_key, out)
    domain = Domain.of(randomizer.domain)
    labels = labels.in_unit(domain)
    with ExitStack() as stack:
        keys = None if key_path is None else stack.enter_context(KeyFile.use(key_path, create=True))
        place = stack.enter_context(staging(out.absolute()))
        record = ReleaseRecord(exact_epsilon(randomizer.epsilon), ledger, dataset, keys)
        existing = _message_at(out, signing)
        known = None if existing is None else record.recall(existing.header.release)
        if existing is None:
            record.require()
        elif known is None:
            raise _in_the_way(out)
        rows = labels.row_count()
        scanned = labels.scan(
            domain,
            key=record.key,
            out_of_range=randomizer.out_of_range,
            grid=_histogram_grid(randomizer, rows),
            progress=phase("checking", rows),
        )
        domain.judge_clipping(scanned.clipped, scanned.records, randomizer.out_of_range)
        request = _request(labels, randomizer, scanned)
        header_of = partial(
            Header,
            id_column=labels.id_name,
            id_type=scanned.id_kind,
            keep_order=keep_order,
            keyed=keys is not None,
            row_numbers=labels.id_column is None,
            label_column=labels.label_column,
        )
        if existing is not None and known is not None:
            if (known.input_hmac, known.request) != (scanned.input_hmac, request):
                raise InvalidInput(
                    f"{out} exists and is not overwritten. The key file knows it: it was made from another input, with other "
                    "settings or by another engine. Repeat that command as it was; another --out is a new release, charged anew"
                )
            _check_header(out, existing.header, header_of(known.id))
            release = OpenRelease(known.id, existing.mechanism.to_json())
            record.remember(release, scanned, request)
            _commit(out, record, release)  # at most this was missing
            held = existing.records
            return ReleaseOutcome(
                out, existing.mechanism, scanned.records, scanned.clipped, resumed=True, message_records=held
            )
        _check_space(place, labels.least_row_bytes, scanned)
        randomizer.rehearse(scanned.records)
        begun = record.find(scanned, request)
        release = begun if begun is not None else record.reserve(scanned, request)
        try:
            if release.mechanism is None:
                release = record.fix(release, _design(labels, randomizer, scanned, record, phase))
            mechanism = record.remember(release, scanned, request)
            with new_message(place / "message", mechanism, header_of(release.id), signing) as labels_file:
                work = place / "work"
                work.mkdir()
                labels.randomize(
                    mechanism,
                    domain,
                    scanned,
                    key=record.key,
                    release=bytes.fromhex(release.id),
                    advice=record.after_change(),
                    labels=labels_file,
                    work=work,
                    keep_order=keep_order,
                    progress=phase("randomizing", 2 * scanned.records),
                )
            publish(place / "message", out.absolute())
        except (OSError, MemoryError) as error:
            left = "" if os.path.lexists(out) else " No part of it was left."
            raise LabelDPError(
                f"cannot write the message {out}: {os_reason(error)}.{left} {record.after_failure()}"
            ) from error
        _commit(out, record, release)
    records, resumed = scanned.records, begun is not None
    return ReleaseOutcome(out, mechanism, records, scanned.clipped, resumed=resumed, message_records=records)


def _histogram_grid(randomizer: LabelRandomizer, rows: int | None) -> Domain | None:
    """The histogram's grid, if a histogram is needed and the number of rows is known: counting now saves a pass."""
    if not rows:  # unknown, or an empty file, which the scan refuses
        return None
    grid, split = randomizer.plan(rows)
    return None if split is None else grid


def _design(
    labels: LabelInput, randomizer: LabelRandomizer, scanned: Scan, record: ReleaseRecord, phase: Phase
) -> FiniteMechanism:
    """The mechanism for these labels. If it needs a private prior, that is drawn here, and ε₁ is spent."""
    grid, split = randomizer.plan(scanned.records)
    if split is None:
        return randomizer.design(np.empty(0, np.int64), scanned.records)
    counts = scanned.counts if scanned.grid == grid else None
    if counts is None:
        progress = phase("counting", scanned.records)
        counts = labels.count_cells(grid, scanned, key=record.key, advice=record.after_change(), progress=progress)
    return randomizer.design(counts, scanned.records)


def _commit(out: Path, record: ReleaseRecord, release: OpenRelease) -> None:
    try:
        record.commit(release, *read_manifest(out))
    except LabelDPError as error:
        again = " Run the same command again to record it" if record.keys is not None else ""
        raise LabelDPError(
            f"the message {out} is complete and paid for, but this could not be recorded: {error}.{again}"
        ) from error


def _message_at(out: Path, signing: SigningKey | None) -> Message | None:
    """The message that is there already, which must have the signature that was asked for."""
    if not os.path.lexists(out):
        return None
    try:
        found = Message.open(out)
    except InvalidInput:
        raise _in_the_way(out) from None
    held = None if found.signature is None else found.signature.key
    if held != (None if signing is None else signing.verify_key.fingerprint):
        raise InvalidInput(
            f"{out} exists, and is {'not signed' if held is None else f'signed with the key {held}'}. It is not overwritten: "
            "choose another --out, or repeat the command with the --sign-key that it had"
        )
    if signing is not None:
        read_manifest(out, signing.verify_key)  # that the key is named is not enough
    return found


def _check_header(out: Path, held: Header, asked: Header) -> None:
    """Refuses to take a message for the one that was asked for if it says anything else about itself."""
    for name in (one.name for one in fields(Header)):
        if (has := getattr(held, name)) != (wanted := getattr(asked, name)):
            raise InvalidInput(
                f"{out} exists and was made with {name} = {has!r}, but this command asks for {wanted!r}. It is not overwritten: "
                "repeat the command as it was, or choose another --out, which makes a new release"
            )


def _in_the_way(out: Path) -> InvalidInput:
    return InvalidInput(f"{out} exists and is not overwritten: choose another --out")


def _check_space(place: Path, row_bytes: int, scanned: Scan) -> None:
    """Refuses a disk that is certainly too small, before anything is charged."""
    needed, free = row_bytes * scanned.records, shutil.disk_usage(place).free
    if free < needed:
        raise InvalidInput(
            f"{scanned.records:,} rows need more than {needed / 1e6:,.1f} MB in {place.parent}, but only {free / 1e6:,.1f} MB "
            "are free. Nothing was charged: make room or choose another place"
        )


def _request(labels: LabelInput, randomizer: LabelRandomizer, scanned: Scan) -> str:
    """What was asked for, as text. Only the same request may resume a release."""
    domain = Domain.of(randomizer.domain)
    prior = randomizer.prior
    given = None if prior is None else hashlib.sha256(prior.values.tobytes() + prior.masses.tobytes()).hexdigest()
    return json.dumps(
        {
            "epsilon": decimal_text(exact_epsilon(randomizer.epsilon)),
            "domain": domain.to_json(),
            "loss": _loss_text(randomizer.loss, domain),
            "mechanism": randomizer.mechanism,
            "prior": given,
            "id": labels.id_column,
            "id_type": scanned.id_kind,
            "id_arrow_types": scanned.id_types,
        },
        sort_keys=True,
    )


def _loss_text(loss: LossLike, domain: Domain) -> str:
    """What tells a loss from others. Functions have no name of their own, so a digest of their values on the bounds is added."""
    rule = get_loss(loss)
    if not isinstance(rule, Custom):
        return loss if isinstance(loss, str) else rule.name
    grid = np.linspace(domain.lower, domain.upper, 33)
    values = np.ascontiguousarray(rule(grid[:, None], grid[None, :]), "<f8")
    return f"{rule.name} {hashlib.sha256(values.tobytes()).hexdigest()}"
