"""An id that is there twice is found, in memory and beyond it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from labeldp.artifact import id_join
from labeldp.artifact.id_join import without_repeats
from labeldp.errors import InvalidInput

HERE = Path("message")
ROWS = 3000


def batches(ids, size=700):
    return lambda: ((pa.array(ids[start : start + size]), start) for start in range(0, len(ids), size))


def check(ids, size=700):
    return list(without_repeats(batches(ids, size), len(ids), HERE))


@pytest.fixture(params=[1 << 23, 400, 7], ids=["in memory", "in files", "in as many files as allowed"])
def memory(request, monkeypatch):
    monkeypatch.setattr(id_join, "IN_MEMORY", request.param)


KINDS = {
    "integers": np.arange(ROWS).tolist(),
    "negative": np.arange(-ROWS // 2, ROWS // 2).tolist(),
    "far apart": (np.arange(ROWS, dtype=np.int64) << 51).tolist(),
    "text": [f"id {number}" for number in range(ROWS)],
}


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("ids", KINDS.values(), ids=KINDS)
def test_distinct_ids_pass_in_their_order(ids):
    passed = check(ids)
    assert [value for part, _ in passed for value in part.to_pylist()] == ids
    assert [other for _, other in passed] == list(range(0, ROWS, 700))


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("ids", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("pair", [(3, ROWS - 1), (699, 700)])
def test_two_equal_ids_are_refused_with_their_rows(ids, pair):
    first, second = pair
    ids = [*ids[:second], ids[first], *ids[second + 1 :]]
    with pytest.raises(InvalidInput, match=rf"message holds the same id in rows {first + 1} and {second + 1} "):
        check(ids)


@pytest.mark.usefixtures("memory")
def test_many_repeats_are_refused(monkeypatch):
    monkeypatch.setattr(id_join, "SUSPECTS_AT_ONCE", 16)
    with pytest.raises(InvalidInput, match="holds the same id"):
        check([*range(ROWS), *range(ROWS)])


def test_more_rows_than_announced_are_checked_too():
    with pytest.raises(InvalidInput, match="rows 1 and 2 "):
        list(without_repeats(batches([5, 5]), 0, HERE))


@pytest.mark.usefixtures("memory")
def test_words_that_agree_by_chance_are_told_apart(monkeypatch):
    """Here all words agree by force, so that only the comparison of the ids themselves can tell them apart."""
    monkeypatch.setattr(id_join, "_words", lambda ids, key: np.full(len(ids), 7, np.uint64))
    assert len(check(list(range(50)), 20)) == 3
    with pytest.raises(InvalidInput, match="rows 4 and 51 "):
        check([*range(50), 3], 20)


def test_integers_of_two_types_are_compared_as_numbers():
    """As 64 bits, −1 and 2⁶⁴ − 1 are the same; as records they are not."""
    parts = [(pa.array([-1], pa.int64()), None), (pa.array([2**64 - 1], pa.uint64()), None)]
    assert len(list(without_repeats(lambda: iter(parts), 2, HERE))) == 2
    parts.append((pa.array([-1], pa.int16()), None))
    with pytest.raises(InvalidInput, match="rows 1 and 3 "):
        list(without_repeats(lambda: iter(parts), 3, HERE))


def test_files_share_the_words_evenly(monkeypatch):
    """Also for ids that differ in their lowest bits only, so that no file outgrows the memory."""
    monkeypatch.setattr(id_join, "IN_MEMORY", 1000)
    sizes = []
    undisturbed = id_join._repeated
    monkeypatch.setattr(id_join, "_repeated", lambda words: sizes.append(words.size) or undisturbed(words))
    check(list(range(8000)))
    sizes = sizes[-8:]  # the batches come before the files
    assert sum(sizes) == 8000
    assert max(sizes) < 2000  # 1000 ± 33 expected


@pytest.mark.usefixtures("memory")
def test_a_repeat_within_a_batch_is_found_before_the_next_batch_is_read():
    """So equal ids, which all go to one file, cannot fill the memory."""
    passed = without_repeats(batches([*range(700), *range(5000, 5699), 5000, *range(800)]), 2200, HERE)
    assert next(passed)[1] == 0
    with pytest.raises(InvalidInput, match="rows 701 and 1400 "):
        next(passed)
