"""The fingerprint recognises the same records in the same order, and nothing else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from labeldp.engines.fingerprint import InputFingerprint

ROWS = 2000


def records(kind):
    rng = np.random.default_rng(0)
    numbers = rng.permutation(ROWS) * 3 - ROWS
    ids = pa.array(numbers) if kind == "int" else pa.array([f"user-{number}" for number in numbers])
    return pa.table({"id": ids, "y": rng.integers(0, 53, ROWS).astype(float)})


def fingerprint(table, key=b"k" * 32, pieces=1):
    made = InputFingerprint(key)
    for start in np.linspace(0, table.num_rows, pieces + 1).astype(int)[:-1]:
        part = table.slice(start, -(-table.num_rows // pieces)).combine_chunks()
        made.add(part["id"].chunk(0), np.asarray(part["y"]))
    return made.hexdigest()


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


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([-1, 2]), "3e71bd2daf16b568133abf17e5b1461093c2bec3332e8cff40917a6e23caa111"),
        (pa.array([2**63, 2], pa.uint64()), "f60433a3d6acce0d490c091fdfc983927187228a1cfa9c0340725ed55a83a2c0"),
        (pa.array(["a", "ü"]), "451fc3d969d7279bf9abf8bd355ab0fda0e17cfe3433f3fbb1cdca45ec07df88"),
    ],
    ids=["int64", "uint64", "text"],
)
def test_the_fingerprint_is_stored_and_must_never_change(ids, expected):
    """Ledgers and key files hold it: another value would turn an open release into a new charge."""
    made = InputFingerprint(b"k" * 32)
    made.add(ids, np.array([1.5, -2.0]))
    assert made.hexdigest() == expected
