"""Finds repeated ids before a release is charged."""

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.arrow.steps import with_step
from labeldp.engines.batches import LabelBatch, repeated_id
from labeldp.sampling.ids import digest_ids

EARLY_ROWS = 1 << 23
"""Up to so many rows, repeated ids are found before anything is charged. It takes 8 bytes of memory per row."""


def without_duplicates(source: LabelSource, rows: int | None) -> LabelSource:
    """The source, which refuses repeated ids before anything is charged, if it has at most `EARLY_ROWS` rows.

    The engine finds repeated ids in inputs of any size, but only while it randomizes. By then the release is charged.
    `rows` is the number of rows, if known.
    """

    def check(batches: Iterator[LabelBatch]) -> Iterator[LabelBatch]:
        key, seen = os.urandom(32), 0
        words: list[NDArray[np.uint64]] = []
        for batch in batches:
            seen += len(batch.ids)
            if max(seen, rows or 0) > EARLY_ROWS:
                words.clear()
            else:
                words.append(digest_ids(batch.ids, key).low)
            yield batch
        ordered = np.sort(np.concatenate(words or [np.empty(0, np.uint64)]))
        words.clear()
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if repeated.size:
            _refuse_duplicates(source, key, np.unique(repeated))

    return source if source.id_column is None else with_step(source, check)


def _refuse_duplicates(source: LabelSource, key: bytes, suspects: NDArray[np.uint64]) -> None:
    """Reads the ids again and compares them, since 64 bits of two text ids may agree by chance."""
    rows: dict[object, int] = {}
    for batch in source.batches():
        for index in np.flatnonzero(np.isin(digest_ids(batch.ids, key).low, suspects)).tolist():
            value, row = batch.ids[index].as_py(), batch.first_row + index
            if value in rows:
                raise repeated_id([rows[value], row], "Nothing was released or charged")
            rows[value] = row
