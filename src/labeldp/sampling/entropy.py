"""Fresh randomness from the operating system."""

import os
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling.ids import IdDigests
from labeldp.sampling.table import Words

_CHUNK = 1 << 17  # words; one MiB of key stream at a time
_SPARE = 2  # words; update_into requires room for one more block than it writes


class Randomness(Protocol):
    """A source of uniform 64-bit words: one per label, and a second one where randomized rounding needs it.

    Attributes
    ----------
    needs_ids : bool
        Whether `draw` needs an id for every label.

    Examples
    --------
    >>> from labeldp.sampling import KeyedRandomness, OsEntropy, Randomness
    >>> sources: list[Randomness] = [OsEntropy(), KeyedRandomness.generate()]
    >>> [source.needs_ids for source in sources]
    [False, True]
    """

    @property
    def needs_ids(self) -> bool: ...

    def identify(self, ids: Any, *, digest: bytes) -> IdDigests | None:
        """What `draw` needs to know of the ids, after a test for duplicates.

        Parameters
        ----------
        ids : array-like
            One id per record.
        digest : bytes
            The mechanism's digest, so that two mechanisms never share a draw.

        Returns
        -------
        IdDigests or None
            It can be sliced, so that a large release is drawn in chunks.
        """

    def draw(
        self, symbols: NDArray[np.uint32], *, ids: Any = None, digest: bytes, rounding: bool = False
    ) -> tuple[Words, Words | None]:
        """Uniform words for the labels.

        Parameters
        ----------
        symbols : array of uint32
            The symbol of each label.
        ids : array-like or IdDigests, optional
            One id per label, or what `identify` returned.
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


class OsEntropy:
    """Fresh uniform words from the operating system, different on every call.

    Each call takes a new key from the operating system and reads the words from an AES-256-CTR stream. Nothing is kept between
    calls, so copies, forks and pickles never repeat a word.

    Privacy
    -------
    Ids are ignored, so a record that is drawn twice gets two independent outputs, and each costs ε. A release that may be
    run again should use `KeyedRandomness`.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp import OsEntropy
    >>> words, _ = OsEntropy().draw(np.zeros(3, np.uint32))
    >>> words.dtype, words.size
    (dtype('uint64'), 3)
    """

    needs_ids = False

    def identify(self, ids: Any, *, digest: bytes) -> None:  # noqa: ARG002
        """Nothing: ids are not needed.

        Parameters
        ----------
        ids : array-like
            Ignored.
        digest : bytes
            Ignored.

        Returns
        -------
        None
            There is nothing to know about the ids.
        """
        return

    def draw(
        self,
        symbols: NDArray[np.uint32],
        *,
        ids: Any = None,  # noqa: ARG002
        digest: bytes = b"",  # noqa: ARG002
        rounding: bool = False,
    ) -> tuple[Words, Words | None]:
        """Fresh uniform words.

        Parameters
        ----------
        symbols : array of uint32
            The symbol of each label.
        ids : array-like or IdDigests, optional
            Ignored.
        digest : bytes, optional
            Ignored.
        rounding : bool, default False
            Whether a second word per label is needed.

        Returns
        -------
        words : array of uint64
            One word per label.
        rounding_words : array of uint64 or None
            A second word per label, if asked for.
        """
        words = _stream(symbols.size * (2 if rounding else 1))
        return (words[: symbols.size], words[symbols.size :]) if rounding else (words, None)

    def __repr__(self) -> str:
        return "OsEntropy()"


def source_of(randomness: Randomness | None, ids: Any) -> Randomness:
    """The source to draw from, by default the operating system. Refuses what is no source, and ids that are not used."""
    source = OsEntropy() if randomness is None else randomness
    if isinstance(source, type) or not all(hasattr(source, name) for name in ("needs_ids", "identify", "draw")):
        given = source.__name__ if isinstance(source, type) else type(source).__name__
        what = f"the class {given}" if isinstance(source, type) else given
        raise InvalidInput(
            f"randomness must be OsEntropy() or a KeyedRandomness such as KeyedRandomness.generate(), got {what}. There are "
            "no seeds: whoever knows the seed can undo the noise"
        )
    if source.needs_ids and ids is None:
        raise InvalidInput(f"{type(source).__name__} needs ids: one per label, all different")
    if ids is not None and not source.needs_ids:
        raise InvalidInput(
            f"{type(source).__name__} draws anew in every call and would ignore the ids. To give each record one draw, add "
            "randomness=KeyedRandomness.generate(); otherwise leave out ids"
        )
    return source


def _stream(count: int) -> Words:
    # Each key is used for one stream only, so the nonce may be fixed.
    cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
    words = np.empty(count + _SPARE, dtype=np.uint64)
    zeros = np.zeros(min(count, _CHUNK), dtype=np.uint64).view(np.uint8).data
    buffer = words.view(np.uint8).data
    for start in range(0, count, _CHUNK):
        size = 8 * min(_CHUNK, count - start)
        cipher.update_into(zeros[:size], buffer[8 * start : 8 * start + size + 16])
    return words[:count]
