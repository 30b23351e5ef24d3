from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labeldp.sampling.ids as ids_module
from labeldp.errors import InvalidInput
from labeldp.sampling import IdDigests
from labeldp.sampling.ids import digest_ids

KEY = bytes(range(32))


def bits(digests: IdDigests) -> list[int]:
    return [(int(high) << 64) | int(low) for high, low in zip(digests.high, digests.low, strict=True)]


def test_integers_are_themselves_and_negative_ones_are_marked():
    assert bits(digest_ids([0, 7, -1, 2**63 - 1, -(2**63)], KEY)) == [
        0,
        7,
        1 << 64 | 2**64 - 1,
        2**63 - 1,
        1 << 64 | 2**63,
    ]
    assert bits(digest_ids(np.array([2**64 - 1], np.uint64), KEY)) == [2**64 - 1]


def test_numbers_and_their_texts_are_different_records():
    numbers, texts = digest_ids(range(50), KEY), digest_ids([str(number) for number in range(50)], KEY)
    assert (numbers.kind, texts.kind) == ("int", "str")
    assert {one >> 95 for one in bits(numbers)} == {0}
    assert {one >> 95 for one in bits(texts)} == {1}


def test_many_texts_have_the_digests_of_few(monkeypatch):
    texts = [f"order {number}" for number in range(200)]
    few = bits(digest_ids(texts, KEY))
    monkeypatch.setattr(ids_module, "_FEW_TEXTS", 0)
    assert bits(digest_ids(texts, KEY)) == few


@pytest.mark.parametrize(
    "wrap",
    [
        list,
        tuple,
        np.array,
        pa.array,
        pd.Series,
        pl.Series,
        lambda ids: pa.chunked_array([ids[:1], ids[1:]]),
        lambda ids: np.array(ids, dtype=object),
        lambda ids: pa.array(ids).dictionary_encode(),
        lambda ids: pa.array([ids[0], *ids]).slice(1),
        lambda ids: pd.Series(ids, dtype="category"),
        lambda ids: pl.Series(ids, dtype=pl.Categorical) if isinstance(ids[0], str) else pl.Series(ids),
    ],
)
@pytest.mark.parametrize("ids", [[3, 1, 2], ["a", "ü", "ccc"]])
def test_every_container_gives_the_same_digests(wrap, ids):
    assert bits(digest_ids(wrap(ids), KEY)) == bits(digest_ids(ids, KEY))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_every_integer_width_gives_the_same_digests(dtype):
    assert bits(digest_ids(np.array([1, 2, 100], dtype), KEY)) == [1, 2, 100]
    assert bits(digest_ids(pa.array([1, 2, 100], dtype), KEY)) == [1, 2, 100]


def test_large_unsigned_integers_come_in_lists_too():
    assert bits(digest_ids([2**63, 1], KEY)) == [2**63, 1]


@pytest.mark.parametrize(
    "ids",
    [
        [1.0, 2.0],
        np.array([1.0]),
        [1, 2.5],
        [True, False],
        np.array([True]),
        [1, True],
        [1, "1"],
        ["1", 1],
        [1, None],
        [None],
        ["a", None],
        pd.Series([1, None]),
        pd.Series(["a", None]),
        pd.Series([1, None], dtype="Int64"),
        pl.Series([1, None]),
        pd.Series([1, "a"], dtype=object),
        np.array(["a", float("nan")], dtype=object),
        [2**64],
        [-1, 2**63],
        ["\ud800"],
        [[1], [2]],
        np.array([[1, 2]]),
        "abc",
        b"abc",
        None,
        pd.Series(pd.to_datetime(["2020-01-01"])),
        pa.array([1.0]),
        pa.array([True]),
        7,
    ],
)
def test_other_ids_are_refused(ids):
    with pytest.raises(InvalidInput):
        digest_ids(ids, KEY)


def test_a_null_is_named_by_its_row():
    with pytest.raises(InvalidInput, match="row 2"):
        digest_ids(["a", "b", None], KEY)


@pytest.mark.parametrize("values", [["a", None, "c"], [4, None, 6]])
def test_a_null_among_the_values_of_a_dictionary_is_a_null(values):
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1]), pa.array(values))
    assert ids.null_count == 0  # Arrow counts nulls among the indices
    for one in (ids, pa.chunked_array([ids[:1], ids[1:]])):
        with pytest.raises(InvalidInput, match="row 2"):
            digest_ids(one, KEY)
    assert bits(digest_ids(ids[:2], KEY)) == bits(digest_ids([values[0], values[2]], KEY))


@pytest.mark.parametrize(
    "ids", [[], np.array([], np.int64), pa.array([], pa.string()), pa.chunked_array([], pa.int64())]
)
def test_no_ids_are_fine(ids):
    assert len(digest_ids(ids, KEY).without_duplicates()) == 0


def test_an_empty_batch_keeps_the_kind_of_its_ids():
    assert digest_ids(pa.array([], pa.string()), KEY).kind == "str"
    assert digest_ids(pa.chunked_array([], pa.large_string()), KEY).kind == "str"
    assert digest_ids(pa.array([], pa.int32()), KEY).kind == "int"


@pytest.mark.parametrize("ids", [[5, 1, 9, 1, 5], ["e", "a", "i", "a", "e"]])
def test_duplicates_are_refused_with_their_rows(ids):
    with pytest.raises(InvalidInput, match="index 1 and index 3"):
        digest_ids(ids, KEY).without_duplicates()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=8))
def test_duplicates_are_found_exactly_when_all_96_bits_agree(pairs):
    high = np.array([pair[0] for pair in pairs], np.uint32)
    low = np.array([pair[1] for pair in pairs], np.uint64)
    digests = IdDigests(high, low, "int")
    if len(set(pairs)) == len(pairs):
        assert digests.without_duplicates().distinct
    else:
        with pytest.raises(InvalidInput, match="unique"):
            digests.without_duplicates()


def test_minus_one_and_the_largest_integer_are_no_duplicates():
    digests = IdDigests(np.array([1, 0], np.uint32), np.array([2**64 - 1, 2**64 - 1], np.uint64), "int")
    assert digests.without_duplicates().distinct


def test_slices_stay_distinct_and_other_selections_do_not():
    digests = digest_ids([3, 1, 2], KEY).without_duplicates()
    assert digests[1:].distinct
    assert bits(digests[1:]) == [1, 2]
    assert not digests[np.array([0, 0])].distinct
    assert not digests[np.array([True, False, True])].distinct


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=2, max_size=30), st.integers(0, 2**64 - 41))
def test_duplicates_are_found_among_crowded_integers_anywhere(offsets, base):
    low = np.array([base + offset for offset in offsets], np.uint64)
    digests = IdDigests(np.zeros(low.size, np.uint32), low, "int")
    if len(set(offsets)) == len(offsets):
        assert digests.without_duplicates().distinct
    else:
        with pytest.raises(InvalidInput, match="unique"):
            digests.without_duplicates()
