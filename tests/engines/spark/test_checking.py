"""Pass one on a partition: what is counted, and what the driver makes of the counts."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest
from spark_scenes import DOMAIN, KEY, records

from labeldp import Domain
from labeldp.engines.batches import equal_digests
from labeldp.engines.spark.worker import CheckTask, RecordReader
from labeldp.priors import histogram
from labeldp.sampling.multiset import MultisetHash


def checked(table, rows=7, domain=DOMAIN, *, grid=None, repeats=None, kind=None):
    """What a partition gives, cut into batches of so many rows, decrypted."""
    kind = kind or ("int" if pa.types.is_integer(table["id"].type) else "str")
    task = CheckTask(RecordReader(kind, None), domain, MultisetHash.subkeys(KEY), grid, repeats)
    (result,) = task(iter(table.to_batches(rows)))
    (row,) = result.to_pylist()
    return task.opened(row["result"])


@pytest.mark.parametrize("ids", ["int", "str"])
def test_a_partition_gives_the_same_however_it_is_cut(ids):
    table = records(ids=ids)
    first = checked(table, 60, grid=DOMAIN, repeats=KEY)
    for rows in (1, 7, 59):
        assert checked(table, rows, grid=DOMAIN, repeats=KEY) == first
    spare = pa.concat_tables([records(5, 500, ids=ids), table])[5:]  # a slice of longer buffers
    assert checked(spare, 60, grid=DOMAIN, repeats=KEY) == first
    # with a bitmap of what is missing
    nullable = table.set_column(0, "id", pa.array([None, *table["id"].to_pylist()])[1:])
    assert checked(nullable, 60, grid=DOMAIN, repeats=KEY) == first


def test_counts():
    labels = [-1.0, 0.0, 5.0, 5.5, 10.0, 11.0]
    row = checked(pa.table({"id": ["a", "bc", "", "ö", "d", "e"], "y": labels}), grid=DOMAIN)
    assert (row["records"], row["clipped"], row["not_whole"], row["id_bytes"]) == (6, 2, 0, 7)
    assert np.frombuffer(row["cells"], np.int64).tolist() == histogram(np.array(labels), DOMAIN).tolist()
    whole = checked(pa.table({"id": range(6), "y": labels}), domain=Domain.integers(0, 10))
    assert (whole["not_whole"], whole["id_bytes"], whole["cells"]) == (1, 0, b"")


def test_a_row_has_the_same_size_whatever_the_labels_are():
    """The event log shows the sizes of results. Sealed, they do not compress (`test_event_log.py`)."""
    table = records()
    extreme = table.set_column(1, "y", pa.array([-1e300] * 60))
    sizes = [
        {name: len(value) for name, value in checked(one, grid=DOMAIN, repeats=KEY).items() if isinstance(value, bytes)}
        for one in (table, extreme)
    ]
    assert sizes[0] == sizes[1] == {"limbs": 16, "cells": 88, "low": 480, "high": 240}


def test_an_empty_partition_counts_nothing():
    row = checked(records()[:0], grid=DOMAIN, repeats=KEY, kind="int")
    assert not any(row[name] for name in (*CheckTask.COUNTS, "low", "high"))
    assert np.frombuffer(row["limbs"], np.uint64).tolist() == [0, 0]
    assert np.frombuffer(row["cells"], np.int64).tolist() == [0] * 11


def any_equal(rows):
    low, high = (b"".join(row[name] for row in rows) for name in ("low", "high"))
    return bool(equal_digests(np.frombuffer(low, np.uint64), np.frombuffer(high, np.uint32)))


@pytest.mark.parametrize("ids", ["int", "str"])
def test_equal_ids_are_found_within_and_across_partitions(ids):
    key = os.urandom(32)
    table = records(ids=ids)
    halves = [checked(part, repeats=key) for part in (table[:30], table[30:])]
    assert not any_equal(halves)
    assert any_equal([*halves, checked(table[3:4], repeats=key)])
    assert any_equal([checked(pa.concat_tables([table, table[59:]]), repeats=key)])


def test_ids_of_which_only_64_bits_agree_are_not_equal():
    def row(low, high):
        return {"low": np.array(low, np.uint64).tobytes(), "high": np.array(high, np.uint32).tobytes()}

    assert not any_equal([row([5, 6], [1, 1]), row([5, 5], [2, 3])])
    assert any_equal([row([5, 6], [1, 1]), row([5, 5], [2, 1])])
    assert not any_equal([row([], [])])
    assert not any_equal([row([2**64 - 1, 0], [0, 0])])
