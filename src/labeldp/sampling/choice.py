"""A choice of a few entries of each person, by a keyed hash that does not depend on labels.

An entry is a label of a record. With m chosen entries for each person, each randomized at ε/m, a person's labels cost
at most ε in total. The choice is a function of the key, the person and the entry, so it is the same on every engine and
in every run.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling.ids import IdDigests, digest_ids
from labeldp.sampling.randomness import Blocks, KeyedRandomness, Randomness
from labeldp.sampling.table import Words

_PURPOSE = b"labeldp choice of entries 1\0"
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
        self._subkeys = HKDF(algorithm=SHA256(), length=_SUBKEY_BYTES, salt=None, info=_PURPOSE).derive(key)

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
