"""Record ids as 96 bits: integers unchanged, text hashed by keyed BLAKE2b. Duplicates are detected on these bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import InvalidInput
from labeldp.sampling.table import Words

IdKind = Literal["int", "str"]

TEXT_TAG = np.uint32(1 << 31)
"""Set in `high` for text ids, clear for integers, so that 7 and "7" are different records."""

NEGATIVE = np.uint32(1)
"""Set in `high` for negative integers, so that −1 and 2^64 − 1 are different records."""

_WANTED = "ids must be integers or text (str or bytes), all of one type"

_TEXT_TYPES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_KINDS = {
    pa.from_numpy_dtype(kind): np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
}
_OFFSET_BYTES = 8
_FEW_TEXTS = 1 << 12
"""`hashlib` takes less than 10 ms for this many texts. The compiled loop takes less for each, but half a second for its import."""
BLOCK = 1 << 14
"""The number of words per block, so that intermediate results stay in the cache."""
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_I1, _I2 = np.uint64(0x96DE1B173F119089), np.uint64(0x319642B2D24D8EC3)  # inverses of the multipliers modulo 2^64
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_S60, _S54, _S62 = np.uint64(60), np.uint64(54), np.uint64(62)


@dataclass(frozen=True, eq=False)
class IdDigests:
    """The ids of records as 96 bits each. Equal bits mean the same record.

    Parameters
    ----------
    high : array of uint32
        The upper 32 bits, with one bit that distinguishes text from integers.
    low : array of uint64
        The lower 64 bits.
    kind : {"int", "str"}
        The type of the ids.
    distinct : bool, default False
        Whether all records are known to differ. Slices keep this; any other selection loses it.

    Examples
    --------
    >>> from labeldp.sampling import KeyedRandomness
    >>> records = KeyedRandomness.generate().identify([7, 8, 9], digest=b"mechanism")
    >>> len(records[1:]), records.kind, records.distinct
    (2, 'int', True)
    """

    high: NDArray[np.uint32]
    low: NDArray[np.uint64]
    kind: IdKind
    distinct: bool = False

    def __post_init__(self) -> None:
        if self.high.dtype != np.uint32 or self.low.dtype != np.uint64 or self.high.shape != self.low.shape:
            raise InvalidInput("id digests need a uint32 and a uint64 array of equal length")

    def __len__(self) -> int:
        return int(self.low.size)

    def __getitem__(self, rows: slice | NDArray[Any]) -> IdDigests:
        kept = self.distinct and isinstance(rows, slice)
        return IdDigests(self.high[rows], self.low[rows], self.kind, distinct=kept)

    def without_duplicates(self) -> IdDigests:
        """Return the same digests after checking that they are distinct. O(n log n), or O(1) if that is already known.

        Returns
        -------
        IdDigests
            With `distinct` set.

        Raises
        ------
        InvalidInput
            If two records share their 96 bits. The message names their indices.
        """
        if self.distinct:
            return self
        if (pair := _first_duplicate(self.high, self.low)) is not None:
            raise InvalidInput(
                f"ids must be unique: index {pair[0]} and index {pair[1]} have the same one. Two records with the same id would "
                "share their randomness, which reveals whether their labels differ. Remove or combine them"
            )
        return IdDigests(self.high, self.low, self.kind, distinct=True)


def digest_ids(ids: Any, text_key: bytes) -> IdDigests:
    """Return the digests of the ids in a list, a NumPy or Arrow array, or a pandas or polars series.

    Floats, booleans, nulls and mixed types raise `InvalidInput`. Duplicates are not checked. A text id takes about 0.1
    µs and an integer far less (`python benchmarks/text_ids.py`).
    """
    chunks = [_chunk_digests(chunk, text_key) for chunk in _typed_chunks(ids)]
    if len({kind for _, _, kind in chunks}) > 1:
        raise InvalidInput(_WANTED)
    if len(chunks) == 1:
        return IdDigests(*chunks[0])
    if not chunks:
        return IdDigests(np.empty(0, np.uint32), np.empty(0, np.uint64), "int")
    return IdDigests(
        np.concatenate([high for high, _, _ in chunks]), np.concatenate([low for _, low, _ in chunks]), chunks[0][2]
    )


def _typed_chunks(ids: Any) -> Iterator[NDArray[Any] | pa.Array]:
    """Yield the ids as numpy integers or Arrow arrays."""
    if isinstance(ids, np.ndarray) and ids.ndim != 1:
        raise InvalidInput(f"ids must be one-dimensional, got shape {ids.shape}")
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        yield ids
        return
    if isinstance(ids, (str, bytes)) or ids is None:
        raise InvalidInput(f"{_WANTED}; got {type(ids).__name__}")
    try:
        native = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else _arrow(ids)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, UnicodeError):  # their messages contain ids
        raise InvalidInput(f"{_WANTED}; these are mixed, of another type, or not UTF-8") from None
    except OverflowError:
        raise InvalidInput("integer ids must fit into 64 bits: give larger ones as text") from None
    if pa.types.is_dictionary(native.type):  # null_count ignores nulls among the values of a dictionary
        native = native.cast(native.type.value_type)
    if len(native) == 0:  # an empty batch still has a type, unlike an empty list
        if not pa.types.is_null(native.type):
            yield pa.array([], type=native.type)
        return
    if native.null_count:
        row = int(np.flatnonzero(native.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidInput(f"ids must not be null: row {row} is null")
    yield from native.chunks if isinstance(native, pa.ChunkedArray) else [native]


def _arrow(ids: Any) -> pa.Array | pa.ChunkedArray:
    """Return the kind of `ids`. The lookup takes longer than the digests of a small batch."""
    import narwhals as nw

    native = nw.from_native(ids, series_only=True, pass_through=True)
    return native.to_arrow() if isinstance(native, nw.Series) else _arrow_from_objects(native)


def _arrow_from_objects(values: Any) -> pa.Array:
    if not isinstance(values, np.ndarray):
        values = list(values)
    try:
        return pa.array(values)
    except OverflowError:  # Arrow defaults to int64, which the upper half of uint64 does not fit
        return pa.array(values, type=pa.uint64())


def _chunk_digests(
    chunk: NDArray[Any] | pa.Array, text_key: bytes
) -> tuple[NDArray[np.uint32], NDArray[np.uint64], IdKind]:
    if isinstance(chunk, np.ndarray):
        return *_integer_digests(chunk.copy()), "int"  # the caller may change its array; Arrow's never change
    if pa.types.is_integer(chunk.type):
        return *_integer_digests(numbers_in(chunk)), "int"
    if any(matches(chunk.type) for matches in _TEXT_TYPES):
        return *_text_digests(chunk, text_key), "str"
    if pa.types.is_floating(chunk.type):
        raise InvalidInput(
            f"{_WANTED}; got floats, which programs print and round differently. Convert them to text or integers"
        )
    raise InvalidInput(f"{_WANTED}; got {chunk.type}. Convert them to text or integers")


def _integer_digests(values: NDArray[Any]) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    if values.dtype.kind == "u":
        return np.zeros(values.shape, np.uint32), values.astype(np.uint64, copy=False)
    signed = values.astype(np.int64, copy=False)
    return (signed < 0) * NEGATIVE, signed.view(np.uint64)


def _text_digests(chunk: pa.Array, text_key: bytes) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    content, ends = text_buffers(chunk)
    if len(chunk) <= _FEW_TEXTS:
        spans = pairwise(ends.tolist())
        digests = (blake2b(content[first:end].data, digest_size=12, key=text_key).digest() for first, end in spans)
        words = np.frombuffer(b"".join(digests), [("low", "<u8"), ("high", "<u4")])
        high, low = words["high"], words["low"].astype(np.uint64)
    else:
        from labeldp.sampling._blake2b import keyed_blake2b_96

        high, low = keyed_blake2b_96(content, ends, text_key)
    return high | TEXT_TAG, low


def _first_duplicate(high: NDArray[np.uint32], low: NDArray[np.uint64]) -> tuple[int, int] | None:
    if low.size < 2 or bool((low[1:] > low[:-1]).all()):
        return None
    if _all_different_in_a_short_range(low):
        return None
    ordered = np.sort(low)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not repeated.size:
        return None
    rows = np.flatnonzero(np.isin(low, repeated))
    order = rows[np.lexsort((rows, high[rows], low[rows]))]
    same = (low[order[1:]] == low[order[:-1]]) & (high[order[1:]] == high[order[:-1]])
    pairs = np.flatnonzero(same)
    if not pairs.size:
        return None
    first = pairs[np.argmin(order[pairs + 1])]
    return int(order[first]), int(order[first + 1])


def _all_different_in_a_short_range(low: NDArray[np.uint64]) -> bool:
    """Test quickly for consecutive integers in any order. Sorting them would take most of a release's time."""
    smallest, largest = low.min(), low.max()
    if largest - smallest >= np.uint64(8 * low.size):
        return False
    seen = np.zeros(int(largest - smallest) + 1, dtype=np.bool_)
    seen[low - smallest] = True
    return int(np.count_nonzero(seen)) == low.size


