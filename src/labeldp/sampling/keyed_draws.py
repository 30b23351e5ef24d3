"""Draws that are a function of the record, for whoever has the subkeys of a release and a mechanism."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling.blocks import Blocks
from labeldp.sampling.ids import IdDigests, digest_ids
from labeldp.sampling.table import Words

SUBKEY_BYTES = 64


class KeyedDraws(ABC):
    """Uniform words that are a function of the subkeys and the record: one AES-256 block, `AES_K(id ‖ symbol)`, per label."""

    __slots__ = ()

    needs_ids = True

    @abstractmethod
    def _subkeys_for(self, digest: bytes) -> bytes:
        """An AES-256 key for the blocks and a BLAKE2b key for text ids, 32 bytes each, for the mechanism with this digest."""

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
        return self.id_digests(ids, digest=digest).without_duplicates()

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
        subkeys = self._subkeys_for(digest)
        if isinstance(ids, IdDigests):
            return ids
        if ids is None:
            raise InvalidInput("keyed randomness needs an id for every record: give ids, or use OsEntropy()")
        return digest_ids(ids, subkeys[32:])

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
