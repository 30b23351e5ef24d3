"""The bytes of an Arrow array of text, for compiled loops."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.errors import InvalidInput

_OFFSET_BYTES = 8


def text_buffers(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of an array of text without nulls, and offsets into them: where each text begins and the last one ends.

    The offsets are checked, because Arrow takes them from a file as they are and compiled loops follow them anywhere.
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
