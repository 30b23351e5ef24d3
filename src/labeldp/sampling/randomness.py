"""Random words: fresh from the operating system (`OsEntropy`), or a function of the record (`KeyedRandomness`).

`EntryChoice` chooses a few entries of each person, by a keyed hash that does not depend on labels. An entry is a label of
a record. With m chosen entries for each person, each randomized at ε/m, a person's labels cost at most ε in total. The
choice is a function of the key, the person and the entry, so it is the same on every engine and in every run.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling.ids import IdDigests, digest_ids
from labeldp.sampling.table import Words

_CHUNK_BLOCKS = 1 << 16  # blocks; one MiB at a time

SUBKEY_BYTES = 64
RELEASE_BYTES = 16
LEAST_KEY_BYTES = 16
_PURPOSE = b"labeldp keyed randomness 1\0"
_STREAM_WORDS = 1 << 17  # words; one MiB of key stream at a time
_SPARE_WORDS = 2  # words; update_into requires room for one more block than it writes


class Blocks:
    """Buffers for a chunk of blocks, each two little-endian 64-bit words, and for their AES-256 encryption.

    The caller fills `plain` for each of the `chunks`. The next call overwrites the result of `encrypted`.
    """

    def __init__(self, key: bytes, total: int) -> None:
        size = min(total, _CHUNK_BLOCKS)
        self._total = total
        self._cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a block is a PRF's whole input
        self.plain: Words = np.empty((size, 2), dtype="<u8")
        self._secret: Words = np.empty((size + 1, 2), dtype="<u8")  # update_into requires room for one more block

    def chunks(self) -> Iterator[slice]:
        """Yield the rows of each chunk."""
        for start in range(0, self._total, _CHUNK_BLOCKS):
            yield slice(start, min(start + _CHUNK_BLOCKS, self._total))

    def encrypted(self, count: int) -> Words:
        """Return AES-256 of each of the first `count` plain blocks."""
        plain, secret = self.plain[:count].reshape(-1).view(np.uint8), self._secret.reshape(-1).view(np.uint8)
        self._cipher.update_into(plain.data, secret.data)
        return self._secret[:count]


class KeyedDraws(ABC):
    """Uniform words that are a function of the subkeys and the record: one AES-256 block, `AES_K(id ‖ symbol)`, per label."""

    __slots__ = ()

    needs_ids = True

    @abstractmethod
    def _subkeys_for(self, digest: bytes) -> bytes:
        """Return an AES-256 key for the blocks and a BLAKE2b key for text ids, 32 bytes each, for the mechanism with this digest."""

    def identify(self, ids: Any, *, digest: bytes) -> IdDigests:
        """Return the ids as 96 bits each, after checking for duplicates.

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
        return self.id_digests(ids, digest=digest).without_duplicates()

    def id_digests(self, ids: Any, *, digest: bytes) -> IdDigests:
        """Return the ids as 96 bits each, for engines that check for duplicates across their partitions themselves.

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
        subkeys = self._subkeys_for(digest)
        if isinstance(ids, IdDigests):
            return ids
        if ids is None:
            raise InvalidInput("keyed randomness needs an id for every record: give ids, or use OsEntropy()")
        return digest_ids(ids, subkeys[32:])

    def draw(
        self, symbols: NDArray[np.uint32], *, ids: Any = None, digest: bytes, rounding: bool = False
    ) -> tuple[Words, Words | None]:
        """Return the words of the records: the same in every call.

        Parameters
        ----------
        symbols : array of uint32
            The symbol of each label.
        ids : array-like or IdDigests, optional
            One id per label, or the result of `identify`. Ids that are not known to be distinct are checked for duplicates.
        digest : bytes
            The mechanism's digest, so that two mechanisms never share a draw.
        rounding : bool, default False
            Whether a second word per label is needed.

        Returns
        -------
        words : array of uint64
            One word per label.
        rounding_words : array of uint64 or None
            A second word per label, if requested.
        """
        records = self.identify(ids, digest=digest)
        if symbols.dtype != np.uint32 or symbols.ndim != 1:
            raise InvalidInput(f"symbols must be a one-dimensional uint32 array, got {symbols.dtype}")
        if len(records) != symbols.size:
            raise InvalidInput(f"one id per label is needed: got {len(records)} ids for {symbols.size} labels")
        words = np.empty(symbols.size, dtype=np.uint64)
        second = np.empty(symbols.size, dtype=np.uint64) if rounding else None
        blocks = Blocks(self._subkeys_for(digest)[:32], symbols.size)
        for rows in blocks.chunks():
            count = rows.stop - rows.start
            blocks.plain[:count, 0] = records.low[rows]
            blocks.plain[:count, 1] = records.high[rows] | symbols[rows].astype(np.uint64) << np.uint64(32)
            secret = blocks.encrypted(count)
            words[rows] = secret[:, 0]
            if second is not None:
                second[rows] = secret[:, 1]
        return words, second


class BoundRandomness(KeyedDraws):
    """The randomness of one release and one mechanism, made from the two subkeys alone.

    `KeyedRandomness.bound` makes it, and it gives the same words, bit for bit. It is small and can be pickled, so the
    workers of a cluster can draw without the key in the key file. Any other mechanism raises `InvalidInput`.

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
    Anyone with the subkeys can undo the noise of this release, but not of any other: HKDF cannot be inverted.
    *The pickle contains the subkeys*, so it is as sensitive as the labels of this release.

    Examples
    --------
    >>> import pickle
    >>> import numpy as np
    >>> from labeldp.sampling import KeyedRandomness
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
        """Return the subkeys, or raise `InvalidInput` if the digest belongs to another mechanism."""
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


