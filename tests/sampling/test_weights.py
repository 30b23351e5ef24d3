from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from table_oracles import brute_force_ratio, first_and_last_words

from labeldp.budget import exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling import AnchoredTable, ResponseTable, WeightTable, table_from_json

TOTAL = 1 << 64


def random_private_matrix(generator: np.random.Generator, rows: int, columns: int, epsilon: float) -> np.ndarray:
    """An ε-DP matrix: a base distribution, each entry raised by at most e^(ε/2) before the row is normalised."""
    base = generator.dirichlet(np.full(columns, generator.choice([0.1, 1, 10])))
    lifted = base * np.exp(epsilon / 2 * generator.uniform(0, 1, (rows, columns)))
    return lifted / lifted.sum(axis=1, keepdims=True)


settings_of_matrices = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 9), st.floats(0.001, 40))


@given(settings_of_matrices)
def test_every_private_matrix_becomes_a_proven_table_close_to_it(setting):
    seed, rows, columns, epsilon = setting
    matrix = random_private_matrix(np.random.default_rng(seed), rows, columns, epsilon)
    table = WeightTable.from_probabilities(matrix, epsilon)
    assert all(sum(row) == TOTAL for row in table.weights())
    assert brute_force_ratio(table) <= exp_lower(exact_epsilon(epsilon))
    assert np.abs(table.probabilities() - matrix).max() < 1e-14


@given(settings_of_matrices)
def test_the_worst_ratio_is_what_looking_at_every_pair_gives(setting):
    seed, rows, columns, epsilon = setting
    matrix = random_private_matrix(np.random.default_rng(seed), rows, columns, epsilon)
    table = WeightTable.from_probabilities(matrix, epsilon)
    worst = table.worst_ratio()
    assert worst.ratio == brute_force_ratio(table)
    high, low = (table.weight(row, worst.column) for row in (worst.high_row, worst.low_row))
    assert worst.ratio == Fraction(high, low)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(1, TOTAL - 1)] * 4), min_size=1, max_size=30))
def test_ratios_that_floats_cannot_tell_apart_are_ordered_exactly(quadruples):
    from labeldp.sampling._kernels import largest_ratio

    high = np.array([max(a, b) for a, b, _, _ in quadruples], np.uint64)
    low = np.array([max(1, max(a, b) - min(c, d) % 5) for a, b, c, d in quadruples], np.uint64)
    best = largest_ratio(high, low)
    ratios = [Fraction(int(a), int(b)) for a, b in zip(high, low, strict=True)]
    assert ratios[best] == max(ratios)


@given(settings_of_matrices)
def test_each_output_owns_exactly_its_range_of_words(setting):
    seed, rows, columns, epsilon = setting
    matrix = random_private_matrix(np.random.default_rng(seed), rows, columns, epsilon)
    table = WeightTable.from_probabilities(matrix, epsilon)
    for symbol in range(rows):
        symbols = np.full(columns, symbol, np.uint32)
        for words in first_and_last_words(table, symbol):
            assert table.sample(symbols, np.array(words, np.uint64)).tolist() == list(range(columns))


