from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.sampling import count_below

numbers = st.floats(allow_nan=False)


@settings(deadline=None)
@given(st.lists(numbers, max_size=40), st.lists(numbers, max_size=40))
def test_symbols_are_what_searchsorted_says_also_on_thresholds(labels, thresholds):
    points = np.sort(np.array(thresholds, np.float64))
    values = np.concatenate([np.array(labels, np.float64), points])
    symbols = count_below(values, points)
    assert symbols.dtype == np.uint32
    assert symbols.tolist() == np.searchsorted(points, values, side="left").tolist()


@pytest.mark.parametrize("count", [0, 1, (1 << 14) - 1, 1 << 14, (1 << 15) + 3])
def test_every_block_is_filled(count):
    values = np.random.default_rng(0).random(count)
    points = np.array([0.2, 0.5, 0.9])
    assert np.array_equal(count_below(values, points), np.searchsorted(points, values, side="left"))


def test_strided_and_integer_labels_are_fine():
    values = np.arange(20)[::3]
    points = np.array([3.0, 9.5])
    assert np.array_equal(count_below(values, points), np.searchsorted(points, values, side="left"))
