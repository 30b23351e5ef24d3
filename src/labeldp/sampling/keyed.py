"""Randomness as a function of the record: drawing the same record again gives the same output."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling.bound import SUBKEY_BYTES, BoundRandomness
from labeldp.sampling.ids import IdDigests
from labeldp.sampling.table import Words

RELEASE_BYTES = 16
LEAST_KEY_BYTES = 16

_PURPOSE = b"labeldp keyed randomness 1\0"


class KeyedRandomness:
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

    needs_ids = True

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
        if not isinstance(digest, bytes) or not digest:
            raise InvalidInput("keyed randomness needs the mechanism's digest")
        info = _PURPOSE + self._release + digest
        subkeys = HKDF(algorithm=SHA256(), length=SUBKEY_BYTES, salt=None, info=info).derive(self._key)
        return BoundRandomness(digest, subkeys)

    def identify(self, ids: Any, *, digest: bytes) -> IdDigests:
        """The ids as 96 bits each, after a test for duplicates.

        Parameters
        ----------
        ids : array-like
            Integers or texts, one per record.
        digest : bytes
            The mechanism's digest, so that two mechanisms never share a draw.

        Returns
        -------
        IdDigests
            `draw` takes it, or a slice of it, as ids.

        Raises
        ------
        InvalidInput
            If two ids are equal, or the ids are neither integers nor text.
        """
        return self.bound(digest).identify(ids, digest=digest)

    def id_digests(self, ids: Any, *, digest: bytes) -> IdDigests:
        """The ids as 96 bits each, for engines that look for duplicates over all their partitions themselves.

        Parameters
        ----------
        ids : array-like
            Integers or texts, one per record.
        digest : bytes
            The mechanism's digest, so that two mechanisms never share a draw.

        Returns
        -------
        IdDigests
            Not yet known to be distinct.
        """
        return self.bound(digest).id_digests(ids, digest=digest)

    def draw(
        self, symbols: NDArray[np.uint32], *, ids: Any = None, digest: bytes, rounding: bool = False
    ) -> tuple[Words, Words | None]:
        """The words of the records, which are the same whenever they are drawn.

        Parameters
        ----------
        symbols : array of uint32
            The symbol of each label.
        ids : array-like or IdDigests, optional
            One id per label, or what `identify` returned. Ids that are not known to be distinct are tested for duplicates.
        digest : bytes
            The mechanism's digest, so that two mechanisms never share a draw.
        rounding : bool, default False
            Whether a second word per label is needed.

        Returns
        -------
        words : array of uint64
            One word per label.
        rounding_words : array of uint64 or None
            A second word per label, if asked for.
        """
        return self.bound(digest).draw(symbols, ids=ids, digest=digest, rounding=rounding)

    def __repr__(self) -> str:
        return f"KeyedRandomness(key=<{len(self._key)} bytes>, release={self._release.hex()})"
