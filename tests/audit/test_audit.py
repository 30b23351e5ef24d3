from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp import audit
from labeldp.budget import exact_epsilon, exp_lower, exp_upper
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.sampling import IdDigests, KeyedRandomness, ResponseTable, ShiftTable, Table, WeightTable
from labeldp.sampling.noise import laplace_profile

TOTAL = 1 << 64


@dataclass
class Claimed:
    """A table that says what its ε is."""

    table: Table
    epsilon_exact: Fraction


class SeededResponse:
    """Randomized response whose draws follow from a seed, through the sampler that releases use."""

    def __init__(self, outputs: int, epsilon: str, seed: int) -> None:
        self.table_of_draws = ResponseTable(outputs, epsilon)
        self.source = KeyedRandomness(seed.to_bytes(32, "big"), bytes(16))
        self.drawn = 0

    def __call__(self, labels):
        ids = np.arange(self.drawn, self.drawn + labels.size, dtype=np.uint64)
        self.drawn += labels.size
        records = IdDigests(np.zeros(labels.size, np.uint32), ids, "int", distinct=True)
        symbols = labels.astype(np.uint32)
        words, _ = self.source.draw(symbols, ids=records, digest=b"audit")
        return self.table_of_draws.sample(symbols, words)


# the exact proof


@given(outputs=st.integers(1, 50), epsilon=st.fractions(Fraction(1, 1000), 40, max_denominator=1000))
def test_exact_tables_are_proven_and_the_proof_is_tight(outputs, epsilon):
    proof = audit.verify(Claimed(ResponseTable(outputs, epsilon), epsilon))
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
    proof = audit.verify(Claimed(WeightTable(weights), exact_epsilon(epsilon)))
    assert not proof.holds
    assert weights[proof.high_symbol][proof.output] * proof.ratio.denominator == (
        weights[proof.low_symbol][proof.output] * proof.ratio.numerator
    )


@pytest.mark.parametrize("epsilon", ["0.001", "0.5", "1", "8", "20"])
def test_epsilon_one_percent_too_large_is_refuted(epsilon):
    planted = ResponseTable(5, exact_epsilon(epsilon) * Fraction(101, 100))
    proof = audit.verify(Claimed(planted, exact_epsilon(epsilon)))
    assert not proof.holds
    with pytest.raises(PrivacyRefused, match="Nothing may be released"):
        proof.require()


def test_noise_is_proven_and_refuted_too():
    table = ShiftTable.from_profile(laplace_profile(100, 1.0, window=20), 1, cells=100, window=20)
    assert audit.verify(Claimed(table, exact_epsilon(1))).holds
    assert not audit.verify(Claimed(table, exact_epsilon("0.99"))).holds


def test_mechanisms_without_integers_are_refused_with_the_reason():
    with pytest.raises(PrivacyRefused, match="decided by floats"):
        audit.verify(object())


@given(st.fractions(1, 2**64, max_denominator=2**64))
def test_the_logarithm_is_rounded_up_to_the_next_float(ratio):
    bound = audit.log_upper(ratio)
    assert exp_upper(Fraction(bound), 256) >= ratio
    if ratio > 1:
        below = Fraction(bound) * (1 - Fraction(1, 2**52))
        assert exp_lower(below, 256) < ratio


def test_the_proof_reads_as_a_sentence():
    text = str(audit.verify(Claimed(ResponseTable(3, 1), exact_epsilon(1))))
    assert text.startswith("proven: claimed epsilon = 1, worst ratio = ")
    assert "NOT private" in str(audit.verify(Claimed(ResponseTable(3, 2), exact_epsilon(1))))


# the statistical audit


def accusations(outputs: int, trials: int, samples: int, confidence: float) -> int:
    return sum(
        audit.measure(
            SeededResponse(outputs, "1", seed),
            range(outputs),
            epsilon=1,
            samples=samples,
            confidence=confidence,
            seed=seed,
        ).accused
        for seed in range(trials)
    )


def test_a_correct_randomizer_is_accused_no_more_often_than_the_confidence_allows():
    # more than 15 of 100 have probability below 1e-4 at an error rate of 5 %; seeds are fixed
    assert accusations(outputs=4, trials=100, samples=20_000, confidence=0.95) <= 15


@pytest.mark.slow
def test_in_a_thousand_trials_of_correct_randomizers_at_most_77_accusations_at_95_percent():
    assert accusations(outputs=10, trials=1000, samples=100_000, confidence=0.95) <= 77


@pytest.mark.slow
def test_in_a_thousand_trials_of_correct_randomizers_no_accusation_at_one_in_a_million():
    assert accusations(outputs=10, trials=1000, samples=100_000, confidence=1 - 1e-6) == 0


