"""The statistical audit: correct randomizers are hardly ever refuted, wrong ones are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.evaluate import measure
from labeldp.sampling import IdDigests, KeyedRandomness, ResponseTable

TOTAL = 1 << 64


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


def refutations(outputs: int, trials: int, samples: int, confidence: float) -> int:
    return sum(
        measure(
            SeededResponse(outputs, "1", seed),
            range(outputs),
            epsilon=1,
            samples=samples,
            confidence=confidence,
            seed=seed,
        ).refuted
        for seed in range(trials)
    )


def test_a_correct_randomizer_is_refuted_no_more_often_than_the_confidence_allows():
    # more than 15 of 100 have probability below 1e-4 at an error rate of 5 %; seeds are fixed
    assert refutations(outputs=4, trials=100, samples=20_000, confidence=0.95) <= 15


@pytest.mark.slow
def test_in_a_thousand_trials_of_correct_randomizers_at_most_77_refutations_at_95_percent():
    assert refutations(outputs=10, trials=1000, samples=100_000, confidence=0.95) <= 77


@pytest.mark.slow
def test_in_a_thousand_trials_of_correct_randomizers_no_refutation_at_one_in_a_million():
    assert refutations(outputs=10, trials=1000, samples=100_000, confidence=1 - 1e-6) == 0


@pytest.mark.parametrize("outputs", [2, 10])
def test_an_epsilon_two_percent_too_large_is_caught_with_ten_million_samples(outputs):
    found = measure(SeededResponse(outputs, "1.02", 5), range(outputs), epsilon=1, samples=10_000_000, seed=1)
    assert found.refuted
    assert found.epsilon_lower <= 1.02
    with pytest.raises(PrivacyRefused, match="REFUTED"):
        found.require()


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [2, 10])
def test_it_is_caught_with_each_of_a_hundred_seeds(outputs):
    caught = [
        measure(SeededResponse(outputs, "1.02", seed), range(outputs), epsilon=1, samples=10_000_000, seed=seed).refuted
        for seed in range(100)
    ]
    assert all(caught)


def test_the_smallest_excess_is_what_is_found_almost_always():
    outputs, samples = 3, 200_000
    excess = measure(SeededResponse(outputs, "1", 0), range(outputs), samples=samples, seed=0).smallest_excess
    planted = str(round(1 + excess, 6))
    found = [
        measure(SeededResponse(outputs, planted, seed), range(outputs), epsilon=1, samples=samples, seed=seed)
        for seed in range(40)
    ]
    assert sum(each.refuted for each in found) >= 36
    assert all(each.smallest_excess == pytest.approx(excess, rel=0.1) for each in found)
    # and a tenth of it is not found: the figure says something
    weaker = str(round(1 + excess / 10, 6))
    found = [
        measure(SeededResponse(outputs, weaker, seed), range(outputs), epsilon=1, samples=samples, seed=seed)
        for seed in range(20)
    ]
    assert sum(each.refuted for each in found) <= 10


def test_continuous_randomizers_are_grouped_into_intervals():
    generator = np.random.default_rng(3)
    found = measure(lambda labels: labels + generator.laplace(0, 1, labels.size), [0, 1], samples=400_000, seed=3)
    assert 0.9 < found.epsilon_lower <= 1
    assert found.epsilon_claimed is None
    assert not found.refuted


def test_outputs_that_only_one_label_gives_are_found():
    generator = np.random.default_rng(3)

    def leaky(labels):
        return np.where(generator.random(labels.size) < 0.01, labels, -1)

    found = measure(leaky, [0, 1], epsilon=1, samples=100_000)
    assert found.refuted
    assert found.epsilon_lower > 4


def test_mechanisms_bring_their_own_outputs_and_epsilon():
    class Bins:
        table = ResponseTable(2, "1.5")
        epsilon_exact = Fraction(1)
        outputs = np.array([3.0, 8.0])

        def randomize(self, labels):
            codes = (labels > 5).astype(np.uint32)
            words = np.random.default_rng(codes.size).integers(0, TOTAL, codes.size, dtype=np.uint64)
            return self.outputs[self.table.sample(codes, words)]

    found = measure(Bins(), [1, 9], samples=50_000, seed=0)
    assert found.epsilon_claimed == 1
    assert found.refuted


@pytest.mark.parametrize(
    ("labels", "options"),
    [([1], {}), ([1, 1], {}), ([1, np.nan], {}), ([0, 1], {"samples": 10}), ([0, 1], {"confidence": 1.0})],
)
def test_impossible_audits_are_refused(labels, options):
    with pytest.raises(InvalidInput):
        measure(SeededResponse(2, "1", 0), labels, **options)


def test_a_randomizer_must_give_one_output_per_label():
    with pytest.raises(InvalidInput, match=r"gave shape \(1,\) for 25"):
        measure(lambda labels: labels[:1], [0, 1], samples=1000)
