"""Dictionary encoding as in the paper: every value that is seen fewer than five times becomes one item.

`labeldp.features.columns` is for new rows and orders categories by frequency. Here a whole column is encoded once, with
sorted items, so that a data set does not depend on the order of its rows.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MIN_COUNT = 5
RARE = "(rare)"
"""The item of all rare values. It is item 0 of every dictionary made here."""


def with_vocabulary(
    column: pa.Array | pa.ChunkedArray,
    min_count: int = MIN_COUNT,
    render: Callable[[NDArray[np.int64]], pa.Array] | None = None,
) -> pa.DictionaryArray:
    """Encode a column of strings with the sorted vocabulary of its values that occur at least `min_count` times.

    Or a column of integers, which `render` turns into strings once for each distinct integer. Linear time, and a sort
    of the items.
    """
    codes, items = _encoded(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    if render is not None:
        merged, items = _encoded(render(items.to_numpy(zero_copy_only=False)))
        codes = merged[codes]
    frequent = items.filter(pa.array(np.bincount(codes, minlength=len(items)) >= min_count))
    dictionary = pa.concat_arrays([pa.array([RARE]), frequent.sort()])
    positions = pc.fill_null(pc.index_in(items, value_set=dictionary), 0)
    return pa.DictionaryArray.from_arrays(positions.take(pa.array(codes)), dictionary)


def _encoded(column: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    encoded = column.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
