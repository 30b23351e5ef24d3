"""The exact proof: true tables are proven, and the smallest planted error is refuted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.budget import exact_epsilon, exp_lower, exp_upper
from labeldp.errors import PrivacyRefused
from labeldp.mechanisms import verify
from labeldp.mechanisms.proof import log_upper
from labeldp.sampling import ResponseTable, ShiftTable, Table, WeightTable
from labeldp.sampling.noise_tables import laplace_profile


@dataclass
class Claimed:
    """A table that says what its ε is."""

    table: Table
    epsilon_exact: Fraction


@given(outputs=st.integers(1, 50), epsilon=st.fractions(Fraction(1, 1000), 40, max_denominator=1000))
def test_exact_tables_are_proven_and_the_proof_is_tight(outputs, epsilon):
    proof = verify(Claimed(ResponseTable(outputs, epsilon), epsilon))
    assert proof.holds
    assert proof.require() is proof
    assert proof.epsilon_proven <= float(epsilon) * (1 + 1e-15)


@settings(deadline=None)
@given(st.integers(0, 5), st.integers(0, 3), st.sampled_from(["0.1", "1", "10"]))
def test_one_entry_off_by_one_part_in_2_to_the_40_is_refuted(row, column, epsilon):
    """The planted bug, in the wrong direction: raised where it is largest of its column already."""
    table = WeightTable.from_probabilities(ResponseTable(4, epsilon).probabilities()[[0, 1, 2, 3, 0, 1]], epsilon)
    weights = [list(weights) for weights in table.weights()]
    column = row % 4
    step = weights[row][column] >> 40
    weights[row][column] += step
    weights[row][(column + 1) % 4] -= step
    proof = verify(Claimed(WeightTable(weights), exact_epsilon(epsilon)))
    assert not proof.holds
    assert weights[proof.high_symbol][proof.output] * proof.ratio.denominator == (
        weights[proof.low_symbol][proof.output] * proof.ratio.numerator
    )


@pytest.mark.parametrize("epsilon", ["0.001", "0.5", "1", "8", "20"])
def test_epsilon_one_percent_too_large_is_refuted(epsilon):
    planted = ResponseTable(5, exact_epsilon(epsilon) * Fraction(101, 100))
    proof = verify(Claimed(planted, exact_epsilon(epsilon)))
    assert not proof.holds
    with pytest.raises(PrivacyRefused, match="Nothing may be released"):
        proof.require()


def test_noise_is_proven_and_refuted_too():
    table = ShiftTable.from_profile(laplace_profile(100, 1.0, window=20), 1, cells=100, window=20)
    assert verify(Claimed(table, exact_epsilon(1))).holds
    assert not verify(Claimed(table, exact_epsilon("0.99"))).holds


def test_mechanisms_without_integers_are_refused_with_the_reason():
    with pytest.raises(PrivacyRefused, match="outputs depend on floats"):
        verify(object())


@given(st.fractions(1, 2**64, max_denominator=2**64))
def test_the_logarithm_is_rounded_up_to_the_next_float(ratio):
    bound = log_upper(ratio)
    assert exp_upper(Fraction(bound), 256) >= ratio
    if ratio > 1:
        below = Fraction(bound) * (1 - Fraction(1, 2**52))
        assert exp_lower(below, 256) < ratio


def test_the_proof_reads_as_a_sentence():
    text = str(verify(Claimed(ResponseTable(3, 1), exact_epsilon(1))))
    assert text.startswith("proven: claimed epsilon = 1, worst ratio = 2.7182818284")
    assert f"(rounded up; exactly {ResponseTable(3, 1).worst_ratio()[0]}) = e^" in text
    assert "NOT private" in str(verify(Claimed(ResponseTable(3, 2), exact_epsilon(1))))
