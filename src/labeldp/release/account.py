"""The accounts of a release: a ledger is charged, and a key file keeps its key and progress. Either may be missing."""

import json
import os
import secrets
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from labeldp.artifact.description import check_charge
from labeldp.artifact.manifest import read_manifest
from labeldp.engines.passes import PersonEntries
from labeldp.errors import InvalidInput, LabelDPError, expect
from labeldp.mechanisms import FiniteMechanism
from labeldp.release.key_file import KeptRelease, KeyFile
from labeldp.release.ledger import Ledger, dataset_name, today
from labeldp.release.ledger_rows import Release, expect_mechanism, key_fingerprint
from labeldp.release_kind import LABELS, ReleaseKind


@dataclass(frozen=True)
class ChargeRequest:
    """The identity of a release for resuming it: its kind, its settings as text, the fingerprint of its input and the type of its ids.

    Without a fingerprint a release cannot be resumed. `entries` is the number of randomized labels per person.
    """

    kind: ReleaseKind
    settings: str
    input_hmac: str | None = None
    id_type: str = ""
    entries: int = 1


@dataclass(frozen=True)
class Charge:
    """A charged release, with the JSON text of its mechanism if it is already fixed."""

    id: str
    mechanism: str | None = None
    resumed: bool = False


@dataclass(frozen=True)
class Account:
    """The ledger and the key file of a run. Each step is recorded in the ledger first, so everything in the key file is charged.

    `covered` is the release whose charge covers this one, if several labels share the persons. `date` is the day of the run.
    """

    epsilon: Fraction
    ledger: Ledger | None = None
    dataset: str | None = None
    keys: KeyFile | None = None
    unit: str = "record"
    covered: str | None = None
    date: str = field(default_factory=today)

    def __post_init__(self) -> None:
        if self.ledger is not None:
            expect(self.ledger, Ledger, "ledger", "make one with Ledger(path), or Ledger.create(path) for a new one")
            if self.dataset is None:
                raise InvalidInput(
                    "a ledger needs the name of the dataset to charge: give --dataset, or dataset=… in Python"
                )
            dataset_name(self.dataset)
        elif self.dataset is not None:
            raise InvalidInput("dataset names a dataset in a ledger: give ledger=Ledger(path) too")

    @cached_property
    def key(self) -> bytes:
        """The key of the draws: from the key file, or a temporary one that is discarded when the run ends."""
        return os.urandom(32) if self.keys is None else self.keys.key

    def require(self) -> None:
        """Raise an error if the release exceeds the budget. Call this before labels are read."""
        if self.ledger is not None and self.covered is None:
            self.ledger.require(self._name, self.epsilon, unit=self.unit, key_check=self._key_check)

    def charge(self, request: ChargeRequest) -> Charge:
        """Charge a release permanently, or find an unfinished charged release of the same input and settings.

        A new key is written to disk first, because a charge without its key is lost.
        """
        if self.covered is not None:
            self._check_cover(request)
        return self._find(request) or self._reserve(request)

    def _check_cover(self, request: ChargeRequest) -> None:
        """Raise `InvalidInput` unless the charge of another label covers this one. It covers each label once."""
        first = None if self.covered is None else self.recall(self.covered)
        shared, part = _spec(request.settings)
        if first is None or shared is None or _spec(first.request)[0] != shared:
            raise InvalidInput(
                "the persons or the ids changed since the first label was released, so its charge does not cover this label. "
                "Restore the input, or make a new release with another --out"
            )
        known = () if self.keys is None else self.keys.releases
        begun = [kept for kept in known if _spec(kept.request) == (shared, part)]
        if any(
            kept.done or (kept.input_hmac, kept.request) != (request.input_hmac, request.settings) for kept in begun
        ):
            raise InvalidInput(
                "this label was released or begun already under the charge of the first label, which covers it once. Use that message, or "
                "make a new release of all labels with another --out, which is charged"
            )

    def _find(self, request: ChargeRequest) -> Charge | None:
        if self.keys is None or not self.keys.stored or request.input_hmac is None:
            return None
        if self.ledger is None:
            kept = self.keys.resumable(request.input_hmac, request.settings)
            return None if kept is None else Charge(kept.id, kept.mechanism, resumed=True)
        found = self.ledger.find_resumable(
            self._name,
            self.epsilon,
            key_check=key_fingerprint(self.keys.key),
            input_hmac=request.input_hmac,
            request=request.settings,
        )
        return None if found is None else Charge(found.id, found.mechanism_json, resumed=True)

    def _reserve(self, request: ChargeRequest) -> Charge:
        if self.keys is not None:
            self.keys.save()
        if self.ledger is None:
            return Charge(secrets.token_hex(16))
        forget = self.keys is None and request.input_hmac is not None  # without its key it cannot be resumed
        charged = self.ledger.reserve(
            self._name,
            self.epsilon,
            kind=request.kind,
            unit=self.unit,
            entries=request.entries,
            part_of=self.covered,
            part=_label(request.settings),
            key_check=self._key_check,
            input_hmac=None if forget else request.input_hmac,
            request=None if forget else request.settings,
        )
        return Charge(charged.id)

    def recall(self, release: str) -> Release | KeptRelease | None:
        """Return the release with this id, finished or not, if it was made with this key and, with a ledger, charged to it."""
        if self.keys is None:
            return None
        if self.ledger is None:
            return self.keys.find(release)
        try:
            charged = self.ledger.release(release)
        except InvalidInput:  # the ledger does not know it
            return None
        return charged if (charged.dataset, charged.key_check) == (self._name, self._key_check) else None

    def fix(self, charge: Charge, mechanism: FiniteMechanism, request: ChargeRequest) -> None:
        """Store the mechanism of a release. After this, labels may be randomized with it.

        New or resumed, the mechanism must be the one in the ledger and cost no more than was charged.
        """
        text = mechanism.to_json()
        check_charge(mechanism, self.epsilon, request.entries)
        if self.ledger is not None:
            new = charge.mechanism is None
            charged = self.ledger.fix(charge.id, mechanism) if new else self.ledger.release(charge.id)
            expect_mechanism(charged, mechanism.digest)
            check_charge(mechanism, charged.epsilon, request.entries)
        if self.keys is None:
            return
        kept = self.keys.find(charge.id)
        if kept is None:
            assert request.input_hmac is not None, "a release with a key has a fingerprint of its input"
            self.keys.put(
                KeptRelease(
                    charge.id,
                    request.id_type,
                    request.input_hmac,
                    request.settings,
                    text,
                    ledger=self.ledger is not None,
                )
            )
        elif kept.mechanism != text and FiniteMechanism.from_json(kept.mechanism) != mechanism:
            raise LabelDPError(
                f"the key file {self.keys.path} and the ledger disagree about the mechanism of release {charge.id}: one "
                "of them was damaged or restored. Nothing was released. Use another key file, which is a new charge"
            )

    def serve(self, release: str, persons: PersonEntries | None) -> None:
        """Record the persons of a release, if it is kept. Call this before the message is published: later batches leave them out."""
        if self.keys is not None and persons is not None and not (kept := self._kept(release)).served:
            self.keys.put(replace(kept, served=(self.keys.serve(release, persons.words()),)))

    def record(self, release: str, folder: Path) -> None:
        """Record the digests and the signer of a complete message before it is published. Records of later batches are kept."""
        if self.keys is not None and not (kept := self._kept(release)).done:
            self.keys.put(_as_in(kept, folder))

    def expect_recorded(self, release: str, folder: Path) -> None:
        """Raise `InvalidInput` if the message of an unfinished release differs from the recorded one."""
        kept = None if self.keys is None else self._kept(release)
        if kept is not None and not kept.done and kept.parts and kept != _as_in(kept, folder):
            raise InvalidInput(
                f"{folder} differs from the release that was recorded: it was changed, or another run wrote this release elsewhere. "
                "Restore the original, or choose another --out: the release continues there, at no further cost"
            )

    def commit(self, release: str, folder: Path) -> None:
        """Record that a message is published, with its digests and its signer. Records of later batches are kept."""
        if self.ledger is not None:
            self.ledger.commit(release)
        if self.keys is not None:
            kept = self._kept(release)
            if not kept.done:
                self.keys.put(replace(kept if kept.parts else _as_in(kept, folder), done=True))

    def _kept(self, release: str) -> KeptRelease:
        kept = None if self.keys is None else self.keys.find(release)
        assert kept is not None, "stored by fix"
        return kept

    def after_failure(self) -> str:
        """Return the cost of a failed run and what to do."""
        if self.keys is not None:
            return "Fix the cause and run the same command again: it continues where it stopped, at no further cost"
        if self.ledger is not None:
            return (
                "The release stays charged, and without --key-file it cannot be resumed: running again is a new charge"
            )
        return "Fix the cause and run again"

    def after_change(self) -> str:
        """Return the cost of a run whose input changed while it was read, and what to do."""
        again = "Run again when no other program writes to the file"
        if self.keys is not None:
            return f"{again}. If it was charged, it is resumed only if the file is again the same as at the beginning"
        if self.ledger is not None:
            return f"{again}. The release stays charged, and without --key-file it cannot be resumed"
        return again

    @property
    def _name(self) -> str:
        assert self.dataset is not None, "checked when it was made"
        return self.dataset

    @property
    def _key_check(self) -> str | None:
        return None if self.keys is None else key_fingerprint(self.keys.key)


def shared_release(kept: KeptRelease) -> tuple[str, str, tuple[int, ...]] | None:
    """Return the first release, the label column and the weights of all columns if several labels share the persons, else None."""
    shared, part = _spec(kept.request)
    if not isinstance(shared, list) or not isinstance(part, list):
        return None
    return str(part[0] or kept.id), str(part[1]), tuple(shared[1])


def _spec(settings: str | None) -> tuple[object, object]:
    """Return the settings of label columns that share the persons, including the release and the part of this one."""
    record = json.loads(settings or "{}")
    return (record.get("shared"), record.get("part")) if isinstance(record, dict) else (None, None)


def _label(settings: str) -> str | None:
    """Return the label column, if several share the persons."""
    part = _spec(settings)[1]
    return str(part[1]) if isinstance(part, list) else None


def _as_in(kept: KeptRelease, folder: Path) -> KeptRelease:
    """Return a release with the signer and the digests of the first batch and of the texts from a message's manifest."""
    manifest, signature = read_manifest(folder, LABELS)
    return replace(
        kept,
        parts=(manifest.batches[0].sha256,),
        papers=manifest.papers,
        signed_by=None if signature is None else signature.key,
    )
