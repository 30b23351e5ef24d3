"""Recognises an input that was read before: an HMAC of its records. It is as private as the labels, never released."""

import hashlib
import hmac
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.engines.batches import LabelBatch
from labeldp.sampling.ids import numbers_in, text_buffers


class InputFingerprint:
    """HMAC-SHA256 of ids, labels and their exact types. Equal records in equal order give an equal result.

    It depends on the records and not on how they are batched. Whatever a keyed draw tells apart, it tells apart too: −1 as int64
    and 2^64 − 1 as uint64 have the same 64 bits, but they are two ids. So the type under which an id is drawn is hashed, and
    also the types that the file has, wherever they change.
    """

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, b"labeldp input fingerprint 2", "sha256")
        names = (b"labels", b"ids", b"lengths", b"types")
        self._labels, self._ids, self._lengths, self._types = (hmac.new(self._key, name, "sha256") for name in names)
        self._rows = 0
        self._last: tuple[str, ...] = ()

    def add(self, batch: LabelBatch) -> None:
        """Appends records."""
        if not len(batch.ids):
            return
        self._note_types((str(batch.ids.type), *batch.types))
        self._rows += len(batch.ids)
        self._labels.update(_bytes(batch.labels, "<f8"))
        if pa.types.is_integer(batch.ids.type):
            sign = "i" if pa.types.is_signed_integer(batch.ids.type) else "u"
            self._ids.update(_bytes(numbers_in(batch.ids), f"<{sign}8"))
            return
        content, ends = text_buffers(batch.ids)
        self._lengths.update(_bytes(np.diff(ends), "<i8"))
        self._ids.update(content[ends[0] : ends[-1]].data)

    def hexdigest(self) -> str:
        """The HMAC of all records so far."""
        joined = hmac.new(self._key, b"all", hashlib.sha256)
        for stream in (self._labels, self._ids, self._lengths, self._types):
            joined.update(stream.digest())
        return joined.hexdigest()

    def _note_types(self, types: tuple[str, ...]) -> None:
        """Hashes types where they change, with their row, each text with its length so that none runs into the next."""
        if types == self._last:
            return
        self._last = types
        self._types.update(self._rows.to_bytes(8, "little"))
        for name in types:
            text = name.encode()
            self._types.update(len(text).to_bytes(8, "little") + text)


def _bytes(values: NDArray[Any], kind: str) -> memoryview:
    """The bytes of an array in this type, not copied if it has the type already."""
    return np.ascontiguousarray(values, kind).view(np.uint8).data