class KeyedRandomness(KeyedDraws):
    """Uniform words that are a function of a secret key and the record.

    Each label gets one AES-256 block, `AES_K(id ‖ symbol)` with `K = HKDF-SHA256(key, release ‖ mechanism digest)`: 64
    bits determine the output, 64 are for rounding. The same key, release, mechanism, id and symbol give the same bits,
    on any machine and in any order, so a retried task or a resumed job releases nothing new.

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
    The guarantee is computational. If AES-256 is a pseudorandom permutation and the key is secret and uniform,
    the words cannot be distinguished from independent uniform ones, provided that within one release no two records
    share an id and no id is released with two different labels. Duplicate ids within a call raise `InvalidInput`;
    across calls the caller must prevent them.

    The key is as sensitive as the labels: anyone who has it can undo the noise. Engines that send work to other
    processes can pickle this object, but *the pickle contains the key*. The result of `bound` contains only the subkeys
    of one release.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.sampling import KeyedRandomness
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
        """Return a source with a new key and a new release id from the operating system.

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
        """Return the randomness of this release and one mechanism, made from the two subkeys alone.

        Parameters
        ----------
        digest : bytes
            The mechanism's digest.

        Returns
        -------
        BoundRandomness
            It draws the same words, and does not reveal the key.

        Raises
        ------
        InvalidInput
            If the digest is empty.
        """
        return BoundRandomness(digest, self._subkeys_for(digest))

    def _subkeys_for(self, digest: bytes) -> bytes:
        """Return the subkeys that `bound` passes on: an AES-256 key for the blocks and a BLAKE2b key for text ids, 32 bytes each."""
        if not isinstance(digest, bytes) or not digest:
            raise InvalidInput("keyed randomness needs the mechanism's digest")
        info = _PURPOSE + self._release + digest
        return HKDF(algorithm=SHA256(), length=SUBKEY_BYTES, salt=None, info=info).derive(self._key)

    def __repr__(self) -> str:
        return f"KeyedRandomness(key=<{len(self._key)} bytes>, release={self._release.hex()})"


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
        """Return what `draw` needs to know about the ids, after checking for duplicates.

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
        """Return uniform words for the labels.

        Parameters
        ----------
        symbols : array of uint32
            The symbol of each label.
        ids : array-like or IdDigests, optional
            One id per label, or the result of `identify`.
        digest : bytes
            The mechanism's digest, so that two mechanisms never share a draw.
        rounding : bool, default False
            Whether a second word per label is needed.

        Returns
        -------
        words : array of uint64
            One word per label.
        rounding_words : array of uint64 or None
            A second word per label, if requested.
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
    >>> from labeldp.sampling import OsEntropy
    >>> words, _ = OsEntropy().draw(np.zeros(3, np.uint32))
    >>> words.dtype, words.size
    (dtype('uint64'), 3)
    """

    needs_ids = False

    def identify(self, ids: Any, *, digest: bytes) -> None:  # noqa: ARG002
        """Return None: ids are not needed.

        Parameters
        ----------
        ids : array-like
            Ignored.
        digest : bytes
            Ignored.

        Returns
        -------
        None
            Always.
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
        """Return fresh uniform words.

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
            A second word per label, if requested.
        """
        words = _stream(symbols.size * (2 if rounding else 1))
        return (words[: symbols.size], words[symbols.size :]) if rounding else (words, None)

    def __repr__(self) -> str:
        return "OsEntropy()"


