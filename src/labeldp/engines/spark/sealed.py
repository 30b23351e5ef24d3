"""What pass one found, on its way to the driver: encrypted under a key of that pass.

Spark compresses what a task returns, and the event log says how many bytes that made. Plain counts of labels would compress the
better the fewer cells they fill. Encrypted ones do not compress, so their size depends on the number of bytes alone. What Spark
keeps of them in temporary folders says nothing either.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12


def new_key() -> bytes:
    """A key for one pass. Every task of the pass seals with it, so nonces are random."""
    return os.urandom(KEY_BYTES)


def sealed(row: pa.RecordBatch, key: bytes) -> bytes:
    """The batch, encrypted. Its columns should have types whose sizes no label changes."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, row.serialize().to_pybytes(), None)


def unsealed(data: bytes, key: bytes, schema: pa.Schema) -> dict[str, Any]:
    """The only row of a batch of that schema that was sealed under the key."""
    plain = AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], None)
    row: dict[str, Any] = pa.ipc.read_record_batch(pa.py_buffer(plain), schema).to_pylist()[0]
    return row
