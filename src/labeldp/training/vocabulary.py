"""The categories of one column: those seen often get a code of their own, all others share one.

Categories are compared as text, so that 7, 7.0 and "7" are one category: a column of integers that comes back from
a file as floats (one null is enough) or as text still finds its codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.errors import InvalidInput

OUT_OF_VOCABULARY = 0
LARGEST_WHOLE_FLOAT = 2**53


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Codes 1, 2, … for the kept categories, the most frequent first; code 0 for every other one.

    A missing value is a category like any other: with enough occurrences it has its own code. `counts[code]` is the
    number of training rows with that code; it is 0 at code 0 where training had nothing out of the vocabulary.
    """

    name: str
    items: Any  # pyarrow large_string array, in code order from 1; it may hold one null
    counts: NDArray[np.int64]

    @classmethod
    def fit(cls, name: str, column: Any, *, min_count: int = 5, max_size: int | None = None) -> Vocabulary:
        """Count the categories of an Arrow column and keep those with `min_count` occurrences or more.

        `max_size` bounds the number of codes, the shared one included. O(n) time; ties go by text order.
        """
        index, text = _dictionary(column, name)
        occurrences = np.bincount(index, minlength=len(text))
        merged = text.dictionary_encode(null_encoding="encode")
        group = merged.indices.to_numpy(zero_copy_only=False)
        totals = np.bincount(group, weights=occurrences, minlength=len(merged.dictionary)).astype(np.int64)
        order = pc.sort_indices(
            pa.table({"count": totals, "text": merged.dictionary}),
            sort_keys=[("count", "descending"), ("text", "ascending")],
        ).to_numpy()
        kept = order[totals[order] >= min_count]
        if max_size is not None:
            kept = kept[: max_size - 1]
        items = merged.dictionary.take(pa.array(kept))
        return cls(name, items, np.concatenate([[totals.sum() - totals[kept].sum()], totals[kept]]))

    @property
    def size(self) -> int:
        """How many codes there are, the shared one included."""
        return len(self.counts)

    def encode(self, column: Any) -> NDArray[np.int32]:
        """The code of each row of an Arrow column; categories that were not kept get 0. O(n)."""
        index, text = _dictionary(column, self.name)
        found = pc.index_in(text, value_set=self.items)
        codes: NDArray[np.int32] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int32) + 1
        return codes[index]

    def __repr__(self) -> str:
        return f"Vocabulary({self.name!r}, {len(self.items):,} categories, {self.counts[0]:,} rows in none of them)"


def _dictionary(column: Any, name: str) -> tuple[NDArray[np.int32], Any]:
    """Each row's place in a list of distinct values, and these values as text (a null stands for missing)."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_nested(column.type):
        raise InvalidInput(
            f"column {name!r} holds {column.type} values; a category must be one plain value. Leave it out."
        )
    column = _one_array(column)
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False), _as_text(encoded.dictionary)


def _one_array(column: Any) -> Any:
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())  # joined chunks may exceed 2 GB
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _as_text(values: Any) -> Any:
    kind = values.type
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        values, kind = values.cast(pa.float64(), safe=False), pa.float64()
    if pa.types.is_floating(kind):
        return _floats_as_text(values)
    return values.cast(pa.large_string())


def _floats_as_text(values: Any) -> Any:
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
    missing = np.isnan(numbers)
    with np.errstate(invalid="ignore"):
        whole = (np.abs(numbers) < LARGEST_WHOLE_FLOAT) & (numbers == np.rint(numbers))
    integers = pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=missing).cast(pa.large_string())
    return pc.if_else(pa.array(whole), integers, pa.array(numbers, mask=missing).cast(pa.large_string()))
