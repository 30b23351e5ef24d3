from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from labeldp.paper.data.dataset import RARE, with_vocabulary

words = st.lists(st.sampled_from(["a", "b", "c", "", "-1", "é"]), max_size=60)


@given(words, st.integers(1, 8), st.integers(1, 4))
def test_items_below_the_count_become_one(values, min_count, pieces):
    counts = Counter(values)
    cut = [values[i::pieces] for i in range(pieces)]
    column = pa.chunked_array(cut, pa.string())
    encoded = with_vocabulary(column, min_count)
    flat = [value for piece in cut for value in piece]
    assert encoded.to_pylist() == [value if counts[value] >= min_count else RARE for value in flat]
    kept = sorted((v for v in counts if counts[v] >= min_count), key=lambda v: v.encode())
    assert encoded.dictionary.to_pylist() == [RARE, *kept]


def test_codes_that_render_alike_are_counted_together():
    column = pa.array(np.array([1, 2, 3, 3, 9]))
    encoded = with_vocabulary(column, 4, lambda codes: pa.array(["low" if c < 5 else "high" for c in codes]))
    assert encoded.to_pylist() == ["low"] * 4 + [RARE]
