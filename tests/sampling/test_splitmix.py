"""SplitMix64's finaliser, against the published generator and its own inverse."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from labeldp.sampling.ids import mix, unmix

GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def test_it_is_the_finaliser_of_the_published_generator():
    """The first outputs of SplitMix64 for the seed 0, as in its reference implementation."""
    states = np.array([GOLDEN_GAMMA * n % 2**64 for n in (1, 2, 3)], np.uint64)
    assert mix(states).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_unmix_undoes_mix(words):
    assert unmix(mix(np.array(words, np.uint64))).tolist() == words
