"""Charges a release and records its progress, in a ledger, in a key file, in both or in neither."""

import os
import secrets
from dataclasses import dataclass, field, replace
from fractions import Fraction

from labeldp.engines.passes import Scan
from labeldp.errors import InvalidInput, LabelDPError
from labeldp.mechanisms import FiniteMechanism
from labeldp.message.manifest import Manifest, Signature
from labeldp.release.fixed_mechanism import check_charge
from labeldp.release.key_file import KeptRelease, KeyFile
from labeldp.release.ledger import Ledger
from labeldp.release.ledger_rows import Release, expect_mechanism, key_fingerprint


@dataclass(frozen=True)
class OpenRelease:
    """A release that is charged, with the JSON text of its mechanism if that is fixed already."""

    id: str
    mechanism: str | None = None


@dataclass(frozen=True)
class ReleaseRecord:
    """The ledger and the key file of a run. Each step goes to the ledger first, so what the key file knows is charged."""

    epsilon: Fraction
    ledger: Ledger | None
    dataset: str | None
    keys: KeyFile | None
    key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", os.urandom(32) if self.keys is None else self.keys.key)

    def require(self) -> None:
        """Refuses a release that exceeds the budget, before a label is read."""
        if self.ledger is not None:
            self.ledger.require(self._name, self.epsilon, key_check=self._key_check)

    def find(self, scanned: Scan, request: str) -> OpenRelease | None:
        """An unfinished, charged release of the same input and request, or None."""
        if self.keys is None or not self.keys.stored:
            return None
        if self.ledger is None:
            kept = self.keys.resumable(scanned.input_hmac, request)
            return None if kept is None else OpenRelease(kept.id, kept.mechanism)
        found = self.ledger.find_resumable(
            self._name,
            self.epsilon,
            key_check=key_fingerprint(self.keys.key),
            input_hmac=scanned.input_hmac,
            request=request,
        )
        return None if found is None else OpenRelease(found.id, found.mechanism_json)

    def recall(self, release: str) -> Release | KeptRelease | None:
        """The release of that id, finished or not, if it was made with this key and charged to the ledger, if there is one."""
        if self.keys is None:
            return None
        if self.ledger is None:
            return self.keys.find(release)
        ours = (self._name, self._key_check)
        try:
            charged = self.ledger.release(release)
        except InvalidInput:  # the ledger does not know it
            return None
        return charged if (charged.dataset, charged.key_check) == ours else None

    def reserve(self, scanned: Scan, request: str) -> OpenRelease:
        """A new release, charged for good. Its key is written to disk first, since a charge without its key is lost."""
        if self.keys is not None:
            self.keys.save()
        if self.ledger is None:
            return OpenRelease(secrets.token_hex(16))
        resumable = self.keys is not None
        charged = self.ledger.reserve(
            self._name,
            self.epsilon,
            key_check=self._key_check,
            input_hmac=scanned.input_hmac if resumable else None,
            request=request if resumable else None,
        )
        return OpenRelease(charged.id)

    def fix(self, release: OpenRelease, mechanism: FiniteMechanism) -> OpenRelease:
        """Stores the mechanism of a release that has none yet. After this, labels may be randomized."""
        text = mechanism.to_json()
        if self.ledger is not None:
            self.ledger.fix(release.id, mechanism_json=text, mechanism_digest=mechanism.digest)
        return OpenRelease(release.id, text)

    def remember(self, release: OpenRelease, scanned: Scan, request: str) -> FiniteMechanism:
        """Records a fixed release in the key file, before its first label is randomized. Returns its mechanism.

        New or resumed, the mechanism is the one in the ledger and costs no more than was charged.
        """
        assert release.mechanism is not None, "fixed before"
        mechanism = FiniteMechanism.from_json(release.mechanism)
        check_charge(mechanism, self.epsilon)
        if self.ledger is not None:
            charged = self.ledger.release(release.id)
            expect_mechanism(charged, mechanism.digest)
            check_charge(mechanism, charged.epsilon)
        if self.keys is not None:
            kept = self.keys.find(release.id)
            if kept is None:
                self.keys.put(
                    KeptRelease(
                        release.id,
                        scanned.id_kind,
                        scanned.input_hmac,
                        request,
                        release.mechanism,
                        ledger=self.ledger is not None,
                    )
                )
            elif FiniteMechanism.from_json(kept.mechanism) != mechanism:
                raise LabelDPError(
                    f"the key file {self.keys.path} and the ledger disagree about the mechanism of release {release.id}: one "
                    "of them was damaged or restored. Nothing was released. Use another key file, which is a new charge"
                )
        return mechanism

    def commit(self, release: OpenRelease, manifest: Manifest, signature: Signature | None) -> None:
        """Records that the message is in place, with its digests and its signer. Keeps records of later batches."""
        if self.ledger is not None:
            self.ledger.commit(release.id)
        if self.keys is not None:
            kept = self.keys.find(release.id)
            assert kept is not None, "remembered before"
            if not kept.done:
                self.keys.put(
                    replace(
                        kept,
                        done=True,
                        parts=kept.parts or (manifest.batches[0].sha256,),
                        papers=manifest.papers,
                        signed_by=None if signature is None else signature.key,
                    )
                )

    def after_failure(self) -> str:
        """Tells the user what a failed run has cost and what to do."""
        if self.keys is not None:
            return "Fix the cause and run the same command again: it goes on where it stopped, at no further cost"
        if self.ledger is not None:
            return (
                "The release stays charged, and without --key-file it cannot be resumed: running again is a new charge"
            )
        return "Fix the cause and run again"

    def after_change(self) -> str:
        """Tells the user what a run has cost whose input changed while it was read, and what to do."""
        again = "Run again when nobody writes to the file"
        if self.keys is not None:
            return f"{again}. If it was charged, it is resumed only if the file is again as it was at the beginning"
        if self.ledger is not None:
            return f"{again}. The release stays charged, and without --key-file it cannot be resumed"
        return again

    @property
    def _name(self) -> str:
        if self.dataset is None:
            raise InvalidInput("a ledger needs the name of the dataset to charge: give --dataset")
        return self.dataset

    @property
    def _key_check(self) -> str | None:
        return None if self.keys is None else key_fingerprint(self.keys.key)