@pytest.mark.parametrize("outputs", [2, 6, 10])
def test_an_epsilon_two_percent_too_large_is_caught_with_ten_million_samples(outputs):
    found = audit.measure(SeededResponse(outputs, "1.02", 5), range(outputs), epsilon=1, samples=10_000_000, seed=1)
    assert found.accused
    assert found.epsilon_lower <= 1.02
    with pytest.raises(PrivacyRefused, match="REFUTED"):
        found.require()


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [2, 10])
def test_it_is_caught_with_each_of_a_hundred_seeds(outputs):
    caught = [
        audit.measure(
            SeededResponse(outputs, "1.02", seed), range(outputs), epsilon=1, samples=10_000_000, seed=seed
        ).accused
        for seed in range(100)
    ]
    assert all(caught)


def test_the_smallest_excess_is_what_is_found_almost_always():
    outputs, samples = 3, 200_000
    high, low = ResponseTable(outputs, 1).probabilities()[0, :2]
    excess = audit.smallest_excess(high, low, samples=samples)
    planted = str(round(1 + excess, 6))
    found = [
        audit.measure(SeededResponse(outputs, planted, seed), range(outputs), epsilon=1, samples=samples, seed=seed)
        for seed in range(40)
    ]
    assert sum(each.accused for each in found) >= 36
    assert all(each.smallest_excess == pytest.approx(excess, rel=0.1) for each in found)
    # and a tenth of it is not found: the figure says something
    weaker = str(round(1 + excess / 10, 6))
    found = [
        audit.measure(SeededResponse(outputs, weaker, seed), range(outputs), epsilon=1, samples=samples, seed=seed)
        for seed in range(20)
    ]
    assert sum(each.accused for each in found) <= 10


def test_continuous_randomizers_are_grouped_into_intervals():
    generator = np.random.default_rng(3)
    found = audit.measure(lambda labels: labels + generator.laplace(0, 1, labels.size), [0, 1], samples=400_000, seed=3)
    assert 0.9 < found.epsilon_lower <= 1
    assert found.epsilon_claimed is None
    assert not found.accused


def test_outputs_that_only_one_label_gives_are_found():
    generator = np.random.default_rng(3)

    def leaky(labels):
        return np.where(generator.random(labels.size) < 0.01, labels, -1)

    found = audit.measure(leaky, [0, 1], epsilon=1, samples=100_000)
    assert found.accused
    assert found.epsilon_lower > 4


def test_the_survey_alone_finds_what_every_pair_shows():
    """Its bounds hold at once: on exact expectations they stay below the truth and approach it."""
    from labeldp.audit.measurement import _survey

    table = ResponseTable(3, 1)
    bounds = []
    for size in (10**3, 10**5, 10**7):
        counts = np.round(table.probabilities() * size).astype(np.int64)
        bounds.append(_survey(counts, size, 0.05).bound)
    assert bounds == sorted(bounds)
    assert 0.99 < bounds[-1] < 1


def test_the_bound_of_the_trial_covers_the_truth_as_often_as_it_says():
    from labeldp.audit.measurement import _ratio_bound

    generator = np.random.default_rng(7)
    means, rates = (300.0, 700.0), (0.3, 0.1)
    trials = 4000
    pairs = zip(*(generator.poisson(m * r, trials) for m, r in zip(means, rates, strict=True)), strict=True)
    misses = sum(_ratio_bound((int(a), int(b)), means, 0.05) > np.log(3) for a, b in pairs)
    assert misses <= stats.binom.ppf(1 - 1e-6, trials, 0.05)
    assert misses >= stats.binom.ppf(1e-6, trials, 0.025)  # and it is not idle


def test_mechanisms_bring_their_own_outputs_and_epsilon():
    class Bins:
        table = ResponseTable(2, "1.5")
        epsilon_exact = Fraction(1)
        outputs = np.array([3.0, 8.0])

        def randomize(self, labels):
            codes = (labels > 5).astype(np.uint32)
            words = np.random.default_rng(codes.size).integers(0, TOTAL, codes.size, dtype=np.uint64)
            return self.outputs[self.table.sample(codes, words)]

    found = audit.measure(Bins(), [1, 9], samples=50_000, seed=0)
    assert found.epsilon_claimed == 1
    assert found.accused


@pytest.mark.parametrize(
    ("labels", "options"),
    [([1], {}), ([1, 1], {}), ([1, np.nan], {}), ([0, 1], {"samples": 10}), ([0, 1], {"confidence": 1.0})],
)
def test_impossible_audits_are_refused(labels, options):
    with pytest.raises(InvalidInput):
        audit.measure(SeededResponse(2, "1", 0), labels, **options)


def test_a_randomizer_must_give_one_output_per_label():
    with pytest.raises(InvalidInput, match="one output each"):
        audit.measure(lambda labels: labels[:1], [0, 1], samples=1000)


@pytest.mark.parametrize(("high", "low"), [(0.1, 0.2), (0.5, 0.0), (1.5, 0.5)])
def test_the_smallest_excess_needs_probabilities(high, low):
    with pytest.raises(InvalidInput):
        audit.smallest_excess(high, low, samples=1000)
