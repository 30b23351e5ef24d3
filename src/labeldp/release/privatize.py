"""A release from beginning to end: read, charge, fix the mechanism, randomize, publish, commit.

The order is what keeps the promises. Nothing is drawn from the labels before the ledger is charged; no label is randomized
before the mechanism is stored; the message appears by one rename. A run that dies anywhere can be repeated: with the
same key and the same input it continues the same release at no further cost, and keyed randomness gives every record
the draw it had.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labeldp.budget import decimal_text, exact_epsilon
from labeldp.domain import Domain
from labeldp.engines.arrow import engine as arrow
from labeldp.engines.arrow.engine import Progress, Scan
from labeldp.engines.arrow.source import LabelSource
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.card import privacy_card_text
from labeldp.message.labels_file import stamp
from labeldp.message.manifest import Header, describe
from labeldp.message.reader import Message
from labeldp.randomizer import LabelRandomizer
from labeldp.release.input_checks import EarlyDuplicates, ObservedSource, SameInput, check_places, quick_row_count
from labeldp.release.key_file import KeyFile
from labeldp.release.ledger import Ledger
from labeldp.release.release_record import OpenRelease, ReleaseRecord
from labeldp.release.staging import os_reason, publish, staging
from labeldp.sampling import KeyedRandomness

Phase = Callable[[str, int | None], Progress | None]
"""Called when a phase begins, with its name and the number of rows if known; gives the callback for its progress."""

LEAST_ROW_BYTES = 9
"""What a row takes on disk while it is spilled, at the very least: a key of 8 bytes and a code."""


@dataclass(frozen=True)
class ReleaseOutcome:
    """What the labels party may see of its own run. `clipped` is private: for the console, never for the message."""

    message: Path
    mechanism: FiniteMechanism
    records: int
    clipped: int
    resumed: bool
    already_held: int = 0


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
) -> ReleaseOutcome:
    """Writes the message `out` from the labels in `source`, charging `dataset` in `ledger` where given.

    Privacy: the message is ε-label-DP for replacing one label, ε as in `randomizer`. With `key_file` the run can be
    resumed and later batches added; without, the key is forgotten when the run ends. A run that was resumed, or
    repeated after it had ended, charges nothing.
    """
    check_places(source, out, key_file)
    domain = Domain.of(randomizer.domain)
    with ExitStack() as held:
        keys = None if key_file is None else held.enter_context(KeyFile.use(key_file, create=True))
        place = held.enter_context(staging(out.absolute()))
        record = ReleaseRecord(exact_epsilon(randomizer.epsilon), ledger, dataset, keys)
        existing = _message_at(out)
        known = None if existing is None else record.recall(existing.header.release)
        if existing is None:
            record.require()
        elif known is None:
            raise _in_the_way(out)
        rows = quick_row_count(source)
        scanned = arrow.scan(
            ObservedSource.of(source, EarlyDuplicates(source, rows)),
            domain,
            out_of_range=randomizer.out_of_range,
            key=None if keys is None else record.key,
            grid=_histogram_grid(randomizer, rows),
            progress=phase("checking", rows),
        )
        request = _request(source, randomizer, scanned)
        if existing is not None and known is not None:
            if (known.input_hmac, known.request) != (scanned.input_hmac, request):
                raise _in_the_way(out)
            release = OpenRelease(known.id, existing.mechanism.to_json())
            record.remember(release, scanned, request)
            _commit(out, record, release)  # at most this was missing
            return ReleaseOutcome(out, existing.mechanism, scanned.records, scanned.clipped, resumed=True)
        _check_space(place, scanned)
        randomizer.rehearse(scanned.records)
        begun = record.find(scanned, request)
        release = begun if begun is not None else record.reserve(scanned, request)
        try:
            if release.mechanism is None:
                release = record.fix(release, _design(source, randomizer, scanned, record.key, phase))
            mechanism = record.remember(release, scanned, request)
            header = Header(release.id, source.id_name, scanned.id_kind, keep_order, keyed=keys is not None)
            message, work = place / "message", place / "work"
            message.mkdir()
            work.mkdir()
            arrow.randomize(
                ObservedSource.of(source, SameInput(source.path, scanned.records, record.key, scanned.input_hmac)),
                mechanism,
                domain,
                KeyedRandomness(record.key, bytes.fromhex(release.id)),
                scanned,
                labels_file=message / "labels.parquet",
                work=work,
                keep_order=keep_order,
                progress=phase("randomizing", 2 * scanned.records),
            )
            (message / "mechanism.json").write_text(describe(mechanism, header), encoding="utf-8")
            (message / "PRIVACY.md").write_text(privacy_card_text(mechanism, header), encoding="utf-8")
            publish(message, out.absolute())
        except OSError as error:
            left = "" if os.path.lexists(out) else " No part of it was left."
            raise LabelDPError(
                f"cannot write the message {out}: {os_reason(error)}.{left} {record.after_failure()}"
            ) from error
        _commit(out, record, release)
    return ReleaseOutcome(out, mechanism, scanned.records, scanned.clipped, resumed=begun is not None)


def _histogram_grid(randomizer: LabelRandomizer, rows: int | None) -> Domain | None:
    """The grid of the histogram, if one is needed and known before the records are read: that saves a pass over them."""
    if not rows:  # unknown, or none: the scan will say so
        return None
    grid, split = randomizer.plan(rows)
    return None if split is None else grid


def _design(
    source: LabelSource, randomizer: LabelRandomizer, scanned: Scan, key: bytes, phase: Phase
) -> FiniteMechanism:
    """The mechanism for these labels, its private prior drawn if it needs one: ε₁ is spent here."""
    grid, split = randomizer.plan(scanned.records)
    if split is None:
        return randomizer.design(np.empty(0, np.int64), scanned.records)
    counts = scanned.counts if scanned.grid == grid else None
    if counts is None:
        same = ObservedSource.of(source, SameInput(source.path, scanned.records, key, scanned.input_hmac))
        counts = arrow.count(same, grid, progress=phase("counting", scanned.records))
    return randomizer.design(counts, scanned.records)


def _commit(out: Path, record: ReleaseRecord, release: OpenRelease) -> None:
    try:
        record.commit(release, stamp(out / "labels.parquet"))
    except LabelDPError as error:
        again = " Run the same command again to note it" if record.keys is not None else ""
        raise LabelDPError(
            f"the message {out} is complete and paid for, but this could not be noted: {error}.{again}"
        ) from error


def _message_at(out: Path) -> Message | None:
    if not os.path.lexists(out):
        return None
    try:
        return Message.open(out)
    except InvalidInput:
        raise _in_the_way(out) from None


def _in_the_way(out: Path) -> InvalidInput:
    return InvalidInput(f"{out} exists: choose another --out, nothing is overwritten")


def _check_space(place: Path, scanned: Scan) -> None:
    """A disk that is certainly too small is found before anything is charged."""
    free = shutil.disk_usage(place).free
    if free < LEAST_ROW_BYTES * scanned.records:
        raise InvalidInput(
            f"{scanned.records:,} rows need more than {LEAST_ROW_BYTES * scanned.records / 1e6:,.1f} MB in {place.parent}, and "
            f"{free / 1e6:,.1f} MB are free. Nothing was charged; make room or choose another place"
        )


def _request(source: LabelSource, randomizer: LabelRandomizer, scanned: Scan) -> str:
    """What was asked for, as text: only the same request may resume a release."""
    domain = Domain.of(randomizer.domain)
    prior = randomizer.prior
    given = None if prior is None else hashlib.sha256(prior.values.tobytes() + prior.masses.tobytes()).hexdigest()
    return json.dumps(
        {
            "epsilon": decimal_text(exact_epsilon(randomizer.epsilon)),
            "domain": domain.to_json(),
            "loss": randomizer.loss if isinstance(randomizer.loss, str) else getattr(randomizer.loss, "name", "custom"),
            "mechanism": randomizer.mechanism,
            "prior": given,
            "id": source.id_column,
            "id_type": scanned.id_kind,
        },
        sort_keys=True,
    )
