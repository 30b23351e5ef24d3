"""`benchmarks/label_inference.py` in small: what a code adds stays below the bound of ε-DP, and a message that spends more is caught.

A false alarm has a probability below 10⁻⁹ in all tests together.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

spec = spec_from_file_location(
    "label_inference", Path(__file__).resolve().parents[2] / "benchmarks" / "label_inference.py"
)
bench = sys.modules.setdefault("label_inference", module_from_spec(spec))
spec.loader.exec_module(bench)

MISSES = 1e-11


@pytest.fixture(scope="module")
def world():
    return bench.World.generated(2_000, seed=0)


@pytest.fixture(scope="module")
def honest(world):
    return bench.true_model(world)


@pytest.mark.parametrize("name", ["rr-on-bins", "discrete-laplace"])
def test_a_code_adds_what_its_channel_says_and_no_more_than_epsilon_allows(world, honest, name):
    (result,) = bench.attack(world, honest, name, 1.0, ["median"], MISSES)
    assert result.fine
    assert result.expected <= result.bound
    assert abs(result.code - result.expected) <= result.chance


def test_a_message_that_spends_more_than_it_says_is_caught(world, honest):
    """At the ε that was spent nearly every label is named, far beyond what the claimed ε allows."""
    (result,) = bench.attack(world, honest, "randomized-response", 1.0, ["median"], MISSES, spent=12.0)
    assert result.code > 0.9
    assert not result.fine


def test_features_tell_about_outsiders_too(world, honest):
    """The model has never seen the label of a record that it is asked about, in the message or not."""
    (result,) = bench.attack(world, honest, "rr-on-bins", 8.0, ["median"], MISSES)
    assert result.outsiders > 0.2  # 0.5 on average, and 500 records move it by 0.04


def test_the_code_of_the_attacked_record_does_not_reach_the_model(world):
    """Beliefs about the attacked records stay the same whatever their own codes are."""
    mechanism, codes = bench.release(world, "rr-on-bins", 4.0)
    changed, attacked = codes.copy(), world.parts[2]
    changed[attacked] = (changed[attacked] + 1) % mechanism.outputs.size
    first, second = (bench.private_model(world, mechanism, some).inside for some in (codes, changed))
    assert np.array_equal(first, second)


def test_distributions_add_up_and_follow_the_prior():
    cumulated = np.array([0.2, 0.7, 1.0])
    beliefs = bench.distributions(cumulated, np.array([0.0, 5.0]), slope=1.0, spread=1.0)
    assert np.allclose(beliefs.sum(axis=1), 1)
    assert np.allclose(beliefs[0], [0.2, 0.5, 0.3])
    assert beliefs[1, 2] > 0.99
