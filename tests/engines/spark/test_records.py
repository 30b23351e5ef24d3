"""Workers read records as one machine does: they accept the same batches, and read the same ids and labels."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.engines.batches import checked_ids, checked_labels
from labeldp.engines.spark.worker import Faults, RecordReader
from labeldp.errors import InvalidInput

INTEGERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}
NUMBERS = ["0", "-0", "7", "007", "+7", " 7", "7.0", "-7", "9223372036854775807", "9223372036854775808", "٣", ""]


def one_of_types(sizes):
    return st.sampled_from(list(sizes)).flatmap(
        lambda kind: st.lists(st.none() | st.integers(-(2 ** sizes[kind]), 2 ** sizes[kind] - 1), max_size=6).map(
            lambda values: pa.array(values, kind)
        )
    )


TEXTS = st.lists(st.none() | st.text(max_size=6) | st.sampled_from(NUMBERS), max_size=6).map(
    lambda values: pa.array(values, pa.string())
)
FLOATS = st.lists(st.none() | st.floats(), max_size=6).map(lambda values: pa.array(values, pa.float64()))
SINGLES = st.lists(st.none() | st.floats(width=32), max_size=6).map(lambda values: pa.array(values, pa.float32()))
DECIMALS = st.lists(st.none() | st.decimals(-(10**7), 10**7, places=2), max_size=6).map(
    lambda values: pa.array(values, pa.decimal128(10, 2))
)


@given(
    ids=one_of_types(INTEGERS) | TEXTS,
    labels=one_of_types(INTEGERS) | FLOATS | SINGLES | DECIMALS,
    wanted=st.sampled_from([None, "int", "str"]),
)
def test_batches_are_read_as_on_one_machine(ids, labels, wanted):
    rows = min(len(ids), len(labels))
    ids, labels = ids[:rows], labels[:rows]
    own = "int" if pa.types.is_integer(ids.type) else "str"
    found, numbers, faults = RecordReader(wanted or own, None).read(pa.record_batch([ids, labels], ["id", "label"]))
    try:
        expected = checked_ids(ids, "id", 0, "x", wanted), checked_labels(labels, "label", 0, "x")
    except InvalidInput:
        assert faults
        assert len(found) == len(numbers) == 0
        return
    assert not faults
    assert found.equals(expected[0])
    assert numbers.tobytes() == expected[1].tobytes()


@pytest.mark.parametrize("unit", ["seconds", "hours", "days"])
def test_intervals_are_read_in_the_unit_of_the_bounds(unit):
    spans = pa.array([dt.timedelta(days=2, microseconds=1), dt.timedelta(seconds=-90)], pa.duration("us"))
    _, numbers, faults = RecordReader("int", unit).read(pa.record_batch([pa.array([1, 2]), spans], ["id", "label"]))
    assert not faults
    assert numbers.tobytes() == checked_labels(spans, "label", 0, "x", unit).tobytes()


@pytest.mark.parametrize(
    ("ids", "labels", "faults"),
    [
        ([1, None, None], [1.0, 2.0, 3.0], Faults(missing_ids=2)),
        ([1, 2, None], [None, 2.0, 3.0], Faults(missing_ids=1, missing_labels=1)),
        ([1, 2, 3], [np.nan, np.inf, -np.inf], Faults(not_finite=3)),
        (["1", "x", "01"], [1.0, 2.0, np.nan], Faults(not_finite=1, not_integers=2)),
        (["1", "-5", "0"], [1.0, 2.0, 3.0], Faults()),
    ],
)
def test_faults_are_counted(ids, labels, faults):
    batch = pa.record_batch([pa.array(ids), pa.array(labels, from_pandas=False)], ["id", "label"])
    assert RecordReader("int", None).read(batch)[2] == faults


def test_ids_that_are_not_utf_8_are_refused_on_both_engines():
    """Spark and Parquet take any bytes for text. A message with such ids was paid for, and no reader could decode it."""
    raw = pa.array([b"ok", b"\xffA", b"\xfeA"])
    ids = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    batch = pa.record_batch([ids, pa.array([1.0, 2.0, 3.0])], ["id", "label"])
    for kind in ("int", "str"):
        assert RecordReader(kind, None).read(batch)[2] == Faults(not_text=2)
    with pytest.raises(InvalidInput, match=r"the id in row 12 .* is not UTF-8 text"):
        checked_ids(ids, "id", 10, "x", None)
