"""Rows that are packed for the shuffle come back whole and sorted, whatever they were packed with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from labeldp.engines.spark import shuffle
from labeldp.engines.spark.shuffle import (
    MOST_PART_BITS,
    NOTE_CODES,
    SENT_CODE,
    PackTask,
    UnpackTask,
    note_batch,
    packed_schema,
    part_numbers,
    row_batch,
    row_schema,
)
from labeldp.engines.spark.worker import REPEATED, WorkerError

LEAST, LARGEST = -(2**63), 2**63 - 1


def schema_of(kind, *, large=False):
    return to_arrow_schema(row_schema(kind, 4), prefers_large_types=large)


def pack_task(kind, bits, *, large=False):
    return PackTask(bits, to_arrow_schema(packed_schema(row_schema(kind, 4)), prefers_large_types=large))


def drawn(kind, rows, seed=0, *, large=False):
    random = np.random.default_rng(seed)
    keys = random.integers(LEAST, LARGEST, rows)
    high = random.integers(0, 2**32, rows, np.uint32)
    texts = pa.array(["ö" * (number % 7) + str(number) for number in range(rows)])
    return row_batch(schema_of(kind, large=large), keys, high, texts, random.integers(0, 4, rows))


def by_part(packed):
    """The packed batches of each part, as the shuffle brings them."""
    parts = {}
    for batch in packed:
        for number, part in enumerate(batch.column("part").to_pylist()):
            parts.setdefault(part, []).append(batch.slice(number, 1))
    return parts


@pytest.mark.parametrize(
    ("kind", "bits", "large"), [("int", 0, False), ("int", MOST_PART_BITS, False), ("str", 3, False), ("str", 3, True)]
)
def test_rows_arrive_sorted_in_their_parts(kind, bits, large):
    batches = [drawn(kind, 300, seed, large=large) for seed in range(4)]
    parts = by_part(pack_task(kind, bits, large=large)(iter(batches)))
    unpack = UnpackTask(schema_of(kind, large=large))
    (note,) = unpack(iter(parts.pop(1 << bits)))
    assert (note.column("code").to_pylist(), note.column("key").to_pylist()) == ([SENT_CODE], [1200])
    found = pa.Table.from_batches([batch for number in sorted(parts) for batch in unpack(iter(parts[number]))])
    assert found.equals(pa.Table.from_batches(batches).sort_by("key"))


def test_parts_are_the_leading_bits_and_notes_come_after_them():
    keys = np.array([LEAST, -1, 0, LARGEST, LEAST])
    codes = np.array([0, 1, 2, 3, -1])
    assert part_numbers(keys, codes, 0).tolist() == [0, 0, 0, 0, 1]
    assert part_numbers(keys, codes, 2).tolist() == [0, 1, 2, 3, 4]
    most = 1 << MOST_PART_BITS
    assert part_numbers(keys, codes, MOST_PART_BITS).tolist() == [0, most // 2 - 1, most // 2, most - 1, most]


@pytest.mark.parametrize("kind", ["int", "str"])
def test_notes_travel_beside_the_rows(kind):
    batches = [drawn(kind, 50), note_batch(schema_of(kind), (5, 6, 50))]
    parts = by_part(pack_task(kind, 1)(iter(batches)))
    assert sorted(parts) == [0, 1, 2]
    (notes,) = UnpackTask(schema_of(kind))(iter(parts[2]))
    assert dict(zip(notes.column("code").to_pylist(), notes.column("key").to_pylist(), strict=True)) == dict(
        zip(NOTE_CODES, (5, 6, 50, 50), strict=True)
    )


def test_equal_keys_are_told_apart_by_their_other_bits():
    random = np.random.default_rng(0)
    high = random.permutation(100).astype(np.uint32)
    batch = row_batch(
        schema_of("str"), np.zeros(100, np.int64), high, pa.array(map(str, high.tolist())), np.zeros(100, np.int64)
    )
    records = by_part(pack_task("str", 0)(iter([batch])))[0]
    (found,) = UnpackTask(schema_of("str"))(iter(records))
    assert found.column("id").to_pylist() == [str(number) for number in range(100)]


def test_rows_are_packed_when_there_are_enough_of_them_or_they_are_large_enough(monkeypatch):
    batches = [drawn("str", 100, seed) for seed in range(6)]
    assert [one.num_rows for one in shuffle.joined(iter(batches), 250)] == [300, 300]
    assert [one.num_rows for one in shuffle.joined(iter(batches), 1000)] == [600]
    monkeypatch.setattr(shuffle, "MOST_BYTES", 2 * max(batch.nbytes for batch in batches))
    assert [one.num_rows for one in shuffle.joined(iter(batches), 1000)] == [200, 200, 200]


@pytest.mark.parametrize("kind", ["int", "str"])
def test_a_part_that_a_repeated_id_makes_large_is_refused_before_it_has_arrived(monkeypatch, kind):
    monkeypatch.setattr(shuffle, "ROWS_PER_PART", 100)
    packed, _ = pack_task(kind, 0)(iter([drawn(kind, 150)]))
    taken = []

    def arriving():
        for number in range(100):
            taken.append(number)
            yield packed

    with pytest.raises(WorkerError, match=REPEATED):
        list(UnpackTask(schema_of(kind))(arriving()))
    assert len(taken) == 2


def test_a_large_part_without_repeated_ids_arrives(monkeypatch):
    monkeypatch.setattr(shuffle, "ROWS_PER_PART", 100)
    batches = [drawn("int", 150, seed) for seed in range(10)]
    packed = [one for batch in batches for one in by_part(pack_task("int", 0)(iter([batch])))[0]]
    assert sum(batch.num_rows for batch in UnpackTask(schema_of("int"))(iter(packed))) == 1500
