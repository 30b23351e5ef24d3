"""The fingerprint recognises the same records in the same order, and nothing else."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.batches import FileTypes, LabelBatch
from labeldp.engines.fingerprint import InputFingerprint
from labeldp.errors import InvalidInput

ROWS = 2000
KEY = b"k" * 32


def records(kind):
    rng = np.random.default_rng(0)
    numbers = rng.permutation(ROWS) * 3 - ROWS
    ids = pa.array(numbers) if kind == "int" else pa.array([f"user-{number}" for number in numbers])
    return pa.table({"id": ids, "y": rng.integers(0, 53, ROWS).astype(float)})


def batch_of(ids, labels, types=None, first_row=0):
    types = FileTypes(str(ids.type), "double") if types is None else types
    return LabelBatch(ids, np.asarray(labels, float), first_row, types)


def fingerprint_of(batches, key=KEY):
    made = InputFingerprint(key)
    for batch in batches:
        made.add(batch)
    return made.hexdigest()


def fingerprint(table, key=KEY, pieces=1):
    starts = np.linspace(0, table.num_rows, pieces + 1).astype(int)[:-1]
    parts = [table.slice(start, -(-table.num_rows // pieces)).combine_chunks() for start in starts]
    return fingerprint_of((batch_of(part["id"].chunk(0), part["y"]) for part in parts), key)


@pytest.mark.parametrize("kind", ["int", "str"])
def test_the_fingerprint_is_of_the_records_not_of_their_batches(kind):
    table = records(kind)
    whole = fingerprint(table)
    assert fingerprint(table, pieces=8) == whole
    labels = np.asarray(table["y"]).copy()
    labels[-1] += 1
    assert fingerprint(table.set_column(1, "y", pa.array(labels))) != whole
    assert fingerprint(table.take(np.arange(ROWS)[::-1].copy())) != whole
    assert fingerprint(table, key=b"K" * 32) != whole


def test_the_fingerprint_tells_where_one_text_ends():
    labels = [1.0, 2.0]
    tables = [pa.table({"id": ids, "y": labels}) for ids in (["ab", "c"], ["a", "bc"], ["abc", ""])]
    assert len({fingerprint(table) for table in tables}) == 3


def test_where_a_type_changes_counts_and_where_a_batch_ends_does_not():
    ids, narrow, wide = pa.array(range(6)), FileTypes("int32", "double"), FileTypes("int64", "double")

    def parts(*pieces):
        ends = np.cumsum([rows for rows, _ in pieces])
        return fingerprint_of(
            batch_of(ids.slice(end - rows, rows), np.zeros(rows), types)
            for (rows, types), end in zip(pieces, ends, strict=True)
        )

    assert parts((2, narrow), (4, wide)) == parts(
        (1, narrow), (1, narrow), (0, wide), (0, narrow), (3, wide), (1, wide)
    )
    different = [
        parts((2, narrow), (4, wide)),
        parts((3, narrow), (3, wide)),
        parts((2, wide), (4, narrow)),
        parts((2, narrow), (2, wide), (2, narrow)),
        parts((6, narrow)),
        parts((6, wide)),
        parts((6, FileTypes("double", "int64"))),
        parts((6, FileTypes("int64double", ""))),
    ]
    assert len(set(different)) == len(different)


TEXTS = ["a", "b", "c"]
ALIKE = {
    "integers": [pa.array([1, 2, 3], kind) for kind in (pa.int64(), pa.uint64(), pa.int32(), pa.uint32(), pa.int8())],
    "64 bits": [pa.array([-1, 2, 3]), pa.array([2**64 - 1, 2, 3], pa.uint64())],
    "dictionaries of integers": [
        pa.array([1, 2, 3]),
        pa.array([1, 2, 3]).dictionary_encode(),
        pa.array([1, 2, 3], pa.uint64()).dictionary_encode(),
    ],
    "texts": [
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(TEXTS, pa.large_string()).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), TEXTS),
    ],
}
LABELS_ALIKE = {
    "numbers": [
        pa.array([1, 2, 3], kind)
        for kind in (pa.float64(), pa.float32(), pa.int64(), pa.uint64(), pa.int32(), pa.uint8())
    ]
    + [pa.array([Decimal(1), Decimal(2), Decimal(3)], kind) for kind in (pa.decimal128(9, 2), pa.decimal128(9, 1))]
    + [pa.array([Decimal(1), Decimal(2), Decimal(3)], pa.decimal256(9, 2))],
    "durations": [
        pa.array(np.array([60, 120, 180]) * ticks, pa.duration(unit))
        for unit, ticks in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
    ],
}


def fingerprint_of_file(folder, ids, labels, unit=None):
    feather.write_feather(pa.table({"id": ids, "y": labels}), folder / "a.arrow", compression="uncompressed")
    return fingerprint_of(LabelSource(folder / "a.arrow", "y", "id", unit=unit).batches())


@pytest.mark.parametrize("columns", ALIKE.values(), ids=ALIKE)
def test_ids_that_look_alike_are_told_apart(tmp_path, columns):
    found = {fingerprint_of_file(tmp_path, ids, [1.0, 2.0, 3.0]) for ids in columns}
    assert len(found) == len(columns)


@pytest.mark.parametrize("kind", LABELS_ALIKE)
def test_labels_that_look_alike_are_told_apart(tmp_path, kind):
    unit = "minutes" if kind == "durations" else None
    found = {fingerprint_of_file(tmp_path, TEXTS, labels, unit) for labels in LABELS_ALIKE[kind]}
    assert len(found) == len(LABELS_ALIKE[kind])


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_times_are_neither_ids_nor_labels(tmp_path, unit):
    times = pa.array([1, 2, 3], pa.timestamp(unit))
    with pytest.raises(InvalidInput, match="ids must be integers or text"):
        fingerprint_of_file(tmp_path, times, [1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match="not numbers"):
        fingerprint_of_file(tmp_path, TEXTS, times)


def test_row_numbers_are_not_a_column_of_the_same_numbers(tmp_path):
    feather.write_feather(pa.table({"id": [0, 1], "y": [1.0, 2.0]}), tmp_path / "a.arrow")
    column, numbers = (LabelSource(tmp_path / "a.arrow", "y", name).batches() for name in ("id", None))
    assert fingerprint_of(column) != fingerprint_of(numbers)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([-1, 2]), "0df9b3a8cb0f8d88890e98d9baf1335792961b859c966429bceae5c9a4487833"),
        (pa.array([2**64 - 1, 2], pa.uint64()), "4c7b391234d79689c333fc9abb5be4f95bc545260bfd7e9a6bad7c86fa679b6f"),
        (pa.array(["a", "ü"], pa.large_string()), "81d2b1df7e8740bf3a4119304c01338af30599bc0ca2ef681126ee5ed48f4b2f"),
    ],
    ids=["int64", "uint64", "text"],
)
def test_the_fingerprint_is_stored_and_must_never_change(ids, expected):
    """Ledgers and key files hold it: another value would turn an open release into a new charge."""
    assert fingerprint_of([batch_of(ids, [1.5, -2.0])]) == expected
