"""Vocabularies of categorical columns: the paper maps every value seen fewer than five times to one item."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MIN_COUNT = 5
RARE = "(rare)"
"""The single out-of-vocabulary item; it is item 0 of every dictionary made here."""

Render = Callable[[NDArray[np.int64]], pa.Array]


def with_vocabulary(
    column: pa.Array | pa.ChunkedArray, min_count: int = MIN_COUNT, render: Render | None = None
) -> pa.DictionaryArray:
    """Encode a column against the vocabulary of its values that occur at least `min_count` times.

    Strings, or integers that `render` turns into strings once per distinct integer rather than once per row. Items
    are sorted, so that the encoding does not depend on the order of the rows. Linear time plus a sort of the items.
    """
    codes, items = _encoded(column)
    if render is not None:
        merged, items = _encoded(render(items.to_numpy(zero_copy_only=False)))
        codes = merged[codes]
    counts = np.bincount(codes, minlength=len(items))
    kept = np.flatnonzero(counts >= min_count)
    items = items.take(pa.array(kept))
    order = pc.array_sort_indices(items).to_numpy(zero_copy_only=False)
    position = np.zeros(len(counts), dtype=np.int32)
    position[kept[order]] = np.arange(1, len(kept) + 1, dtype=np.int32)
    dictionary = pa.concat_arrays([pa.array([RARE]), items.take(pa.array(order)).cast(pa.string())])
    return pa.DictionaryArray.from_arrays(pa.array(position[codes]), dictionary)


def _encoded(column: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # older pyarrow keeps a single chunk wrapped
        encoded = encoded.chunk(0)
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
