"""A compact table holds the same values in less memory, and a learner reads the same numbers from it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.learn import feature_tables as module
from labeldp.learn.feature_columns import ColumnEncoder
from labeldp.learn.feature_tables import CompactTable

VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300),
    pa.uint64(): st.integers(0, 2**64 - 1) | st.integers(0, 3),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats(allow_infinity=False) | st.integers(-3, 3).map(float),
    pa.float32(): st.floats(width=32, allow_infinity=False),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.string(): st.sampled_from(["a", "b", "", "7", "007"]) | st.text(max_size=3),
    pa.large_string(): st.sampled_from(["7", "+7.5", " 8", "", "1e3"]),
    pa.string_view(): st.sampled_from(["a", "b"]),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["7", "b", "8"]),
    pa.dictionary(pa.int32(), pa.int64()): st.integers(0, 9),
    pa.null(): st.none(),
}


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 30))
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    columns = [draw(st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows)) for kind in kinds]
    arrays = [
        pa.array(values, kind.value_type).dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else pa.array(values, kind)
        for values, kind in zip(columns, kinds, strict=True)
    ]  # fmt: skip
    return pa.table(arrays, [f"c{i}" for i in range(len(kinds))])


def compacted(table, size, categorical=()):
    result = CompactTable(table.schema, categorical)
    for batch in table.to_batches(max_chunksize=size):
        result.add(batch)
    return result.finish()


@given(tables(), st.integers(1, 30), st.sampled_from([0, 3, 1000]), st.booleans())
def test_a_learner_reads_the_same_numbers_and_codes(table, size, pending, categorical):
    named = ["c0"] if categorical else []
    before, module.PENDING = module.PENDING, pending
    try:
        small = compacted(table, size, named)
    finally:
        module.PENDING = before
    encoders = [ColumnEncoder.fit(each, categorical=named, min_count=1) for each in (table, small)]
    assert encoders[0].numeric == encoders[1].numeric
    expected = encoders[0].ordinal(table)
    np.testing.assert_array_equal(encoders[0].ordinal(small), expected)
    np.testing.assert_array_equal(encoders[1].ordinal(table), expected)


@given(tables(), st.integers(1, 30), st.data())
def test_the_rows_asked_for_are_added_with_their_values(table, size, data):
    chosen = data.draw(st.lists(st.booleans(), min_size=table.num_rows, max_size=table.num_rows))
    some, first = CompactTable(table.schema, table.schema.names), 0
    for batch in table.to_batches(max_chunksize=size):
        some.add(batch, np.flatnonzero(chosen[first : first + batch.num_rows]))
        first += batch.num_rows
    expected = [row for row, wanted in zip(table.to_pylist(), chosen, strict=True) if wanted]
    assert list(map(repr, some.finish().to_pylist())) == list(map(repr, expected))  # here NaN equals NaN


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 127], pa.int8()),
        ([0, 128], pa.uint8()),
        ([-1, 128], pa.int16()),
        ([None, 70_000], pa.int32()),
        ([-(2**40)], pa.int64()),
        (["a", "b", None], pa.dictionary(pa.int8(), pa.large_string())),
        (["1", "200", None], pa.uint8()),
        ([0.5, None], pa.float32()),
        ([0.1], pa.float64()),
    ],
)
def test_the_narrowest_type_that_holds_all_values_is_taken(values, kind):
    small = compacted(pa.table({"c": values * 10}), 1)
    assert small.schema.types == [kind]


def test_a_table_without_rows_keeps_its_columns():
    table = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string()), "c": pa.array([], pa.float64())})
    assert compacted(table, 5).schema.names == ["a", "b", "c"]
