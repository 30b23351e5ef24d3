"""Keyed randomness of one release and one mechanism: all that a worker gets, and nothing of the key that it was made from."""

from __future__ import annotations

from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.keyed_draws import SUBKEY_BYTES, KeyedDraws


class BoundRandomness(KeyedDraws):
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

    def __init__(self, digest: bytes, subkeys: bytes) -> None:
        if not isinstance(digest, bytes) or not digest:
            raise InvalidInput("keyed randomness needs the mechanism's digest")
        if not isinstance(subkeys, bytes) or len(subkeys) != SUBKEY_BYTES:
            raise InvalidInput(f"the subkeys must be exactly {SUBKEY_BYTES} bytes: KeyedRandomness.bound makes them")
        self._digest, self._subkeys = digest, subkeys

    def _subkeys_for(self, digest: bytes) -> bytes:
        """The subkeys, if the digest is that of the mechanism."""
        if digest != self._digest:
            raise PrivacyRefused(
                "this randomness is bound to another mechanism, and two mechanisms must not share a draw. Bind the key "
                "again with KeyedRandomness.bound(mechanism.digest_bytes)"
            )
        return self._subkeys

    def __reduce__(self) -> tuple[type[BoundRandomness], tuple[bytes, bytes]]:
        return BoundRandomness, (self._digest, self._subkeys)

    def __repr__(self) -> str:
        return f"BoundRandomness(digest={self._digest.hex()}, subkeys=<{SUBKEY_BYTES} bytes>)"
