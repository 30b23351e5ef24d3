"""Arrow arrays of numbers as NumPy arrays and back, without a copy.

pyarrow's own ways, `pa.array` and `to_numpy`, import pandas first if it is installed, which takes longer than a small release.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_KINDS = {
    pa.from_numpy_dtype(kind): np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
}


def numbers_in(array: pa.Array) -> NDArray[Any]:
    """The integers or floats of an array without nulls, read-only."""
    kind = _KINDS.get(array.type)
    if kind is None or array.null_count:
        return np.asarray(array)
    if not len(array):
        return np.empty(0, kind)
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def array_of(numbers: NDArray[Any]) -> pa.Array:
    """An array with these integers or floats, whose memory it shares: they must not change any more."""
    values = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [None, pa.py_buffer(values)])
