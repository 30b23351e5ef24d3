from __future__ import annotations

import json
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.budget import exact_epsilon, exp_lower, exp_upper
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling import ResponseTable, table_from_json

TOTAL = 1 << 64

epsilons = st.fractions(Fraction(1, 1000), 40, max_denominator=10_000)


@settings(deadline=None)
@given(outputs=st.integers(2, 10_000), epsilon=epsilons)
def test_the_guarantee_holds_exactly_and_nothing_is_given_away(outputs, epsilon):
    table = ResponseTable(outputs, epsilon)
    assert table.keep + (outputs - 1) * table.other == TOTAL
    assert table.keep <= exp_lower(epsilon) * table.other
    # with one unit less for the others the ratio would be too large: the rounding is as small as it can be
    assert table.keep + (outputs - 1) > exp_lower(epsilon) * (table.other - 1)


@settings(deadline=None)
@given(outputs=st.integers(2, 6), epsilon=epsilons, seed=st.integers(0, 99))
def test_each_output_owns_as_many_words_as_its_weight(outputs, epsilon, seed):
    table = ResponseTable(outputs, epsilon)
    symbol = seed % outputs
    start, seen = 0, {}
    for length in [table.keep] + [table.other] * (outputs - 1):
        words = np.array([start, start + length - 1], dtype=np.uint64)
        first, last = table.sample(np.full(2, symbol, np.uint32), words)
        assert first == last
        seen[int(first)] = length
        start += length
    assert start == TOTAL
    assert seen == {code: table.weight(symbol, code) for code in range(outputs)}


def test_one_output_keeps_the_symbol_and_has_no_ratio():
    table = ResponseTable(1, 1)
    assert table.weights() == [[TOTAL]]
    assert table.worst_ratio().ratio == 1
    assert table.probabilities().tolist() == [[1.0]]
    assert table.sample(np.zeros(3, np.uint32), np.array([0, 1, TOTAL - 1], np.uint64)).tolist() == [0, 0, 0]


def test_a_tiny_epsilon_with_a_million_outputs_is_refused():
    with pytest.raises(PrivacyRefused, match="fewer outputs or a larger epsilon"):
        ResponseTable(1_000_000, 1e-9)


def test_the_largest_epsilon_still_has_a_private_table():
    table = ResponseTable(10, 40)
    assert table.other >= 1
    assert table.worst_ratio().ratio <= exp_lower(exact_epsilon(40))
    # 64 bits hold e^40 to one part in a hundred, rounded in the safe direction
    assert table.worst_ratio().ratio >= Fraction(98, 100) * exp_upper(exact_epsilon(40))


@settings(deadline=None)
@given(outputs=st.integers(1, 1000), epsilon=epsilons)
def test_integers_survive_json(outputs, epsilon):
    table = ResponseTable(outputs, epsilon)
    again = table_from_json(json.loads(json.dumps(table.to_json())))
    assert again == table
    assert (again.keep, again.other) == (table.keep, table.other)


def test_equality_hash_and_pickle_follow_the_integers():
    table = ResponseTable(5, 1)
    assert pickle.loads(pickle.dumps(table)) == table
    assert hash(ResponseTable(5, 1)) == hash(table)
    assert ResponseTable(5, "1.0000000001") != table
    assert ResponseTable(6, 1).canonical() != table.canonical()


@pytest.mark.parametrize(
    "change",
    [
        {"keep": "1"},
        {"outputs": 4},
        {"outputs": True},
        {"outputs": "5"},
        {"other": "-3"},
        {"other": 2745753236425425926},
        {"other": "1_0"},
        {"keep": None},
    ],
)
def test_tampered_descriptions_are_refused(change):
    with pytest.raises(InvalidInput):
        table_from_json(ResponseTable(5, 1).to_json() | change)


@pytest.mark.parametrize("data", [[], "response", {"kind": "other"}, {"kind": ["response"]}, {}])
def test_what_is_no_table_is_refused(data):
    with pytest.raises(InvalidInput):
        table_from_json(data)


def test_weights_that_favour_other_outputs_are_refused():
    with pytest.raises(InvalidInput, match="outside <= inside"):
        ResponseTable.from_weights(2, 1, TOTAL // 2 - 1, TOTAL // 2 + 1)


def test_probabilities_are_the_integers_over_two_to_the_64():
    table = ResponseTable(3, "0.5")
    expected = [[table.weight(i, j) / TOTAL for j in range(3)] for i in range(3)]
    assert table.probabilities().tolist() == expected
    assert table.probabilities([2, 0]).tolist() == [expected[2], expected[0]]


@pytest.mark.parametrize(
    ("symbols", "words"),
    [
        (np.array([5], np.uint32), np.array([0], np.uint64)),
        (np.array([0], np.int64), np.array([0], np.uint64)),
        (np.array([0], np.uint32), np.array([0], np.int64)),
        (np.array([0, 1], np.uint32), np.array([0], np.uint64)),
    ],
)
def test_draws_of_the_wrong_kind_or_outside_of_the_table_are_refused(symbols, words):
    with pytest.raises(InvalidInput):
        ResponseTable(5, 1).sample(symbols, words)


@pytest.mark.parametrize(("symbol", "code"), [(-1, 0), (0, 5), (5, 0)])
def test_weights_outside_of_the_table_are_refused(symbol, code):
    with pytest.raises(InvalidInput):
        ResponseTable(5, 1).weight(symbol, code)


def test_too_large_a_matrix_is_refused_but_rows_of_it_are_not():
    table = ResponseTable(5_000, 1)
    with pytest.raises(InvalidInput, match="20,000,000"):
        table.probabilities()
    assert table.probabilities([17]).sum() == pytest.approx(1)
