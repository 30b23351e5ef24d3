"""A keyed hash of records that does not depend on their order or on how they are split."""

from __future__ import annotations

import hmac
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from labeldp.arrays import Floats
from labeldp.errors import InvalidInput
from labeldp.sampling.ids import IdDigests, digest_ids
from labeldp.sampling.randomness import Blocks
from labeldp.sampling.table import Words

LEAST_KEY_BYTES = 16

_PURPOSE = b"labeldp multiset of records 1\0"
_SUBKEYS_BYTES = 96
_LIMB = 1 << 64
_NEGATIVE_ZERO = np.uint64(1 << 63)


class MultisetHash:
    """A keyed hash of records, each an id and a label, that depends neither on their order nor on how they are split.

    A record becomes a 128-bit word by a CBC-MAC of two blocks of AES-256, and the words are added: each of their two 64-bit limbs
    modulo 2^64. So partitions can be hashed one by one, in any process, and merged in any order.

        record = id (96 bits) ‖ 0 (32 bits), label (64 bits) ‖ person (64 bits)       integers little-endian, 0 without persons
        word   = AES_K(AES_K(first block) XOR second block)

    Ids have the 96 bits of `IdDigests`, with text hashed under a key of this hash. So 7 and "7" differ, and −1 differs from
    2^64 − 1. Labels are taken by their bits, but −0.0 counts as 0.0, because no mechanism distinguishes them.

    Parameters
    ----------
    key : bytes
        At least 16 secret bytes. Only subkeys derived from them are kept.

    Raises
    ------
    InvalidInput
        If the key is too short.

    Notes
    -----
    This is MSet-Add-Hash of Clarke, Devadas, van Dijk, Gassend and Suh (Asiacrypt 2003). A CBC-MAC of messages of
    one length is a pseudorandom function if AES-256 is a pseudorandom permutation (Bellare, Kilian and Rogaway 2000),
    so the words of different records cannot be distinguished from independent uniform ones. Ids are unique within an
    input, so each record occurs at most once. The hashes of two different inputs differ by a signed sum of the words
    that only one of them contains. This sum is uniform on 2^128 values, so it is zero with probability 2^−128. Two
    terms are added to this probability: the advantage in distinguishing the CBC-MAC of n records from a random
    function, of order n²/2^128, and the chance of two texts with equal digests, at most n²/2^96. All this holds for
    inputs that were chosen without knowledge of the key or the sums.

    Records that occur more than once also change the sum, unless their words vanish modulo 2^64: k equal records with k
    a multiple of 2^j are missed with a probability of 2^(2j−128). The number of records is hashed together with the
    sums.

    The sums and the digest depend on the true labels: anyone with the key can test guesses against them. They are never
    released.

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from labeldp.sampling import MultisetHash
    >>> ids, labels = pa.array(["anna", "ben", "cleo"]), np.array([1.0, 2.5, 0.0])
    >>> whole, part = MultisetHash(b"k" * 32), MultisetHash(b"k" * 32)
    >>> _ = whole.add(ids, labels)
    >>> _ = part.add(ids[2:], labels[2:])
    >>> rest = MultisetHash.from_subkeys(MultisetHash.subkeys(b"k" * 32))
    >>> _ = rest.add(ids[:2], labels[:2])
    >>> part.merge(rest.limbs, rest.rows)
    >>> part.hexdigest() == whole.hexdigest()
    True
    """

    __slots__ = ("_limbs", "_rows", "_subkeys")

    def __init__(self, key: bytes) -> None:
        self._begin(self.subkeys(key))

    @staticmethod
    def subkeys(key: bytes) -> bytes:
        """Return the subkeys with which another process can hash its part of the records. They do not reveal the key.

        Parameters
        ----------
        key : bytes
            At least 16 secret bytes.

        Returns
        -------
        bytes
            An AES-256 key for the blocks, a BLAKE2b key for text ids and an HMAC key for the digest, 32 bytes each.

        Raises
        ------
        InvalidInput
            If the key is too short.
        """
        if not isinstance(key, bytes) or len(key) < LEAST_KEY_BYTES:
            raise InvalidInput(f"the key must be at least {LEAST_KEY_BYTES} bytes (better 32), drawn from os.urandom")
        return HKDF(algorithm=SHA256(), length=_SUBKEYS_BYTES, salt=None, info=_PURPOSE).derive(key)

    @classmethod
    def from_subkeys(cls, subkeys: bytes) -> MultisetHash:
        """Return an empty hash made from the result of `subkeys`.

        Parameters
        ----------
        subkeys : bytes
            96 bytes, as secret as the labels.

        Returns
        -------
        MultisetHash

        Raises
        ------
        InvalidInput
            If these are not 96 bytes.
        """
        if not isinstance(subkeys, bytes) or len(subkeys) != _SUBKEYS_BYTES:
            raise InvalidInput(f"the subkeys must be exactly {_SUBKEYS_BYTES} bytes: MultisetHash.subkeys makes them")
        made = cls.__new__(cls)
        made._begin(subkeys)  # noqa: SLF001 - same class
        return made

    @property
    def limbs(self) -> tuple[int, int]:
        """The sums of the words' lower and upper 64 bits, each modulo 2^64."""
        return self._limbs

    @property
    def rows(self) -> int:
        """The number of records."""
        return self._rows

    def digests(self, ids: Any) -> IdDigests:
        """Return the 96 bits by which this hash distinguishes ids.

        Parameters
        ----------
        ids : array-like
            Integers or texts.

        Returns
        -------
        IdDigests
            With text hashed under a key of this hash.

        Raises
        ------
        InvalidInput
            If the ids are neither integers nor text.
        """
        return digest_ids(ids, self._subkeys[32:64])

    def add(self, ids: Any, labels: Floats, persons: Words | None = None) -> IdDigests:
        """Add records.

        Parameters
        ----------
        ids : array-like
            Integers or texts, one per record. Duplicates are not checked.
        labels : array of float64
            One label per record, none of them NaN.
        persons : array of uint64, optional
            The word of each record's person.

        Returns
        -------
        IdDigests
            The result of `digests` for these ids.

        Raises
        ------
        InvalidInput
            If the ids are neither integers nor text, or labels are missing or NaN.
        """
        records = self.digests(ids)
        if labels.dtype != np.float64 or labels.shape != (len(records),):
            raise InvalidInput(
                f"one float64 label per id is needed: got {labels.dtype} of shape {labels.shape} for {len(records)} ids"
            )
        if np.isnan(labels).any():  # NaN has many bit patterns
            raise InvalidInput(f"labels must be numbers: row {int(np.argmax(np.isnan(labels)))} is NaN")
        self._add(self._sums(records, _bits(labels), persons), labels.size)
        return records

    def merge(self, limbs: tuple[int, int], rows: int) -> None:
        """Add the records of another hash under the same key.

        Parameters
        ----------
        limbs : tuple of two int
            Its `limbs`.
        rows : int
            Its `rows`.

        Raises
        ------
        InvalidInput
            If these cannot be the sums and the number of records of a hash.
        """
        if len(limbs) != 2 or not all(isinstance(limb, int) and 0 <= limb < _LIMB for limb in limbs):
            raise InvalidInput("limbs must be two integers from 0 to 2^64 − 1: give the other hash's limbs")
        if not isinstance(rows, int) or rows < 0:
            raise InvalidInput("rows must be a number of records: give the other hash's rows")
        self._add(limbs, rows)

    def hexdigest(self) -> str:
        """Return an HMAC-SHA256 of the sums and the number of records, so that without the key digests reveal only equality.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        numbers = (*self._limbs, self._rows)
        return hmac.digest(self._subkeys[64:], b"".join(n.to_bytes(8, "little") for n in numbers), "sha256").hex()

    def __repr__(self) -> str:
        return f"MultisetHash(rows={self._rows})"

    def _begin(self, subkeys: bytes) -> None:
        self._subkeys = subkeys
        self._limbs, self._rows = (0, 0), 0

    def _add(self, limbs: tuple[int, int], rows: int) -> None:
        self._limbs = ((self._limbs[0] + limbs[0]) % _LIMB, (self._limbs[1] + limbs[1]) % _LIMB)
        self._rows += rows

    def _sums(self, records: IdDigests, labels: Words, persons: Words | None) -> tuple[int, int]:
        """Return the sums of the records' words modulo 2^64, lower and upper limb."""
        low = high = 0
        blocks = Blocks(self._subkeys[:32], labels.size)
        for rows in blocks.chunks():
            count = rows.stop - rows.start
            blocks.plain[:count, 0] = records.low[rows]
            blocks.plain[:count, 1] = records.high[rows]
            first = blocks.encrypted(count)
            blocks.plain[:count, 0] = first[:, 0] ^ labels[rows]
            blocks.plain[:count, 1] = first[:, 1] if persons is None else first[:, 1] ^ persons[rows]
            words = blocks.encrypted(count)
            low += int(words[:, 0].sum())  # a column at a time: NumPy sums both at once 15 times as slowly
            high += int(words[:, 1].sum())
        return low % _LIMB, high % _LIMB


def _bits(labels: Floats) -> NDArray[np.uint64]:
    """Return the 64 bits of each label, with −0.0 as 0.0. Integers are safe from processors that flush small floats to zero."""
    bits = np.ascontiguousarray(labels).view(np.uint64)
    return np.where(bits == _NEGATIVE_ZERO, np.uint64(0), bits)
