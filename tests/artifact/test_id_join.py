"""`match_ids` against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.artifact.id_join import match_ids
from labeldp.errors import InvalidInput

ids = st.lists(st.integers(0, 60), unique=True, max_size=40)


@given(wanted=ids, held=ids, kind=st.sampled_from([int, str]), unsigned=st.booleans())
def test_rows_are_those_of_a_dictionary(wanted, held, kind, unsigned):
    rows = {one: row for row, one in enumerate(held)}
    types = (pa.int64(), pa.uint64() if unsigned else pa.int64()) if kind is int else (pa.large_string(),) * 2
    arrays = [pa.array([kind(one) for one in given], type_) for given, type_ in zip((wanted, held), types, strict=True)]
    assert match_ids(*arrays, "a", "b").tolist() == [rows.get(one, -1) for one in wanted]


@pytest.mark.parametrize(
    ("wanted", "held", "where"), [([4, 9, 4], [1], "rows 1 and 3 of wanted"), ([4], [4, 5, 4], "rows 1 and 3 of held")]
)
def test_a_wanted_id_that_occurs_twice_is_refused_and_not_shown(wanted, held, where):
    secret = 7_000_123
    with pytest.raises(InvalidInput, match=where) as refusal:
        match_ids(pa.array(np.array(wanted) + secret), pa.array(np.array(held) + secret), "wanted", "held")
    assert str(secret)[:5] not in str(refusal.value)


def test_an_id_that_nobody_wants_may_occur_twice():
    assert match_ids(pa.array([1]), pa.array([5, 1, 5]), "wanted", "held").tolist() == [1]


def test_text_and_numbers_are_not_matched():
    with pytest.raises(InvalidInput, match="the ids of a are whole numbers and the ids of b are text"):
        match_ids(pa.array([1]), pa.array(["1"]), "a", "b")
