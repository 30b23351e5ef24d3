"""Ids that are written as integers become integers exactly if nothing of their text is lost."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from labeldp.engines.batches import checked_ids, plain_integers, written_as_integers


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_plain_integers_are_integers(values):
    column = pa.array([str(value) for value in values], pa.large_string())
    assert checked_ids(column, "id", 0, "a.csv", None, text_file=True).to_pylist() == values


@given(st.text(alphabet="0123456789-+. ", min_size=1, max_size=21))
def test_whatever_becomes_an_integer_is_written_the_same(value):
    (read,) = checked_ids(pa.array([value], pa.large_string()), "id", 0, "a.csv", None, text_file=True).to_pylist()
    assert str(read) == value


INTEGER_LIKE = st.one_of(
    st.integers(-(2**63) - 2, 2**64 + 2).map(str),
    st.sampled_from(
        ["007", "+7", "-0", "7.0", " 7", "7 ", "", "0x1F", "0xE8D4A51000", "1e3", "-", "٣", "9223372036854775808"]
    ),
    st.text("0123456789-+x eE.", max_size=21),
)


@given(st.lists(INTEGER_LIKE, min_size=1, max_size=4))
def test_texts_are_plain_integers_if_each_is_written_as_one(texts):
    column = pa.array(texts, pa.large_string())
    numbers = plain_integers(column)
    assert (numbers is not None) == pc.all(written_as_integers(column)).as_py()
    assert numbers is None or [str(number) for number in numbers.to_pylist()] == texts
