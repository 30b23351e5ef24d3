"""Keyed randomness of one release and one mechanism: all that a worker gets, and nothing of the key that it was made from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.blocks import Blocks
from labeldp.sampling.ids import IdDigests, digest_ids
from labeldp.sampling.table import Words

SUBKEY_BYTES = 64


class BoundRandomness:
    """The randomness of one release and one mechanism, made from the two subkeys alone.

    `KeyedRandomness.bound` makes it, and it gives the same words, bit for bit. It is small and can be pickled, so that a cluster's
    workers can draw without the key file's key. Another mechanism is refused.

    Parameters
    ----------
    digest : bytes
        The mechanism's digest.
    subkeys : bytes
        An AES-256 key for the blocks and a BLAKE2b key for text ids, 32 bytes each.

    Raises
    ------
    InvalidInput
        If the digest is empty or the subkeys have another length.

    Privacy
    -------
    Whoever has the subkeys can undo the noise of this release, but of no other one: HKDF cannot be run backwards. *The pickle
    contains the subkeys*, so it is as sensitive as the labels of this release.

    Examples
    --------
    >>> import pickle
    >>> import numpy as np
    >>> from labeldp import KeyedRandomness
    >>> source = KeyedRandomness.generate()
    >>> sent = pickle.loads(pickle.dumps(source.bound(b"mechanism")))
    >>> symbols = np.array([0, 1], np.uint32)
    >>> here, _ = source.draw(symbols, ids=["anna", "ben"], digest=b"mechanism")
    >>> there, _ = sent.draw(symbols, ids=["anna", "ben"], digest=b"mechanism")
    >>> bool((here == there).all())
    True
    """

    __slots__ = ("_digest", "_subkeys")

    needs_ids = True

    def __init__(self, digest: bytes, subkeys: bytes) -> None:
        if not isinstance(digest, bytes) or not digest:
            raise InvalidInput("keyed randomness needs the mechanism's digest")
        if not isinstance(subkeys, bytes) or len(subkeys) != SUBKEY_BYTES:
            raise InvalidInput(f"the subkeys must be exactly {SUBKEY_BYTES} bytes: KeyedRandomness.bound makes them")
        self._digest, self._subkeys = digest, subkeys

    def identify(self, ids: Any, *, digest: bytes) -> IdDigests:
        """The ids as 96 bits each, after a test for duplicates.

        Parameters
        ----------
        ids : array-like
            Integers or texts, one per record.
        digest : bytes
            The mechanism's digest. Another one than this randomness is bound to is refused.

        Returns
        -------
        IdDigests
            `draw` takes it, or a slice of it, as ids.

        Raises
        ------
        InvalidInput
            If two ids are equal, or the ids are neither integers nor text.
        PrivacyRefused
            If the digest is that of another mechanism.
        """
        return self.id_digests(ids, digest=digest).without_duplicates()

    def id_digests(self, ids: Any, *, digest: bytes) -> IdDigests:
        """The ids as 96 bits each, for engines that look for duplicates over all their partitions themselves.

        Parameters
        ----------
        ids : array-like
            Integers or texts, one per record.
        digest : bytes
            The mechanism's digest. Another one than this randomness is bound to is refused.

        Returns
        -------
        IdDigests
            Not yet known to be distinct.

        Raises
        ------
        InvalidInput
            If the ids are neither integers nor text.
        PrivacyRefused
            If the digest is that of another mechanism.
        """
        self._require(digest)
        if isinstance(ids, IdDigests):
            return ids
        if ids is None:
            raise InvalidInput("keyed randomness needs an id for every record: give ids, or use OsEntropy()")
        return digest_ids(ids, self._subkeys[32:])

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
            The mechanism's digest. Another one than this randomness is bound to is refused.
        rounding : bool, default False
            Whether a second word per label is needed.

        Returns
        -------
        words : array of uint64
            One word per label.
        rounding_words : array of uint64 or None
            A second word per label, if asked for.

        Raises
        ------
        InvalidInput
            If two ids are equal, or there is not one for each label.
        PrivacyRefused
            If the digest is that of another mechanism.
        """
        records = self.identify(ids, digest=digest)
        if symbols.dtype != np.uint32 or symbols.ndim != 1:
            raise InvalidInput(f"symbols must be a one-dimensional uint32 array, got {symbols.dtype}")
        if len(records) != symbols.size:
            raise InvalidInput(f"one id per label is needed: got {len(records)} ids for {symbols.size} labels")
        words = np.empty(symbols.size, dtype=np.uint64)
        second = np.empty(symbols.size, dtype=np.uint64) if rounding else None
        blocks = Blocks(self._subkeys[:32], symbols.size)
        for rows in blocks.chunks():
            count = rows.stop - rows.start
            blocks.plain[:count, 0] = records.low[rows]
            blocks.plain[:count, 1] = records.high[rows] | symbols[rows].astype(np.uint64) << np.uint64(32)
            secret = blocks.encrypted(count)
            words[rows] = secret[:, 0]
            if second is not None:
                second[rows] = secret[:, 1]
        return words, second

    def __reduce__(self) -> tuple[type[BoundRandomness], tuple[bytes, bytes]]:
        return BoundRandomness, (self._digest, self._subkeys)

    def __repr__(self) -> str:
        return f"BoundRandomness(digest={self._digest.hex()}, subkeys=<{SUBKEY_BYTES} bytes>)"

    def _require(self, digest: bytes) -> None:
        if digest != self._digest:
            raise PrivacyRefused(
                "this randomness is bound to another mechanism, and two mechanisms must not share a draw. Bind the key "
                "again with KeyedRandomness.bound(mechanism.digest_bytes)"
            )
