"""Rounding to anchors keeps the mean, in integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.design.anchors import Anchors
from labeldp.errors import InvalidInput


@given(st.integers(2, 60), st.integers(2, 30), st.integers(0, 10_000))
def test_the_rounded_label_has_the_labels_mean(size, count, seed):
    random = np.random.default_rng(seed)
    labels = np.cumsum(random.uniform(0.01, 5, size)) - 50
    anchors = Anchors.choose(labels, random.dirichlet(np.full(size, 0.3)), count)
    values = [Fraction(float(v)) for v in anchors.values]
    for label, low, weight in zip(labels, anchors.lower, anchors.upper_weight, strict=True):
        share = Fraction(int(weight), 1 << 64)
        high = values[min(int(low) + 1, len(values) - 1)]
        mean = values[low] * (1 - share) + high * share
        assert abs(mean - Fraction(float(label))) <= abs(high - values[low]) * Fraction(1, 1 << 50)
    assert anchors.mixing @ anchors.values == pytest.approx(labels)


def test_ends_and_heavy_labels_are_anchors():
    masses = np.full(401, 0.6 / 401)
    masses[137] += 0.4
    anchors = Anchors.choose(np.arange(401.0), masses, 10)
    assert {0, 137, 400} <= set(anchors.rows.tolist())
    assert anchors.rows.size <= 12


def test_enough_anchors_are_all_labels():
    assert Anchors.choose(np.arange(5.0), np.full(5, 0.2), 9).rows.tolist() == [0, 1, 2, 3, 4]


def test_one_anchor_is_refused():
    with pytest.raises(InvalidInput, match="2 anchors"):
        Anchors.choose(np.arange(5.0), np.full(5, 0.2), 1)
    with pytest.raises(InvalidInput, match="first and the last"):
        Anchors(np.arange(5.0), np.array([1, 4]))
