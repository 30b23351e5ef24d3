"""The categories of one column: those seen often get a code of their own, all others share one.

Categories are compared as text, so that 7, 7.0 and "7" are one category: a column of integers that comes back from
a file as floats (one null is enough) or as text still finds its codes.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.errors import InvalidInput

LARGEST_WHOLE_FLOAT = 2**53


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The codes of one column: 1, 2, … for the kept categories, the most frequent first, and 0 for all others.

    A missing value is a category like any other: with enough rows it has its own code.

    Attributes
    ----------
    name : str
        The column.
    items : pyarrow.Array
        The kept categories as text, that of code 1 first. A null stands for missing values.
    counts : array of int
        The number of training rows with each code, that of code 0 first.

    Examples
    --------
    >>> import pyarrow as pa
    >>> shop = Vocabulary.fit("shop", pa.array(["b", "a", "b", "c", "a", "b"]), min_count=2)
    >>> shop
    Vocabulary('shop', 2 categories, 1 rows in none of them)
    >>> shop.encode(pa.array(["a", "b", "c", "new"]))
    array([2, 1, 0, 0], dtype=int32)

    """

    name: str
    items: Any
    counts: NDArray[np.int64]

    @classmethod
    def fit(cls, name: str, column: Any, *, min_count: int = 5, max_size: int | None = None) -> Self:
        """Count the categories of an Arrow array and keep those with `min_count` rows or more.

        `max_size` is the largest number of codes, code 0 included. Ties go by text order. O(n) time.
        """
        index, text = _distinct(column, name)
        found = pa.table({"text": text, "rows": np.bincount(index, minlength=len(text))})
        merged = found.group_by("text").aggregate([("rows", "sum")])
        ordered = merged.sort_by([("rows_sum", "descending"), ("text", "ascending")])
        kept = ordered.filter(pc.field("rows_sum") >= min_count).slice(0, None if max_size is None else max_size - 1)
        counts = kept["rows_sum"].to_numpy()
        return cls(name, kept["text"].combine_chunks(), np.concatenate([[len(index) - counts.sum()], counts]))

    @property
    def size(self) -> int:
        """The number of codes, code 0 included."""
        return len(self.counts)

    def encode(self, column: Any) -> NDArray[np.int32]:
        """The code of each row of an Arrow array. O(n) time."""
        index, text = _distinct(column, self.name)
        found = pc.index_in(text, value_set=self.items)
        codes: NDArray[np.int32] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False) + np.int32(1)
        return codes[index]

    def __repr__(self) -> str:
        return f"Vocabulary({self.name!r}, {len(self.items):,} categories, {self.counts[0]:,} rows in none of them)"


def _distinct(column: Any, name: str) -> tuple[NDArray[np.int32], Any]:
    """Each row's place in a list of distinct values, and these values as text (null for missing)."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind):
        raise InvalidInput(f"column {name!r} holds {kind} values; a category must be one plain value. Leave it out.")
    if pa.types.is_dictionary(column.type):
        text = _as_text(column.dictionary, name)
        if not column.null_count:
            return column.indices.to_numpy(zero_copy_only=False), text
        index = pc.fill_null(column.indices.cast(pa.int32()), len(text)).to_numpy(zero_copy_only=False)
        return index, pa.concat_arrays([text, pa.nulls(1, text.type)])
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False), _as_text(encoded.dictionary, name)


def _as_text(values: Any, name: str) -> Any:
    """Values as text, whole numbers without a decimal point and NaN as null. True and false are 1 and 0, as other files write them."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_decimal(values.type) or pa.types.is_floating(values.type):
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        missing = np.isnan(numbers)
        whole = (np.abs(numbers) < LARGEST_WHOLE_FLOAT) & (numbers == np.rint(numbers))
        integers = pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=missing).cast(pa.large_string())
        return pc.if_else(pa.array(whole), integers, pa.array(numbers, mask=missing).cast(pa.large_string()))
    try:
        return values.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidInput(
            f"column {name!r} holds {values.type} values that are not text: save the file as UTF-8, or leave the column out"
        ) from None