def source_of(randomness: Randomness | None, ids: Any) -> Randomness:
    """Return the source, by default the operating system. Raise `InvalidInput` for other types, and for ids that would not be used."""
    source = OsEntropy() if randomness is None else randomness
    if isinstance(source, type) or not all(hasattr(source, name) for name in ("needs_ids", "identify", "draw")):
        given = source.__name__ if isinstance(source, type) else type(source).__name__
        what = f"the class {given}" if isinstance(source, type) else given
        raise InvalidInput(
            f"randomness must be OsEntropy() or a KeyedRandomness such as KeyedRandomness.generate(), got {what}. There are "
            "no seeds: anyone who knows the seed can undo the noise"
        )
    if source.needs_ids and ids is None:
        raise InvalidInput(f"{type(source).__name__} needs ids: one per label, all different")
    if ids is not None and not source.needs_ids:
        raise InvalidInput(
            f"{type(source).__name__} draws fresh words in every call and would ignore the ids. To give each record one draw, add "
            "randomness=KeyedRandomness.generate(); otherwise leave out ids"
        )
    return source


def _stream(count: int) -> Words:
    # Each key is used for one stream only, so the nonce may be fixed.
    cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
    words = np.empty(count + _SPARE_WORDS, dtype=np.uint64)
    zeros = np.zeros(min(count, _STREAM_WORDS), dtype=np.uint64).view(np.uint8).data
    buffer = words.view(np.uint8).data
    for start in range(0, count, _STREAM_WORDS):
        size = 8 * min(_STREAM_WORDS, count - start)
        cipher.update_into(zeros[:size], buffer[8 * start : 8 * start + size + 16])
    return words[:count]


_CHOICE = b"labeldp choice of entries 1\0"
_SUBKEY_BYTES = 128
MOST_ENTRIES = 64
"""The largest number of entries that can be chosen for one person."""


