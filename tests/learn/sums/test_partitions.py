"""Cells of columns: numbers cut at quantiles, categories with enough records, missing values apart."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import InvalidInput
from labeldp.learn.sums.partitions import FEWEST_ROWS, MOST_BINS, MOST_CATEGORIES, MOST_COLUMNS, Partitions

NUMBERS = st.lists(st.one_of(st.none(), st.integers(-5, 5), st.floats(-1e6, 1e6)), min_size=2, max_size=200).map(
    lambda values: pa.array([None if value is None else float(value) for value in values], pa.float64())
)


@given(NUMBERS)
def test_cells_of_numbers_are_in_order_and_hold_equal_numbers_together(column):
    table = pa.table({"x": column})
    partitions = Partitions.fit(table)
    codes = partitions.cells(table)[:, 0]
    assert codes.max() < partitions.sizes[0] <= MOST_BINS + 1
    assert len(partitions.words(0)) == partitions.sizes[0]
    values = column.to_numpy(zero_copy_only=False)
    present = ~np.isnan(values)
    order = np.argsort(values[present], kind="stable")
    assert (np.diff(codes[present][order].astype(int)) >= 0).all()
    for value in np.unique(values[present]):
        assert len(set(codes[values == value])) == 1
    if present.any() and not present.all():
        assert set(codes[~present]) == {partitions.sizes[0] - 1}
        assert not set(codes[present]) & set(codes[~present])
    if present.any():
        assert np.bincount(codes[present]).min() > 0  # no cell is empty
        assert (np.diff(partitions.centres[0]) > 0).all()
        assert len(partitions.centres[0]) == len(partitions.cuts[0]) + 1


def test_many_numbers_have_cells_of_about_equal_size():
    values = np.random.default_rng(0).exponential(size=6400)
    codes = Partitions.fit(values[:, None]).cells(values[:, None])[:, 0]
    np.testing.assert_allclose(np.bincount(codes), 6400 / MOST_BINS, atol=2)


def test_few_numbers_have_a_cell_each_whose_centre_they_are():
    values = np.array([3.0, 1, 2, 3, 1])[:, None]
    partitions = Partitions.fit(values)
    assert partitions.cells(values)[:, 0].tolist() == [2, 0, 1, 2, 0]
    assert partitions.centres[0].tolist() == [1, 2, 3]


def test_a_missing_number_where_there_was_none_is_in_no_cell():
    partitions = Partitions.fit(np.array([[1.0], [2.0]]))
    assert partitions.cells(np.array([[np.nan], [2.0]]))[:, 0].tolist() == [partitions.sizes[0], 1]


def test_numbers_outside_of_what_was_seen_are_in_the_outer_cells():
    partitions = Partitions.fit(np.arange(100.0)[:, None])
    assert partitions.cells(np.array([[-1e9], [1e9]]))[:, 0].tolist() == [0, partitions.sizes[0] - 1]


def test_categories_with_enough_records_have_a_cell_and_the_others_share_one():
    table = pa.table({"shop": ["a"] * 30 + ["b"] * FEWEST_ROWS + ["c"] * (FEWEST_ROWS - 1) + [None] * 25})
    partitions = Partitions.fit(table)
    assert partitions.words(0) == ("others", "a", "missing", "b")
    codes = partitions.cells(pa.table({"shop": ["a", "b", "c", None, "never seen"]}))[:, 0]
    assert codes.tolist() == [1, 3, 0, 2, 0]
    assert not partitions.ordered(0)


def test_a_column_of_many_categories_keeps_the_most_frequent():
    names = [f"{number:03}" for number in range(300) for _ in range(20 + number)]
    partitions = Partitions.fit(pa.table({"shop": names}))
    assert partitions.sizes == (MOST_CATEGORIES,)
    assert partitions.words(0)[1:3] == ("299", "298")


def test_one_category_and_constant_numbers_are_columns_too():
    table = pa.table({"x": [7.0] * 40, "shop": ["a"] * 40})
    partitions = Partitions.fit(table)
    assert partitions.sizes == (1, 2)
    assert partitions.words(0) == ("all",)
    assert partitions.cells(table).tolist() == [[0, 1]] * 40


def test_numbers_that_are_all_missing_are_one_cell():
    table = pa.table({"x": pa.nulls(5, pa.float64())})
    partitions = Partitions.fit(table)
    assert partitions.cells(table)[:, 0].tolist() == [0] * 5
    assert partitions.sizes == (1,)


def test_dates_are_numbers_in_order():
    days = [dt.date(2026, 1, 1) + dt.timedelta(number) for number in range(20)]
    table = pa.table({"day": days})
    partitions = Partitions.fit(table)
    assert partitions.ordered(0)
    assert partitions.cells(table)[:, 0].tolist() == list(range(20))


def test_two_records_suffice():
    partitions = Partitions.fit(pa.table({"x": [1.0, 2.0], "shop": ["a", "b"]}))
    assert partitions.sizes == (2, 1)  # a category of one record is a rare one
    assert partitions.cells(pa.table({"x": [2.0], "shop": ["a"]})).tolist() == [[1, 0]]


def test_wide_tables_have_coarser_cells():
    values = np.random.default_rng(0).random((300, 200))
    partitions = Partitions.fit(values)
    assert sum(partitions.sizes) <= 3200
    assert max(partitions.sizes) < MOST_BINS


def test_too_many_columns_are_refused():
    with pytest.raises(InvalidInput, match="at most 300 columns"):
        Partitions.fit(np.zeros((3, MOST_COLUMNS + 1)))


def test_the_user_says_what_is_a_category():
    table = pa.table({"x": np.arange(60) % 3})
    assert Partitions.fit(table).ordered(0)
    assert not Partitions.fit(table, categorical=["x"]).ordered(0)


def test_a_number_lies_between_the_middles_of_two_cells():
    values = np.array([0.0, 10, 20, np.nan])[:, None]
    partitions = Partitions.fit(values)
    asked = np.array([[0.0], [5.0], [20.0], [1e9], [-1e9], [np.nan]])
    _, ((low, high, share),) = partitions.read(asked)
    middles = np.append(partitions.centres[0], np.nan)
    at = (1 - share) * middles[low] + share * middles[high]
    np.testing.assert_allclose(at, [0, 5, 20, 25, -5, np.nan])


FAR_OUT = {
    "rare ones": [0.0] * 970 + [1.0] * 30,
    "rare thirds": [0.0] * 970 + [1 / 3] * 30,
    "rare zeros": [0.0] * 20 + [1.0] * 980,
    "counts": np.repeat(np.arange(20.0), [600, 250, 90, 20, *[3, 1] * 8]),
    "many numbers far out": np.concatenate([np.zeros(950), np.linspace(90, 110, 50)]),
    "one number far out": np.append(np.linspace(0, 1, 999), 1e12),
    "huge numbers": [-1e308, -1e307, 0.0, 1e200, 1e300, 1.7e308],
}


@pytest.mark.parametrize("case", FAR_OUT)
def test_the_middle_of_a_cell_lies_within_it_however_far_out(case):
    """Otherwise numbers of that cell would lie beyond its middle, and have more than the effect of their cell."""
    values = np.array(FAR_OUT[case])[:, None]
    partitions = Partitions.fit(values)
    middles = partitions.centres[0]
    assert partitions.cells(middles[:, None])[:, 0].tolist() == list(range(partitions.sizes[0]))
    _, ((low, high, share),) = partitions.read(middles[:, None])
    np.testing.assert_allclose((1 - share) * low + share * high, np.arange(len(middles)), atol=1e-9)


def test_few_numbers_are_the_middles_of_their_cells_to_the_last_bit():
    values = np.array([0.1] * 500 + [0.7] * 3 + [0.9])
    assert Partitions.fit(values[:, None]).centres[0].tolist() == [0.1, 0.7, 0.9]