def numbers_in(array: pa.Array) -> NDArray[Any]:
    """Return the integers or floats of an array without nulls, read-only."""
    kind = _KINDS.get(array.type)
    if kind is None or array.null_count:
        return np.asarray(array)
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def array_of(numbers: NDArray[Any]) -> pa.Array:
    """Return an array with these integers or floats, sharing their memory: they must not change afterwards."""
    values = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [None, pa.py_buffer(values)])


def text_buffers(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of an array of text without nulls, and the offsets where each text begins and the last one ends.

    The offsets are checked: Arrow reads them from a file unchecked, and compiled loops would follow them out of bounds.
    """
    wide = texts.cast(pa.large_binary())
    if len(wide) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = wide.buffers()
    ends = np.frombuffer(offsets, np.int64, len(wide) + 1, _OFFSET_BYTES * wide.offset)
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if ends[0] < 0 or ends[-1] > content.size or (ends[1:] < ends[:-1]).any():
        raise InvalidInput("a column of text is damaged: its offsets do not lie within its bytes. Write the file again")
    return content, ends


def mix(words: Words) -> Words:
    """Return the image of each word of an array."""
    return _in_blocks(mixed, words)


def unmix(words: Words) -> Words:
    """Return the words whose images are given: the inverse of `mix`."""
    return _in_blocks(unmixed, words)


def mixed(x: Any) -> Any:
    """Return the image of a word, or of each word of a small array. Compiled loops take it too."""
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


def unmixed(x: Any) -> Any:
    """Return the word of an image: the inverse of `mixed`."""
    x = (x ^ (x >> _S31) ^ (x >> _S62)) * _I2
    x = (x ^ (x >> _S27) ^ (x >> _S54)) * _I1
    return x ^ (x >> _S30) ^ (x >> _S60)


def _in_blocks(function: Callable[[Words], Words], words: Words) -> Words:
    given = np.asarray(words, np.uint64)
    flat, images = given.reshape(-1), np.empty(given.size, np.uint64)
    for start in range(0, flat.size, BLOCK):
        rows = slice(start, start + BLOCK)
        images[rows] = function(flat[rows])
    return images.reshape(given.shape)
