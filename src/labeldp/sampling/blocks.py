"""AES-256 of many blocks, a chunk at a time."""

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from labeldp.sampling.table import Words

_CHUNK = 1 << 16  # blocks; one MiB at a time


class Blocks:
    """Room for a chunk of blocks, each two little-endian 64-bit words, and what AES-256 makes of them.

    The caller fills `plain` for each of the `chunks`. What `encrypted` returns is overwritten by the next call.
    """

    def __init__(self, key: bytes, total: int) -> None:
        size = min(total, _CHUNK)
        self._total = total
        self._cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a block is a PRF's whole input
        self.plain: Words = np.empty((size, 2), dtype="<u8")
        self._secret: Words = np.empty((size + 1, 2), dtype="<u8")  # update_into requires room for one more block

    def chunks(self) -> Iterator[slice]:
        """The rows of each chunk."""
        for start in range(0, self._total, _CHUNK):
            yield slice(start, min(start + _CHUNK, self._total))

    def encrypted(self, count: int) -> Words:
        """AES-256 of each of the first `count` plain blocks."""
        plain, secret = self.plain[:count].reshape(-1).view(np.uint8), self._secret.reshape(-1).view(np.uint8)
        self._cipher.update_into(plain.data, secret.data)
        return self._secret[:count]