class EntryChoice:
    """Keyed words by which entries are chosen: one for each person, and a rank for each entry. The lowest ranks are chosen.

    A person becomes 64 bits. Two persons with the same bits count as one, so they get fewer entries and never more.

    Parameters
    ----------
    key : bytes
        The secret key of the release. Only subkeys derived from it are kept.

    Examples
    --------
    >>> from labeldp.sampling import EntryChoice, choose_entries
    >>> choice = EntryChoice(b"k" * 32)
    >>> persons = choice.persons(["anna", "ben", "anna", "anna"])
    >>> chosen = choose_entries(persons, choice.ranks(persons, [1, 2, 3, 4]), 1)
    >>> int(chosen.sum()), bool(chosen[1])
    (2, True)
    """

    __slots__ = ("_subkeys",)

    def __init__(self, key: bytes) -> None:
        self._subkeys = HKDF(algorithm=SHA256(), length=_SUBKEY_BYTES, salt=None, info=_CHOICE).derive(key)

    @classmethod
    def of(cls, randomness: Randomness) -> EntryChoice:
        """Return the choice that belongs to the randomness of a release.

        Parameters
        ----------
        randomness : OsEntropy or KeyedRandomness
            Where the draws come from. With a key, the choice depends on the key and not on the release; without one, it
            is new every time.

        Returns
        -------
        EntryChoice
        """
        if isinstance(randomness, KeyedRandomness):
            return cls(randomness._key)  # noqa: SLF001 - only subkeys are kept
        if randomness.needs_ids:
            raise InvalidInput("persons need KeyedRandomness or OsEntropy: without the key, entries cannot be chosen")
        return cls(os.urandom(32))

    def persons(self, persons: Any) -> Words:
        """Return the word of each person.

        Parameters
        ----------
        persons : array-like
            Integers or texts, one per record.

        Returns
        -------
        array of uint64

        Raises
        ------
        InvalidInput
            If a person is missing, or persons are neither integers nor text, or are of two types.
        """
        return self._words(self._subkeys[:32], digest_ids(persons, self._subkeys[64:96]))

    def ranks(self, persons: Words, ids: Any, column: int = 0) -> Words:
        """Return the rank of each entry.

        Parameters
        ----------
        persons : array of uint64
            The result of `persons`.
        ids : array-like
            Integers or texts, one per record and all different.
        column : int, default 0
            The index of the label column, if there are several.

        Returns
        -------
        array of uint64
        """
        return self._words(self._subkeys[32:64], digest_ids(ids, self._subkeys[96:]), persons, column)

    def _words(self, key: bytes, records: IdDigests, persons: Words | None = None, column: int = 0) -> Words:
        """Return 64 bits of AES-256 of each record; with persons, of a CBC-MAC of the person and the record."""
        words = np.empty(len(records), np.uint64)
        blocks = Blocks(key, words.size)
        for rows in blocks.chunks():
            count = rows.stop - rows.start
            first: Words | np.uint64 = np.uint64(0)
            if persons is not None:
                blocks.plain[:count, 0] = persons[rows]
                blocks.plain[:count, 1] = np.uint64(column)
                first = blocks.encrypted(count)
            blocks.plain[:count, 0] = records.low[rows]
            blocks.plain[:count, 1] = records.high[rows]
            if isinstance(first, np.ndarray):
                blocks.plain[:count] ^= first
            words[rows] = blocks.encrypted(count)[:, 0]
        return words


def choose_entries(persons: Words, ranks: Words, most: int) -> NDArray[np.bool_]:
    """Return which entries are chosen: for each person, up to `most` entries with the lowest ranks.

    The result does not depend on the order of the entries. If a tie would make it depend on the order, the tied entries
    are left out.

    Parameters
    ----------
    persons : array of uint64
        The person of each entry.
    ranks : array of uint64
        The rank of each entry.
    most : int
        The maximum number of entries per person.

    Returns
    -------
    array of bool

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.sampling import choose_entries
    >>> words = lambda *numbers: np.array(numbers, np.uint64)
    >>> choose_entries(words(1, 2, 1, 1), words(30, 40, 10, 20), 2).tolist()
    [False, True, True, True]
    """
    order = np.lexsort((ranks, persons))
    ordered, values = persons[order], ranks[order]
    starts = _starts(ordered)
    ends = np.append(starts[1:], ordered.size)
    chosen = np.ones(ordered.size, np.bool_)
    longer = np.flatnonzero(ends - starts > most)
    first_left_out = starts[longer] + most  # entries that tie with it are left out too
    sizes = (ends - starts)[longer]
    rows = np.repeat(starts[longer] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    chosen[order[rows]] = values[rows] < np.repeat(values[first_left_out], sizes)
    return chosen


def person_sizes(persons: Words) -> NDArray[np.int64]:
    """Return the number of persons with j entries, at index j. The last index also counts persons with more entries.

    Parameters
    ----------
    persons : array of uint64
        The person of each entry.

    Returns
    -------
    array of int64
        Of length `MOST_ENTRIES + 1`.

    Examples
    --------
    >>> import numpy as np
    >>> from labeldp.sampling import person_sizes
    >>> person_sizes(np.array([7, 8, 7], np.uint64))[:3].tolist()
    [0, 1, 1]
    """
    ordered = np.sort(persons)
    entries = np.diff(np.append(_starts(ordered), ordered.size))
    return np.bincount(np.minimum(entries, MOST_ENTRIES), minlength=MOST_ENTRIES + 1)


def _starts(ordered: Words) -> NDArray[np.int64]:
    """Return where each person begins among sorted persons."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: ordered.size])
