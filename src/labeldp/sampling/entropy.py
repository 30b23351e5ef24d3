"""Fresh randomness from the operating system, fast."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from labeldp.sampling.ids import IdDigests
from labeldp.sampling.table import Words

_CHUNK = 1 << 17  # words; one MiB of key stream at a time
_SPARE = 2  # the cipher may want room for one more block than it writes


class Randomness(Protocol):
    """A source of uniform 64-bit words, one per label, and a second one per label where rounding asks for it."""

    @property
    def needs_ids(self) -> bool: ...

    def identify(self, ids: Any, *, digest: bytes) -> IdDigests | None:
        """What `draw` will need of the ids, computed and tested for duplicates once; it can be sliced into chunks."""

    def draw(
        self, symbols: NDArray[np.uint32], *, ids: Any = None, digest: bytes, rounding: bool = False
    ) -> tuple[Words, Words | None]: ...


class OsEntropy:
    """Uniform words from an AES-256-CTR stream under a key taken from the operating system for every call.

    No state is kept between calls: copies, forks and pickles of it never repeat a word. Ids are ignored, so the same
    record drawn twice gets two draws; a release that may be re-run wants `KeyedRandomness`.
    """

    needs_ids = False

    def identify(self, ids: Any, *, digest: bytes) -> None:  # noqa: ARG002
        return None

    def draw(
        self,
        symbols: NDArray[np.uint32],
        *,
        ids: Any = None,  # noqa: ARG002
        digest: bytes = b"",  # noqa: ARG002
        rounding: bool = False,
    ) -> tuple[Words, Words | None]:
        words = _stream(symbols.size * (2 if rounding else 1))
        return (words[: symbols.size], words[symbols.size :]) if rounding else (words, None)

    def __repr__(self) -> str:
        return "OsEntropy()"


def _stream(count: int) -> Words:
    # the key is used for one stream only, so a fixed nonce is right
    cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
    words = np.empty(count + _SPARE, dtype=np.uint64)
    zeros = np.zeros(min(count, _CHUNK), dtype=np.uint64).view(np.uint8).data
    buffer = words.view(np.uint8).data
    for start in range(0, count, _CHUNK):
        size = 8 * min(_CHUNK, count - start)
        cipher.update_into(zeros[:size], buffer[8 * start : 8 * start + size + 16])
    return words[:count]
