"""A sliding window in integers: exact ε, every word accounted for, and randomized response as the smallest window."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labeldp.budget import exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling import ResponseTable, WindowTable, table_from_json

TOTAL = 1 << 64

epsilons = st.fractions(Fraction(1, 1000), 40, max_denominator=10_000)


@settings(deadline=None)
@given(inputs=st.integers(2, 10_000), window=st.integers(1, 3_000), epsilon=epsilons)
def test_the_guarantee_holds_exactly_and_almost_nothing_is_given_away(inputs, window, epsilon):
    table = WindowTable(inputs, window, epsilon)
    spare = TOTAL - window * table.inside - (inputs - 1) * table.outside
    assert 0 <= spare < window
    assert table.worst_ratio().ratio == Fraction(table.inside + (spare > 0), table.outside) <= exp_lower(epsilon)
    # one unit less for the codes outside would be too little for the last code of the window
    assert TOTAL + window - 1 > (window * exp_lower(epsilon) + inputs - 1) * (table.outside - 1)


@settings(deadline=None)
@given(inputs=st.integers(1, 7), window=st.integers(1, 7), epsilon=epsilons)
def test_the_worst_ratio_is_that_of_all_pairs_and_rows_sum_to_all_words(inputs, window, epsilon):
    table = WindowTable(inputs, window, epsilon)
    rows = table.weights()
    assert all(sum(row) == TOTAL for row in rows)
    assert table.worst_ratio().ratio == max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))


@settings(deadline=None)
@given(inputs=st.integers(1, 6), window=st.integers(1, 6), epsilon=epsilons, seed=st.integers(0, 99))
@example(inputs=1, window=3, epsilon=Fraction(1), seed=0)
def test_each_output_owns_as_many_words_as_its_weight(inputs, window, epsilon, seed):
    table = WindowTable(inputs, window, epsilon)
    symbol = seed % inputs
    inside = [code for code in range(table.outputs) if symbol <= code < symbol + window]
    outside = [code for code in range(table.outputs) if code not in inside]
    start = 0
    for code in inside + outside:
        length = table.weight(symbol, code)
        words = np.array([start, start + length - 1], dtype=np.uint64)
        assert table.sample(np.full(2, symbol, np.uint32), words).tolist() == [code, code]
        start += length
    assert start == TOTAL


def test_a_window_of_one_code_is_randomized_response():
    for outputs, epsilon in ((2, 1), (5, "0.3"), (1000, 7), (1, 1)):
        window, response = WindowTable(outputs, 1, epsilon), ResponseTable(outputs, epsilon)
        assert (window.inside, window.outside) == (response.keep, response.other)
        words = np.random.default_rng(0).integers(0, TOTAL, 1000, dtype=np.uint64)
        symbols = (np.arange(1000) % outputs).astype(np.uint32)
        assert (window.sample(symbols, words) == response.sample(symbols, words)).all()


def test_one_symbol_reveals_nothing_and_uses_the_whole_window():
    table = WindowTable(1, 3, 1)
    assert table.worst_ratio().ratio == 1
    assert sum(table.weights()[0]) == TOTAL
    assert max(table.weights()[0]) - min(table.weights()[0]) <= 1


def test_probabilities_are_the_integers_over_two_to_the_64():
    table = WindowTable(4, 3, "0.5")
    assert table.probabilities().tolist() == [[weight / TOTAL for weight in row] for row in table.weights()]
    assert table.probabilities([3, 0]).tolist() == table.probabilities()[[3, 0]].tolist()


def test_a_tiny_epsilon_with_a_million_outputs_is_refused():
    with pytest.raises(PrivacyRefused, match="fewer outputs or a larger epsilon"):
        WindowTable(1_000_000, 1, 1e-9)


@pytest.mark.parametrize(("inputs", "window"), [(0, 1), (1, 0), (-1, 3), (1 << 31, (1 << 31) + 1)])
def test_impossible_sizes_are_refused(inputs, window):
    with pytest.raises(InvalidInput, match="a table needs"):
        WindowTable(inputs, window, 1)


@settings(deadline=None)
@given(inputs=st.integers(1, 1000), window=st.integers(1, 1000), epsilon=epsilons)
def test_integers_survive_json(inputs, window, epsilon):
    table = WindowTable(inputs, window, epsilon)
    again = table_from_json(json.loads(json.dumps(table.to_json())))
    assert again == table
    assert (again.inside, again.outside, again.window) == (table.inside, table.outside, table.window)


def test_equality_hash_and_pickle_follow_the_integers():
    table = WindowTable(5, 3, 1)
    assert pickle.loads(pickle.dumps(table)) == table
    assert hash(WindowTable(5, 3, 1)) == hash(table)
    assert WindowTable(5, 3, "1.0000000001") != table
    assert WindowTable(6, 2, 1).canonical() != table.canonical()


@pytest.mark.parametrize(
    "change",
    [
        {"inside": "1"},
        {"inputs": 4},
        {"inputs": True},
        {"window": 0},
        {"window": 2},
        {"window": "3"},
        {"outside": "-3"},
        {"outside": 7},
        {"outside": "0"},
        {"inside": None},
    ],
)
def test_tampered_descriptions_are_refused(change):
    with pytest.raises(InvalidInput):
        table_from_json(WindowTable(5, 3, 1).to_json() | change)


def test_weights_that_favour_outputs_far_from_the_label_are_refused():
    with pytest.raises(InvalidInput, match="outside <= inside"):
        WindowTable.from_weights(2, 2, TOTAL // 4, TOTAL // 2)
    with pytest.raises(InvalidInput, match="outside = 0 for one symbol"):
        WindowTable.from_weights(1, 2, TOTAL // 2, 5)


def test_a_planted_excess_of_one_percent_is_seen_by_the_ratio():
    assert WindowTable(5, 3, Fraction(101, 100)).worst_ratio().ratio > exp_lower(exact_epsilon(1))


@settings(deadline=None)
@given(
    inputs=st.integers(1, 12),
    window=st.integers(1, 12),
    epsilon=st.fractions(Fraction(1, 20), 8, max_denominator=100),
    seed=st.integers(0, 2**32 - 1),
)
def test_debiased_values_have_the_right_means_and_the_least_variance(inputs, window, epsilon, seed):
    table = WindowTable(inputs, window, epsilon)
    means = np.random.default_rng(seed).normal(size=inputs).cumsum() * 100
    values, matrix = table.debiased(means), table.probabilities()
    size = np.abs(values).max() + 1
    assert np.abs(matrix @ values - means).max() < 1e-9 * size
    weight = np.sqrt(matrix.mean(axis=0))  # another way to the same values: least squares
    solved = np.linalg.lstsq(matrix / weight, means, rcond=None)[0] / weight
    assert np.abs(values - solved).max() < 1e-6 * size
