from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st

from labeldp.errors import InvalidInput
from labeldp.learn.feature_columns import ColumnEncoder, Vocabulary, infer_columns, standardizer

ROWS = {
    "price": [1.0, 2.5, None, 4.0, 1.0, 2.0],
    "clicks": [1, 2, 3, 4, 5, 6],
    "brand": ["a", "b", "a", None, "a", "b"],
    "sold": [True, False, True, True, False, True],
}


@pytest.fixture(params=[pd.DataFrame, pl.DataFrame, pa.table, pa.RecordBatch.from_pydict])
def frame(request):
    return request.param(ROWS)


def test_types_decide_what_is_a_number_and_what_a_category(frame):
    assert infer_columns(frame) == (["price", "clicks"], ["brand", "sold"])


def test_names_override_types(frame):
    assert infer_columns(frame, categorical=["clicks"], numeric=["sold"], exclude=["brand"]) == (
        ["price", "sold"],
        ["clicks"],
    )


def test_every_kind_of_table_gives_the_same_arrays(frame):
    reference = ColumnEncoder.fit(pl.DataFrame(ROWS), min_count=2)
    encoder = ColumnEncoder.fit(frame, min_count=2)
    for ours, theirs in zip(encoder.transform(frame), reference.transform(pl.DataFrame(ROWS)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(encoder.ordinal(frame), reference.ordinal(pl.DataFrame(ROWS)))


def test_frequent_categories_come_first_and_rare_ones_share_code_zero():
    frame = pl.DataFrame({"brand": ["z"] * 3 + ["b"] * 2 + ["a"] * 2 + ["rare"] + [None] * 4})
    encoder = ColumnEncoder.fit(frame, min_count=2)
    vocabulary = encoder.categorical[0]
    assert vocabulary.items.to_pylist() == [None, "z", "a", "b"]
    assert vocabulary.counts.tolist() == [1, 4, 3, 2, 2]
    codes, _ = encoder.transform(pl.DataFrame({"brand": [None, "z", "a", "b", "rare", "never seen"]}))
    assert codes[:, 0].tolist() == [1, 2, 3, 4, 0, 0]


def test_fewer_than_five_occurrences_is_out_of_vocabulary_by_default():
    encoder = ColumnEncoder.fit(pl.DataFrame({"c": ["four"] * 4 + ["five"] * 5}))
    assert encoder.categorical[0].items.to_pylist() == ["five"]


def test_trees_get_at_most_255_codes():
    frame = pl.DataFrame({"c": [f"v{i}" for i in range(400) for _ in range(5 + (i < 254))]})
    encoder = ColumnEncoder.for_trees(frame)
    matrix = encoder.ordinal(frame)
    assert encoder.sizes == (255,)
    assert matrix.min() == 0
    assert matrix.max() == 254
    assert set(encoder.categorical[0].items.to_pylist()) == {f"v{i}" for i in range(254)}


@given(st.lists(st.one_of(st.none(), st.sampled_from("abcde")), min_size=1, max_size=60), st.integers(1, 6))
def test_codes_agree_with_a_plain_count(values, min_count):
    frame = pa.table({"c": pa.array(values, pa.string()), "n": range(len(values))})
    encoder = ColumnEncoder.fit(frame, min_count=min_count)
    codes = encoder.transform(frame)[0]
    kept = {value for value in values if values.count(value) >= min_count}
    seen = {}
    for value, code in zip(values, codes[:, 0].tolist(), strict=True):
        assert (code > 0) == (value in kept)
        assert seen.setdefault(value if value in kept else "other kinds", code) == code
    assert encoder.categorical[0].counts.sum() == len(values)


@pytest.mark.parametrize(
    "later",
    [
        pl.Series("c", [7, 8, 9]),
        pl.Series("c", [7.0, 8.0, 9.0]),
        pl.Series("c", ["7", "8", "9"]),
        pl.Series("c", [Decimal(7), Decimal(8), Decimal(9)]),
        pl.Series("c", ["7", "8", "9"], dtype=pl.Categorical),
    ],
    ids=["int", "float", "text", "decimal", "categorical"],
)
def test_a_category_is_the_same_whatever_its_type(later):
    encoder = ColumnEncoder.fit(pl.DataFrame({"c": [7, 7, 7, 8, 8, 9]}), categorical=["c"], min_count=1)
    assert encoder.transform(later.to_frame())[0][:, 0].tolist() == [1, 2, 3]


def test_fractions_and_nan_are_categories_too():
    encoder = ColumnEncoder.fit(
        pl.DataFrame({"c": [0.5, 0.5, float("nan"), None, None]}), categorical=["c"], min_count=1
    )
    assert encoder.categorical[0].items.to_pylist() == [None, "0.5"]


def standardized(train, *tables):
    """The numbers of the training table and of later tables as a network gets them."""
    encoder = ColumnEncoder.fit(train)
    scaler = standardizer().fit(encoder.transform(train)[1])
    return [scaler.transform(encoder.transform(table)[1]) for table in (train, *tables)]


def test_numbers_are_standardised_on_the_training_rows():
    values = np.random.default_rng(3).normal(50, 7, 2000)
    later = pl.DataFrame({"v": [values.mean() + values.std(), 1e9, -np.finfo(float).max, None]})
    inputs, later = standardized(pl.DataFrame({"v": values}), later)
    np.testing.assert_allclose([inputs.mean(), inputs.std()], [0, 1], atol=1e-12)
    np.testing.assert_allclose(later[:, 0], [1, 10, -10, 0])


def test_missing_numbers_become_the_mean_and_a_flag():
    train = pl.DataFrame({"full": [1, 2, 3], "holes": [1.0, None, 3.0]})
    later = pl.DataFrame({"full": [None, 2, 3], "holes": [None, 2.0, float("nan")]})
    np.testing.assert_array_equal(standardized(train, later)[1][:, 2], [1, 0, 1])
    np.testing.assert_array_equal(standardized(train, later)[1][0, :2], [0, 0])
    assert np.isnan(ColumnEncoder.fit(train).ordinal(later)[0, 0])


@pytest.mark.parametrize("later", [[None, None], [1.0, 2.0], ["some", "text"]])
def test_a_column_without_numbers_says_nothing_now_or_later(later):
    train = pl.DataFrame({"a": [1.0, 3.0], "none": [None, None]})
    frame = pl.DataFrame({"a": [1.0, 3.0], "none": later})
    np.testing.assert_allclose(standardized(train, frame)[1], [[-1, 0], [1, 0]])
    np.testing.assert_array_equal(ColumnEncoder.fit(train).ordinal(frame), [[1, 0], [3, 0]])


@pytest.mark.parametrize("value", [0.0, 3.0, 0.1, 1e300, -1e-300])
@pytest.mark.parametrize("rest", [[], [None]])
def test_a_constant_column_says_nothing_now_or_later(value, rest):
    later = pl.DataFrame({"v": [value, 99.0, None]})
    assert standardized(pl.DataFrame({"v": [value] * 7 + rest}), later)[1][:, 0].tolist() == [0, 0, 0]


def test_very_large_numbers_keep_a_finite_scale():
    inputs = standardized(pl.DataFrame({"v": [1e300, -1e300, 0.5e300]}))[0]
    np.testing.assert_allclose(inputs.std(), 1)


def test_the_users_choice_of_output_does_not_reach_the_standardizer():
    frame = pl.DataFrame({"v": [1.0, None, 3.0]})
    with sklearn.config_context(transform_output="pandas"):
        np.testing.assert_array_equal(standardized(frame)[0], [[-1, 0], [0, 1], [1, 0]])


def test_text_that_is_all_numbers_is_numeric_and_blanks_are_missing():
    frame = pl.DataFrame({"v": ["1", " 2.5", "", None, "-3e1", "+4"], "code": ["007", "1", "2", "3", "4", "5"]})
    encoder = ColumnEncoder.fit(frame, min_count=1)
    assert encoder.numeric == ("v",)
    np.testing.assert_array_equal(encoder.ordinal(frame)[:, 0], [1, 2.5, np.nan, np.nan, -30, 4])


def test_bad_text_in_a_numeric_column_is_named():
    encoder = ColumnEncoder.fit(pl.DataFrame({"v": ["1", "2"]}))
    with pytest.raises(InvalidInput, match=r"'v' is numeric, but row 2 \(rows count from 1\) is not a number"):
        encoder.transform(pl.DataFrame({"v": ["1", "cheap"]}))


def test_infinity_is_refused():
    with pytest.raises(InvalidInput, match=r"'v' holds infinity in row 2 "):
        ColumnEncoder.fit(pl.DataFrame({"v": [1.0, np.inf]}))


def test_times_are_seconds():
    frame = pl.DataFrame(
        {
            "day": [dt.date(1970, 1, 2), None],
            "moment": [dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC), None],
            "clock": [dt.time(0, 2), None],
            "length": [dt.timedelta(seconds=1.5), None],
        }
    )
    np.testing.assert_array_equal(ColumnEncoder.fit(frame).ordinal(frame)[0], [86400, 60, 120, 1.5])


def test_lost_columns_are_named_with_a_suggestion(frame):
    encoder = ColumnEncoder.fit(frame, min_count=1)
    with pytest.raises(InvalidInput, match=r"missing: 'price' \(did you mean 'Price'\?\), 'sold'"):
        encoder.transform(pl.DataFrame({"Price": [1.0], "clicks": [1], "brand": ["a"]}))


def test_order_and_extra_columns_do_not_matter(frame):
    encoder = ColumnEncoder.fit(frame, min_count=1)
    shuffled = pl.DataFrame({"id": range(6), **{name: ROWS[name] for name in reversed(ROWS)}})
    np.testing.assert_array_equal(encoder.ordinal(shuffled), encoder.ordinal(frame))


def test_arrays_go_by_position():
    array = np.array([[1.0, 5.0], [2.0, 6.0], [np.nan, 5.0]])
    encoder = ColumnEncoder.fit(array, categorical=[1], min_count=1)
    np.testing.assert_array_equal(encoder.ordinal(array), [[1, 1], [2, 2], [np.nan, 1]])
    with pytest.raises(InvalidInput, match="'x1'"):
        encoder.ordinal(array[:, :1])


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_arrays_as_wide_as_the_training_table_go_by_position(table):
    frame = table({"x1": [1.0, 2.0, 3.0], "left out": [0, 0, 0], "x0": ["a", "b", "a"]})
    encoder = ColumnEncoder.fit(frame, exclude=["left out"], min_count=1)
    array = np.array([[1.0, 0, "a"], [2.0, 0, "b"], [3.0, 0, "a"]], object)
    np.testing.assert_array_equal(encoder.ordinal(array), encoder.ordinal(frame))
    with pytest.raises(InvalidInput, match="'b'"):
        ColumnEncoder.fit(table({"x0": [1, 2], "b": [1, 2]})).ordinal(np.zeros((3, 3)))


def test_the_made_up_names_of_an_array_are_no_other_columns():
    encoder = ColumnEncoder.fit(np.arange(6.0).reshape(2, 3), exclude=[0])
    with pytest.raises(InvalidInput, match="'x2'"):
        encoder.ordinal(np.zeros((2, 2)))


def test_intervals_are_categories():
    values = pd.Series([*np.arange(20.0), None])
    frame = pd.DataFrame({"band": pd.cut(values, [-1, 4, 19])})
    encoder = ColumnEncoder.fit(frame)
    assert [vocabulary.name for vocabulary in encoder.categorical] == ["band"]
    assert encoder.ordinal(frame)[:, 0].tolist() == [2.0] * 5 + [1.0] * 15 + [0.0]


def test_categories_that_are_not_plain_values_are_refused_by_name():
    band = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([{"from": 1}, {"from": 2}]))
    with pytest.raises(InvalidInput, match="'band'"):
        ColumnEncoder.fit(pa.table({"band": band}))


