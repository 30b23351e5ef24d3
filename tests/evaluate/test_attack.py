"""`benchmarks/attack.py` in small: no attacker beats the bound of ε-DP, and those on broken releases do.

A false alarm has a probability below 10⁻⁹ in all tests together.
"""

from __future__ import annotations

import math
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from labeldp.mechanisms.registry import MECHANISMS

spec = spec_from_file_location("attack", Path(__file__).resolve().parents[2] / "benchmarks" / "attack.py")
bench = sys.modules.setdefault("attack", module_from_spec(spec))
spec.loader.exec_module(bench)

NAMES = [entry.name for entry in MECHANISMS if entry.exact]
NEED_PRIOR = [entry.name for entry in MECHANISMS if entry.exact and entry.needs_prior]
MISSES = 1e-12


@pytest.mark.parametrize(
    ("name", "path"), [*((name, "keyed") for name in NAMES), ("rr-on-bins", "fresh"), ("exponential", "fresh")]
)
def test_no_attacker_beats_the_bound(name, path):
    result = bench.attack(bench.Cell(name, 1, path), trials=40, records=50_000, misses=MISSES)
    assert result.verdict == "ok"
    assert set(result.advantages) == ({"message", "counts", "code"} if name in NEED_PRIOR else {"message"})


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", bench.EPSILONS)
@pytest.mark.parametrize("name", NAMES)
def test_no_attacker_beats_the_bound_in_many_trials(name, epsilon):
    assert bench.attack(bench.Cell(name, epsilon, "keyed"), 400, 200_000, MISSES).verdict == "ok"


@pytest.mark.parametrize("name", ["rr-on-bins", "exponential"])
def test_a_message_is_no_other(name):
    assert bench.attack(bench.Cell(name, 1, "message"), trials=10, records=20_000, misses=MISSES).verdict == "ok"


@pytest.mark.parametrize("epsilon", [bench.EPSILONS[0], bench.EPSILONS[-1]])
@pytest.mark.parametrize(
    ("name", "control"),
    [("randomized-response", bench.TWICE), ("rr-on-bins", bench.TWICE), ("rr-on-bins", bench.EXACT)],
)
def test_a_broken_release_is_caught(name, control, epsilon):
    result = bench.attack(bench.Cell(name, epsilon, control=control), trials=250, records=100_000, misses=MISSES)
    assert result.verdict == "caught"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEED_PRIOR])
def test_the_attack_reaches_the_total_variation(name):
    """No test can do better, so this is the strongest attack on the code."""
    result = bench.attack(bench.Cell(name, 2), trials=0, records=200_000, misses=MISSES)
    whole = result.advantages["message"]
    assert whole.lower <= result.expected <= whole.upper
    assert whole.upper - whole.lower < 0.05


@pytest.mark.parametrize("name", NEED_PRIOR)
def test_no_message_is_worth_more_than_epsilon(name):
    """The ratio of a message is at most e^ε₁ from the counts and e^ε₂ from the code, whatever was drawn."""
    cell = bench.Cell(name, 2)
    with bench.quiet():
        for label in (0.0, 2.0) * 5:
            mechanism, codes = bench.release(cell, np.append(label, bench.OTHERS))
            for pair in ((0.0, 1.0), (0.0, 2.0), (1.0, 2.0)):
                counted, coded = bench.counts_ratio(mechanism, pair), bench.code_ratios(mechanism, pair)[codes[0]]
                assert abs(counted) <= cell.shares["counts"] * (1 + 1e-9)
                assert abs(coded) <= cell.shares["code"] * (1 + 1e-9)
    assert math.isclose(cell.shares["counts"] + cell.shares["code"], 2)


def test_clopper_pearson_meets_the_exact_tails():
    share, low, high = bench.clopper_pearson(3, 10, 0.1)
    assert share == 0.3
    assert sum(math.comb(10, k) * low**k * (1 - low) ** (10 - k) for k in range(3, 11)) == pytest.approx(0.05)
    assert sum(math.comb(10, k) * high**k * (1 - high) ** (10 - k) for k in range(4)) == pytest.approx(0.05)
    assert bench.clopper_pearson(0, 10, 0.1)[1] == 0
    assert bench.clopper_pearson(10, 10, 0.1)[2] == 1
