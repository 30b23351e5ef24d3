"""A fingerprint of an input: a keyed hash of its records, by which a release recognises it. It is as sensitive as the labels and never released."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from labeldp.engines.batches import LabelBatch
from labeldp.sampling import IdDigests
from labeldp.sampling.multiset import MultisetHash
from labeldp.sampling.table import Words


class InputFingerprint:
    """A keyed hash of ids, labels and their exact types. Equal records give equal results, in any order and in any batches.

    The order does not matter: every draw is a function of the key, the release and the record, so the same records in
    another order are the same release. Inputs whose draws differ have different fingerprints: −1 as int64 and 2^64 − 1
    as uint64 have the same 64 bits, but `MultisetHash` distinguishes them. The types in the file are hashed together
    with their records.
    """

    def __init__(self, key: bytes) -> None:
        self._subkeys = fingerprint_subkeys(key)
        self._hashes: dict[tuple[str, ...], MultisetHash] = {}

    def add(self, batch: LabelBatch, persons: Words | None = None) -> IdDigests:
        """Add records, with the words of their persons if there are any. Return the digests of their ids under a key of this fingerprint."""
        types = (str(batch.ids.type), *batch.types, *(() if persons is None else ("persons",)))
        if types not in self._hashes:
            self._hashes[types] = MultisetHash.from_subkeys(self._subkeys)
        return self._hashes[types].add(batch.ids, batch.labels, persons)

    def digests(self, ids: Any) -> IdDigests:
        """Return the digests that `add` returns for these ids."""
        return MultisetHash.from_subkeys(self._subkeys).digests(ids)

    def hexdigest(self) -> str:
        """Return the fingerprint of all records so far."""
        return typed_digest(self._hashes)


def fingerprint_subkeys(key: bytes) -> bytes:
    """Return the subkeys with which a worker can hash its part of an input. They do not reveal the key."""
    return MultisetHash.subkeys(hmac.digest(key, b"labeldp input fingerprint 1", "sha256"))


def typed_digest(hashes: Mapping[tuple[str, ...], MultisetHash]) -> str:
    """Return one digest of hashes of records by their types. It reveals nothing without the key, because each part is an HMAC."""
    parts = sorted((*types, records.hexdigest()) for types, records in hashes.items() if records.rows)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
