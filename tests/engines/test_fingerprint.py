"""The fingerprint recognises the same records, in any order, and nothing else."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

from labeldp.engines.arrow.source import LabelSource
from labeldp.engines.batches import FileTypes, InputFingerprint, LabelBatch
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
    assert fingerprint(table.take(np.arange(ROWS)[::-1].copy())) == whole
    labels = np.asarray(table["y"]).copy()
    labels[-1] += 1
    assert fingerprint(table.set_column(1, "y", pa.array(labels))) != whole
    assert fingerprint(table.set_column(1, "y", pa.array(np.roll(np.asarray(table["y"]), 1)))) != whole
    assert fingerprint(table.slice(1)) != whole
    assert fingerprint(table, key=b"K" * 32) != whole


def test_the_fingerprint_tells_where_one_text_ends():
    labels = [1.0, 2.0]
    tables = [pa.table({"id": ids, "y": labels}) for ids in (["ab", "c"], ["a", "bc"], ["abc", ""])]
    assert len({fingerprint(table) for table in tables}) == 3


def test_which_records_have_which_type_counts_and_where_a_batch_ends_does_not():
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
        (pa.array([-1, 2]), "b41ea3451e4b66cf1163cea35ea7b99be896fba1959dbf312db4fa1f1a591a2b"),
        (pa.array([2**64 - 1, 2], pa.uint64()), "79f589ad649553b1a6995a0b254c59b60048e1292d67648f73fdf5e734bc7187"),
        (pa.array(["a", "ü"], pa.large_string()), "6291c7ad1c343e1c9e59503ba4c9bada6634cee1f0c30c4b5ac183d0ad72d624"),
    ],
    ids=["int64", "uint64", "text"],
)
def test_the_fingerprint_is_stored_and_must_never_change(ids, expected):
    """Ledgers and key files hold it: another value would turn an open release into a new charge."""
    assert fingerprint_of([batch_of(ids, [1.5, -2.0])]) == expected
