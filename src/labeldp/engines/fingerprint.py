"""Recognises an input that was read before: an HMAC of ids and labels. It is as private as the labels, never released."""

import hashlib
import hmac

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.engines.columns import text_buffers


class InputFingerprint:
    """HMAC-SHA256 of ids and labels. Equal records in equal order give an equal result, however they are batched."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, b"labeldp input fingerprint 1", "sha256")
        self._streams = [hmac.new(self._key, name, "sha256") for name in (b"labels", b"ids", b"lengths")]

    def add(self, ids: pa.Array, labels: NDArray[np.float64]) -> None:
        """Appends records."""
        label_stream, id_stream, length_stream = self._streams
        label_stream.update(np.asarray(labels, "<f8").tobytes())
        if pa.types.is_integer(ids.type):
            id_stream.update(np.asarray(ids, f"<{'i' if pa.types.is_signed_integer(ids.type) else 'u'}8").tobytes())
            return
        content, ends = text_buffers(ids)
        length_stream.update(np.diff(ends).astype("<i8").tobytes())
        id_stream.update(content[ends[0] : ends[-1]].data)

    def hexdigest(self) -> str:
        """The HMAC of all records so far."""
        joined = hmac.new(self._key, b"all", hashlib.sha256)
        for stream in self._streams:
            joined.update(stream.digest())
        return joined.hexdigest()