def test_mixed_objects_become_text():
    array = np.array([[1, "a"], ["a", 2.5], [None, "a"]], dtype=object)
    encoder = ColumnEncoder.fit(array, min_count=1)
    assert encoder.sizes == (4, 3)
    frame = pd.DataFrame({"c": pd.Series([1, "a", None], dtype=object)})
    assert ColumnEncoder.fit(frame, min_count=1).categorical[0].items.null_count == 1


def test_numbers_in_place_of_words_are_refused():
    encoder = ColumnEncoder.fit(pd.DataFrame({"shop": ["north", "south"]}), min_count=1)
    with pytest.raises(InvalidInput, match="'shop' holds numbers, and was text when the model was trained"):
        encoder.ordinal(pd.DataFrame({"shop": [1, 2]}))
    assert encoder.ordinal(pd.DataFrame({"shop": [np.nan, np.nan]})).tolist() == [[0.0], [0.0]]
    coded = ColumnEncoder.fit(pd.DataFrame({"shop": ["1", "x"]}), min_count=1)
    assert coded.ordinal(pd.DataFrame({"shop": [1.0, 3.0]})).tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categorical": ["Brnd"]}, "which does not exist .did you mean 'brand'"),
        ({"categorical": "brand"}, "must be a list of columns"),
        ({"numeric": [9]}, "column number 9"),
        ({"categorical": ["brand"], "exclude": ["brand"]}, "named more than once"),
        ({"exclude": list(ROWS)}, "no feature columns"),
        ({"numeric": ["brand"]}, "row 1 .* is not a number"),
        ({"min_count": 0}, "min_count"),
        ({"max_categories": 1}, "max_categories"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        ColumnEncoder.fit(pl.DataFrame(ROWS), **options)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (pl.LazyFrame(ROWS), "collect"),
        (np.arange(3), "two-dimensional"),
        (pl.DataFrame({"l": [[1], [2]]}), "'l' holds"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a'"),
    ],
)
def test_unreadable_features_are_refused(features, message):
    with pytest.raises(InvalidInput, match=message):
        ColumnEncoder.fit(features)


