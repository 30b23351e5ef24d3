"""The operating system's randomness. Together these tests give a false alarm in fewer than one of 10⁹ runs."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest

from labeldp.sampling import OsEntropy

pytestmark = pytest.mark.os_randomness


def draw(source: OsEntropy, count: int = 4) -> np.ndarray:
    return source.draw(np.zeros(count, np.uint32))[0]


def test_no_two_calls_and_no_two_copies_share_a_word():
    source = OsEntropy()
    copies = [source, source, copy.deepcopy(source), pickle.loads(pickle.dumps(source)), OsEntropy()]
    words = np.concatenate([draw(each) for each in copies])
    assert np.unique(words).size == words.size


def test_a_forked_process_draws_its_own_words():
    source = OsEntropy()
    draw(source)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, draw(source).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    theirs = np.frombuffer(os.read(reader, 32), np.uint64)
    os.close(reader)
    assert theirs.size == 4
    assert not set(theirs.tolist()) & set(draw(source).tolist())


@pytest.mark.parametrize("count", [0, 1, 2, 3, (1 << 17) - 1, 1 << 17, (1 << 18) + 5])
def test_every_count_is_filled_to_the_last_word(count):
    words, rounding = OsEntropy().draw(np.zeros(count, np.uint32), rounding=True)
    assert words.size == rounding.size == count
    both = np.concatenate([words, rounding])
    # Words left out would be zero, and a stream that starts again repeats many. Of 2^19 words, two agree by chance in
    # one of 10^8 runs, and a second two in one of 10^16.
    assert (both != 0).all()
    assert np.unique(both).size >= both.size - 1


def test_bits_are_balanced():
    words = draw(OsEntropy(), 100_000)
    for bit in range(64):
        ones = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
        assert abs(ones - 50_000) < 1_200  # 7.6 standard deviations


def test_no_rounding_words_unless_asked_for():
    assert OsEntropy().draw(np.zeros(3, np.uint32))[1] is None


def test_ids_are_ignored():
    assert OsEntropy().identify([1, 1], digest=b"") is None
    assert not OsEntropy().needs_ids
    assert draw(OsEntropy()).size == 4
