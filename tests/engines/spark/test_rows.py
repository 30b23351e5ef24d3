"""Keys of rows, and the parts that they go to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import KEY, RELEASE

from labeldp.engines.spark import shuffle
from labeldp.sampling import KeyedRandomness
from labeldp.sampling.ids import mix

ENDS = [-(2**63), -1, 0, 1, 2**63 - 1, *range(100, 140)]


def keys_of(ids):
    return shuffle.sort_keys(KeyedRandomness(KEY, RELEASE).id_digests(pa.array(ids), digest=bytes(32)))


def test_integers_come_back_from_their_keys():
    assert shuffle.integers_of(keys_of(ENDS)).tolist() == ENDS


def test_keys_sort_as_the_words_of_one_machine_do():
    words = mix(np.array(ENDS, np.int64).view(np.uint64))
    assert np.argsort(keys_of(ENDS)).tolist() == np.argsort(words).tolist()


@pytest.mark.parametrize(
    ("records", "text", "bits"),
    [
        (1, 0, 0),
        (shuffle.ROWS_PER_PART - 1, 0, 0),
        (shuffle.ROWS_PER_PART, 0, 1),
        (4 * shuffle.ROWS_PER_PART, 0, 3),
        (10, shuffle.TEXT_PER_PART, 1),
        (10**12, 0, shuffle.MOST_PART_BITS),
    ],
)
def test_the_number_of_parts(records, text, bits):
    assert shuffle.part_bits(records, text) == bits


@pytest.mark.parametrize("bits", [0, 3, 15, 16])
def test_leading_bits_choose_the_part_and_notes_come_last(bits):
    found = shuffle.part_numbers(np.append(keys_of(ENDS), 7), np.append(np.zeros(len(ENDS), int), -1), bits)
    words = mix(np.array(ENDS, np.int64).view(np.uint64))
    assert found.tolist() == [*(int(word) >> (64 - bits) for word in words), 1 << bits]
