"""The three targets are what they say, and their ranges hold every value that they can take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from private_populations import PRIOR, VALUES

from labeldp import Domain, Prior
from labeldp.evaluate.constraints import MomentValues, Target, label_bounds
from labeldp.mechanisms import PrivateLabels, RROnBins

ORIGIN = 100.0
MECHANISM = RROnBins.optimal(Prior(VALUES + ORIGIN, PRIOR.masses), 2, domain=Domain.integers(100, 120))
RANDOM = np.random.default_rng(0)
CODES = RANDOM.integers(0, MECHANISM.outputs.size, 50)
PREDICTIONS = RANDOM.uniform(100, 120, 50)
# Codes that tell the labels themselves.
KNOWN = ORIGIN + np.linspace(3, 17, MECHANISM.outputs.size)
LABELS = KNOWN[CODES]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target.mean(MECHANISM, 50), LABELS),
        (Target.error(MECHANISM, PREDICTIONS), (PREDICTIONS - LABELS) ** 2),
        (
            Target.gain(MECHANISM, PREDICTIONS),
            (PREDICTIONS.mean() - LABELS) ** 2 - (PREDICTIONS - LABELS) ** 2,
        ),
        (Target.gain(MECHANISM, PREDICTIONS, 111.0), (111 - LABELS) ** 2 - (PREDICTIONS - LABELS) ** 2),
        (Target.spread(50, 111.0), (111 - LABELS) ** 2),
    ],
    ids=["mean", "error", "gain", "gain over a number", "spread"],
)
def test_with_known_labels_each_target_is_its_definition(target, expected):
    moments = MomentValues(KNOWN - target.origin, (KNOWN - target.origin) ** 2)
    values = target.values(moments, PrivateLabels(CODES, MECHANISM))
    np.testing.assert_allclose(values + target.constant, expected, atol=1e-9)


numbers = st.floats(-10, 10).map(lambda x: round(x, 3))


@given(numbers, numbers, numbers, st.lists(numbers, min_size=1, max_size=3))
def test_the_range_of_one_record_holds_every_weight_within_the_bounds(bend, linear, square, labels):
    y = np.array(labels)
    target = Target(np.array([-1.0, 0.5]), 0.0, (-3.0, 2.0), bend, linear, square)
    weights = np.linspace(-3, 2, 2001)[:, None]
    values = target.offset(weights) + weights * y + square * y**2
    low, high = target.value_range(y, y**2)
    assert (low, high) == pytest.approx((values.min(), values.max()), abs=1e-3)


def test_where_all_weights_are_equal_no_other_weight_is_expected():
    target = Target(np.full(5, 2.0), 0.0, (-9.0, 9.0), 1.0, 0.0, 0.0)
    assert target.value_range(np.array([3.0]), np.array([9.0])) == (10.0, 10.0)


@given(numbers, st.sampled_from([0.0, 1.0]), numbers, st.floats(0, 5))
def test_the_range_over_a_piece_holds_every_label_in_it(weight, square, low, width):
    target = Target(np.zeros(2), 0.0, (0.0, 0.0), label_square=square)
    y = np.linspace(low, low + width, 2001)
    values = weight * y + square * y**2
    found = target.label_part_range(np.array([weight]), np.array([low]), np.array([low + width]))
    assert np.ravel(found) == pytest.approx([values.min(), values.max()], abs=1e-3)


def test_the_bounds_are_those_of_the_domain_and_else_of_the_prior():
    narrow = Prior([5.0, 6.0], [1, 1])
    assert label_bounds(RROnBins.optimal(narrow, 1, domain=(0, 50))) == (0, 50)
    assert label_bounds(RROnBins.optimal(narrow, 1)) == (5, 6)
