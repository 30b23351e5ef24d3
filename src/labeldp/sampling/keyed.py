"""Randomness as a function of the record: drawing the same record again gives the same output."""

from __future__ import annotations

import os

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from labeldp.errors import InvalidInput
from labeldp.sampling.bound import BoundRandomness
from labeldp.sampling.keyed_draws import SUBKEY_BYTES, KeyedDraws

RELEASE_BYTES = 16
LEAST_KEY_BYTES = 16

_PURPOSE = b"labeldp keyed randomness 1\0"


class KeyedRandomness(KeyedDraws):
    """Uniform words that are a function of a secret key and the record.

    Each label gets one AES-256 block, `AES_K(id ‖ symbol)` with `K = HKDF-SHA256(key, release ‖ mechanism digest)`: 64 bits decide
    on the output, 64 are for rounding. The same key, release, mechanism, id and symbol give the same bits, on any machine and in
    any order, so a retried task or a resumed job releases nothing new.

    Parameters
    ----------
    key : bytes
        At least 16 secret bytes; 32 from `os.urandom` are best.
    release : bytes
        The 16 bytes that identify the release.

    Raises
    ------
    InvalidInput
        If the key is too short or the release id has another length.

    Privacy
    -------
    The guarantee is computational. If AES-256 is a pseudorandom permutation and the key is secret and uniform, the words cannot
    be told from independent uniform ones, provided that within one release no two records share an id and no id is released
    with two different labels. Duplicate ids within a call are refused; across calls the caller must prevent them.

    The key is as sensitive as the labels: whoever has it can undo the noise. Pickling works, for engines that send work to
    other processes, and *the pickle contains the key*. What `bound` returns has the subkeys of one release only.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import KeyedRandomness
    >>> source = KeyedRandomness.generate()
    >>> symbols = np.array([0, 1], np.uint32)
    >>> first, _ = source.draw(symbols, ids=["anna", "ben"], digest=b"mechanism")
    >>> again, _ = source.draw(symbols[::-1], ids=["ben", "anna"], digest=b"mechanism")
    >>> bool((first == again[::-1]).all())
    True
    """

    __slots__ = ("_key", "_release")

    def __init__(self, key: bytes, release: bytes) -> None:
        if not isinstance(key, bytes) or len(key) < LEAST_KEY_BYTES:
            text = "" if isinstance(key, bytes) else f", not {type(key).__name__}"
            raise InvalidInput(
                f"the key must be at least {LEAST_KEY_BYTES} bytes (better 32), drawn from os.urandom{text}; "
                "KeyedRandomness.generate() makes one"
            )
        if not isinstance(release, bytes) or len(release) != RELEASE_BYTES:
            raise InvalidInput(f"the release id must be exactly {RELEASE_BYTES} bytes")
        self._key, self._release = key, release

    @classmethod
    def generate(cls) -> KeyedRandomness:
        """A source with a new key and a new release id from the operating system.

        Returns
        -------
        KeyedRandomness
            Once it is gone, no draw can be repeated.
        """
        return cls(os.urandom(32), os.urandom(RELEASE_BYTES))

    @property
    def release(self) -> bytes:
        """The 16 bytes that identify the release."""
        return self._release

    def bound(self, digest: bytes) -> BoundRandomness:
        """The randomness of this release and one mechanism, made from the two subkeys alone.

        Parameters
        ----------
        digest : bytes
            The mechanism's digest.

        Returns
        -------
        BoundRandomness
            It draws the same words, and the key cannot be found from it.

        Raises
        ------
        InvalidInput
            If the digest is empty.
        """
        return BoundRandomness(digest, self._subkeys_for(digest))

    def _subkeys_for(self, digest: bytes) -> bytes:
        """What `bound` gives away: an AES-256 key for the blocks and a BLAKE2b key for text ids, 32 bytes each."""
        if not isinstance(digest, bytes) or not digest:
            raise InvalidInput("keyed randomness needs the mechanism's digest")
        info = _PURPOSE + self._release + digest
        return HKDF(algorithm=SHA256(), length=SUBKEY_BYTES, salt=None, info=info).derive(self._key)

    def __repr__(self) -> str:
        return f"KeyedRandomness(key=<{len(self._key)} bytes>, release={self._release.hex()})"