def test_a_nested_column_named_as_category_is_refused():
    with pytest.raises(InvalidInput, match="one plain value"):
        ColumnEncoder.fit(pl.DataFrame({"l": [[1], [2]]}), categorical=["l"])


def test_an_encoder_survives_pickling(frame):
    encoder = ColumnEncoder.fit(frame, min_count=2)
    copy = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(copy.ordinal(frame), encoder.ordinal(frame))
    assert repr(copy.categorical) == repr(encoder.categorical)


def test_chunked_columns_read_as_one():
    whole = pa.table({"c": ["a", "b"] * 3, "v": [1.0, 2.0] * 3})
    parts = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 4), whole.slice(5)])
    encoder = ColumnEncoder.fit(parts, min_count=1)
    np.testing.assert_array_equal(encoder.ordinal(parts), encoder.ordinal(whole))
    empty = encoder.transform(whole.slice(0, 0))
    assert [part.shape for part in empty] == [(0, 1), (0, 1)]


def test_empty_text_is_missing_as_in_files_that_know_missing_values():
    from_csv, from_parquet = (pa.array(["a", blank, "b", "a"], pa.large_string()) for blank in ("", None))
    for fitted in (from_csv, from_parquet):
        shop = Vocabulary.fit("shop", fitted, min_count=1)
        assert shop.encode(from_csv).tolist() == shop.encode(from_parquet).tolist()