@st.composite
def ranges_around_a_whole_row(draw):
    """Column ranges with Σ lower <= 2^64 <= Σ upper, and any entries within them."""
    size = draw(st.integers(2, 6))
    lower = [draw(st.integers(1, TOTAL // size)) for _ in range(size)]
    upper = [draw(st.integers(max(low, -(-TOTAL // size)), TOTAL - 1)) for low in lower]
    entries = [draw(st.integers(low, high)) for low, high in zip(lower, upper, strict=True)]
    return lower, upper, entries


@given(ranges_around_a_whole_row())
def test_a_row_is_completed_within_its_ranges_however_far_it_is_off(case):
    from labeldp.sampling._kernels import spread_residual

    lower, upper, entries = (np.array([part], np.uint64) for part in case)
    spread_residual(entries, lower[0], upper[0])
    assert sum(map(int, entries[0])) == TOTAL
    assert (lower <= entries).all()
    assert (entries <= upper).all()


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 1000])
def test_equal_rows_are_possible_although_rounding_up_every_minimum_would_exceed_one(columns):
    table = WeightTable.from_probabilities(np.full((4, columns), 1 / columns), "0.001")
    assert table.worst_ratio().ratio <= exp_lower(exact_epsilon("0.001"))


@pytest.mark.parametrize("outputs", [2, 3, 10])
@pytest.mark.parametrize("epsilon", ["0.0001", "1", "12", "40"])
def test_the_tightest_matrix_of_all_is_rounded_safely(outputs, epsilon):
    ideal = ResponseTable(outputs, epsilon).probabilities()
    table = WeightTable.from_probabilities(ideal, epsilon)
    assert table.worst_ratio().ratio <= exp_lower(exact_epsilon(epsilon))


def test_a_matrix_that_is_not_private_is_refused_with_the_pair():
    matrix = [[0.9, 0.1], [0.5, 0.5]]
    with pytest.raises(PrivacyRefused, match=r"output 1 has probability 0\.5 from symbol 1 and 0\.1 from symbol 0"):
        WeightTable.from_probabilities(matrix, 1)


def test_epsilon_one_percent_too_small_is_refused():
    matrix = ResponseTable(4, 1).probabilities()
    with pytest.raises(PrivacyRefused):
        WeightTable.from_probabilities(matrix, "0.99")


def test_rows_that_differ_by_more_than_so_small_an_epsilon_allows_are_refused():
    matrix = [[0.5, 0.5], [0.5 + 1.2e-9, 0.5 - 1.2e-9]]
    with pytest.raises(PrivacyRefused, match="larger epsilon"):
        WeightTable.from_probabilities(matrix, 1e-9)


def test_solver_noise_below_the_tolerance_is_repaired():
    matrix = np.array([[1 - 1e-12, 1e-12], [1 - 1e-15, 1e-15]])
    table = WeightTable.from_probabilities(matrix, 1)
    assert table.worst_ratio().ratio <= exp_lower(exact_epsilon(1))


@pytest.mark.parametrize("matrix", [[[0.5, 0.4]], [[math.nan, 1.0]], [[-0.1, 1.1]], [1.0], [[]], [[math.inf, 0.0]]])
def test_what_is_no_matrix_of_probabilities_is_refused(matrix):
    with pytest.raises(InvalidInput):
        WeightTable.from_probabilities(matrix, 1)


@pytest.mark.parametrize(
    "weights",
    [
        [[TOTAL // 2, TOTAL // 2 - 1]],
        [[TOTAL, 0]],
        [[TOTAL + 1, -1]],
        [[TOTAL // 2, TOTAL // 2], [TOTAL]],
        [[TOTAL - 1]],
        np.array([[5]], np.uint64),
        [[0.5, 0.5]],
        [],
        np.array([[2**63, 2**63], [2**63, 2**63 + 1]], np.uint64),
    ],
)
def test_weights_that_are_no_distribution_are_refused(weights):
    with pytest.raises(InvalidInput):
        WeightTable(weights)


def test_rows_that_sum_to_a_multiple_of_two_to_the_64_are_refused():
    with pytest.raises(InvalidInput, match="sum to"):
        WeightTable(np.array([[2**63, 2**63, 2**63, 2**63]], np.uint64))


@given(settings_of_matrices)
def test_integers_survive_json(setting):
    seed, rows, columns, epsilon = setting
    matrix = random_private_matrix(np.random.default_rng(seed), rows, columns, epsilon)
    table = WeightTable.from_probabilities(matrix, epsilon)
    again = table_from_json(json.loads(json.dumps(table.to_json())))
    assert again == table
    assert again.weights() == table.weights()


def test_tampered_json_is_refused():
    data = WeightTable.from_probabilities([[0.5, 0.5], [0.25, 0.75]], 1).to_json()
    data["weights"][1][0] = str(int(data["weights"][1][0]) + 1)
    with pytest.raises(InvalidInput, match="row 1"):
        table_from_json(data)


@pytest.mark.parametrize("weights", [None, [], [[]], ["12"], [["1"], ["1", "2"]], [[1, 2]], [["0", str(TOTAL)]]])
def test_malformed_json_is_refused(weights):
    with pytest.raises(InvalidInput):
        table_from_json({"kind": "weights", "weights": weights})


def test_too_many_entries_are_refused_before_memory_is_taken():
    with pytest.raises(InvalidInput, match="20,000,000"):
        WeightTable.from_probabilities(np.broadcast_to(1.0, (20_000_001, 1)), 1)


@given(
    seed=st.integers(0, 2**32 - 1),
    upper=arrays(np.uint64, 12, elements=st.integers(0, TOTAL - 1)),
    epsilon=st.floats(0.01, 20),
)
def test_a_mixture_of_rows_is_as_private_as_the_rows(seed, upper, epsilon):
    generator = np.random.default_rng(seed)
    inner = WeightTable.from_probabilities(random_private_matrix(generator, 4, 5, epsilon), epsilon)
    anchored = AnchoredTable(generator.integers(0, 3, 12), upper, inner)
    assert all(sum(row) == 1 << anchored.scale_bits for row in anchored.weights())
    assert brute_force_ratio(anchored) <= anchored.worst_ratio().ratio <= exp_lower(exact_epsilon(epsilon))
    exact_rows = [[w / 2**128 for w in row] for row in anchored.weights()]
    assert np.abs(anchored.probabilities() - exact_rows).max() < 1e-15
    assert table_from_json(json.loads(json.dumps(anchored.to_json()))) == anchored


def test_rounding_takes_the_upper_anchor_for_words_below_the_weight():
    inner = WeightTable([[TOTAL - 1, 1], [1, TOTAL - 1]])
    table = AnchoredTable([0, 0, 1], [0, 10, 0], inner)
    symbols = np.array([0, 1, 1, 2], np.uint32)
    rounding = np.array([0, 9, 10, 0], np.uint64)
    assert table.sample(symbols, np.full(4, 5, np.uint64), rounding).tolist() == [0, 1, 0, 1]
    assert table.weight(1, 1) == (TOTAL - 10) * 1 + 10 * (TOTAL - 1)


def test_anchors_outside_of_the_inner_table_are_refused():
    inner = WeightTable([[TOTAL // 2, TOTAL // 2]] * 2)
    with pytest.raises(InvalidInput, match="anchor"):
        AnchoredTable([1], [1], inner)
    with pytest.raises(InvalidInput):
        AnchoredTable([], [], inner)
    with pytest.raises(InvalidInput, match="rounding=True"):
        AnchoredTable([1], [0], inner).sample(np.zeros(1, np.uint32), np.zeros(1, np.uint64))


@pytest.mark.parametrize("change", [{"lower_anchor": [3]}, {"lower_anchor": None}, {"inner": 3}, {"upper_weight": [1]}])
def test_tampered_anchored_json_is_refused(change):
    table = AnchoredTable([0], [7], WeightTable([[TOTAL // 2, TOTAL // 2]] * 2))
    with pytest.raises(InvalidInput):
        table_from_json(table.to_json() | change)
