from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_oracles import brute_force_ratio, first_and_last_words

from labeldp.budget import exact_epsilon, exp_lower
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling import ShiftTable, WeightTable, table_from_json
from labeldp.sampling.noise_tables import laplace_profile, staircase_profile

TOTAL = 1 << 64


@st.composite
def shift_settings(draw, most_cells=30):
    cells = draw(st.integers(2, most_cells))
    window = draw(st.integers(0, 40))
    epsilon = draw(st.floats(0.01, 40).map(lambda e: round(e, 4)))
    steps = draw(st.one_of(st.none(), st.integers(1, cells - 1)))
    return cells, window, epsilon, steps


def build(cells: int, window: int, epsilon: float, steps: int | None) -> ShiftTable:
    if steps is None:
        profile = laplace_profile(cells, epsilon, window=window)
    else:
        profile = staircase_profile(cells, epsilon, steps, window=window)
    return ShiftTable.from_profile(profile, epsilon, cells=cells, window=window)


def ideal_noise(cells: int, epsilon: float, steps: int | None, distance: int) -> float:
    """The definition of the noise, normalised over many terms: an oracle for the profiles and their tails."""
    span = cells - 1

    def mass(t: int) -> float:
        if steps is None:
            return math.exp(-epsilon * t / span)
        return math.exp(-epsilon * (t // span + (t % span >= steps)))

    far = distance + span * math.ceil(60 / epsilon)
    return math.fsum(mass(t) for t in range(distance, far)) / (2 * math.fsum(map(mass, range(1, far))) + mass(0))


@given(shift_settings())
def test_every_table_of_noise_is_private_by_looking_at_every_pair(setting):
    table = build(*setting)
    assert all(sum(row) == TOTAL for row in table.weights())
    assert brute_force_ratio(table) <= exp_lower(exact_epsilon(setting[2]))


@given(shift_settings())
def test_the_sliding_window_finds_the_worst_ratio(setting):
    table = build(*setting)
    worst = table.worst_ratio()
    assert worst.ratio == brute_force_ratio(table)
    high, low = (table.weight(row, worst.column) for row in (worst.high_row, worst.low_row))
    assert Fraction(high, low) == worst.ratio


@given(shift_settings(most_cells=8), st.integers(0, 2**32 - 1))
def test_the_worst_ratio_is_right_for_noise_that_is_not_unimodal_too(setting, seed):
    cells, window, *_ = setting
    shares = np.random.default_rng(seed).integers(1, 2**40, cells + window, dtype=np.uint64)
    shares[-1] = (TOTAL - 2 * int(shares[:-1].sum()) + int(shares[0])) // 2
    shares[0] = TOTAL - 2 * sum(map(int, shares[1:]))
    table = ShiftTable(shares, cells=cells, window=window)
    assert table.worst_ratio().ratio == brute_force_ratio(table)


@given(shift_settings(most_cells=12))
def test_the_integers_follow_the_definition_of_the_noise(setting):
    cells, window, epsilon, steps = setting
    table = build(*setting)
    reach = cells - 1 + window
    for distance in {0, 1, reach // 2, reach}:
        tail = sum(int(w) for w in table.magnitudes[distance:]) / TOTAL
        assert tail == pytest.approx(ideal_noise(cells, epsilon, steps, distance), rel=1e-9, abs=1e-15)


@given(shift_settings(), st.integers(0, 2**32 - 1))
def test_sampling_agrees_with_bisection_of_the_whole_matrix(setting, seed):
    table = build(*setting)
    whole = WeightTable(table.weights())
    generator = np.random.default_rng(seed)
    symbols = generator.integers(0, table.inputs, 2000).astype(np.uint32)
    words = generator.integers(0, TOTAL, 2000, dtype=np.uint64)
    words[:2] = 0, TOTAL - 1
    assert np.array_equal(table.sample(symbols, words), whole.sample(symbols, words))
    assert np.allclose(table.probabilities(), whole.probabilities(), rtol=1e-15, atol=0)


@given(shift_settings())
def test_both_ends_of_every_range_of_words_are_sampled_right(setting):
    table = build(*setting)
    for symbol in (0, table.inputs - 1):
        symbols = np.full(table.outputs, symbol, np.uint32)
        for words in first_and_last_words(table, symbol):
            assert table.sample(symbols, np.array(words, np.uint64)).tolist() == list(range(table.outputs))


@pytest.mark.parametrize(("steps", "window"), [(None, 0), (None, 500_000), (1, 0), (300_000, 500_000), (999_999, 0)])
def test_a_million_cells_are_private_too(steps, window):
    table = build(1_000_000, window, 1.0, steps)
    bound = exp_lower(exact_epsilon(1))
    assert bound * (1 - Fraction(1, 10**12)) < table.worst_ratio().ratio <= bound


def test_clipping_is_the_window_of_zero():
    table = build(5, 0, 1.0, None)
    assert table.outputs == table.inputs == 5
    # the lower end collects all noise that leads below
    assert table.weight(2, 0) == sum(int(w) for w in table.magnitudes[2:])


def test_integers_survive_json():
    table = build(50, 7, 3.0, 4)
    again = table_from_json(json.loads(json.dumps(table.to_json())))
    assert again == table
    assert again.magnitudes.tolist() == table.magnitudes.tolist()


def test_an_entry_off_by_one_part_in_2_to_the_40_is_seen():
    table = build(20, 0, 1.0, None)
    assert table.worst_ratio().ratio <= exp_lower(exact_epsilon(1))
    weights = table.magnitudes.copy()
    step = int(weights[-1]) >> 40
    weights[-1] -= np.uint64(step)
    weights[1] += np.uint64(step)
    assert ShiftTable(weights, cells=20).worst_ratio().ratio > exp_lower(exact_epsilon(1))


def test_a_profile_with_more_epsilon_than_claimed_is_refused():
    with pytest.raises(PrivacyRefused, match=r"not 0\.99-DP"):
        ShiftTable.from_profile(laplace_profile(10, 1.0), "0.99", cells=10)


def test_too_small_an_epsilon_for_so_many_cells_is_refused():
    with pytest.raises(PrivacyRefused, match="fewer cells"):
        ShiftTable.from_profile(laplace_profile(1_000_000, 1e-9), 1e-9, cells=1_000_000)


@pytest.mark.parametrize(
    "masses", [[1.0, 2.0, 3.0], [1.0], [0.0, 0.0, 0.0], [1.0, math.nan, 1.0], [1.0, -1.0, 1.0], [math.inf, 1.0, 1.0]]
)
def test_what_is_no_profile_is_refused(masses):
    with pytest.raises(InvalidInput):
        ShiftTable.from_profile(masses, 1, cells=3)


@pytest.mark.parametrize(("cells", "window"), [(1, 0), (3, -1), (30_000_000, 0)])
def test_impossible_sizes_are_refused(cells, window):
    with pytest.raises(InvalidInput):
        ShiftTable.from_profile([1.0], 1, cells=cells, window=window)


@pytest.mark.parametrize("change", [{"cells": 6}, {"cells": 1}, {"window": -1}, {"window": 1}, {"weights": "12"}])
def test_tampered_json_is_refused(change):
    with pytest.raises(InvalidInput):
        table_from_json(build(5, 0, 1.0, None).to_json() | change)


def test_weights_that_do_not_sum_to_two_to_the_64_are_refused():
    data = build(5, 0, 1.0, None).to_json()
    data["weights"][2] = str(int(data["weights"][2]) + 1)
    with pytest.raises(InvalidInput, match="sum to"):
        table_from_json(data)
    data["weights"][2] = "0"
    with pytest.raises(InvalidInput):
        table_from_json(data)


@pytest.mark.parametrize("steps", [0, 5])
def test_a_staircase_needs_its_parameter_within_the_sensitivity(steps):
    with pytest.raises(InvalidInput, match="1 … 4"):
        staircase_profile(5, 1.0, steps)
