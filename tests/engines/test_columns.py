"""Ids that are written as integers become integers exactly if nothing of their text is lost."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from labeldp.engines.columns import checked_ids


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_plain_integers_are_integers(values):
    column = pa.array([str(value) for value in values], pa.large_string())
    assert checked_ids(column, "id", 0, "a.csv", None, text_file=True).to_pylist() == values


@given(st.text(alphabet="0123456789-+. ", min_size=1, max_size=21))
def test_whatever_becomes_an_integer_is_written_the_same(value):
    (read,) = checked_ids(pa.array([value], pa.large_string()), "id", 0, "a.csv", None, text_file=True).to_pylist()
    assert str(read) == value
