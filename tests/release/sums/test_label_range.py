"""The clip and the moments that a noisy histogram suggests."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import Domain
from labeldp.release.label_range import FEWEST_PARTS, MOST_WHOLE, PARTS, histogram_parts, label_range, range_within
from labeldp.release.noisy_sums import Answer, part_sizes
from labeldp.release.sum_queries import SumQueries

WHOLE = Domain.integers(0, 127)
GENERATOR = np.random.default_rng(8)


def histogram(labels, domain, scale=1e-6):
    """Counts of labels with so little noise that it does not matter."""
    parts = histogram_parts(domain, labels.size, Fraction(1000))
    units = np.asarray(domain.cell(labels), np.int64)
    counts = np.bincount(units * parts // domain.count, minlength=parts)
    return Answer(
        "histogram",
        counts.astype(np.int64),
        scale,
        (0, domain.count - 1),
        part_sizes(parts, domain.count),
        (parts,),
        domain,
    )


def bell(middle, deviation, count=20_000):
    return np.clip(np.round(GENERATOR.normal(middle, deviation, count)), 0, 127)


def test_few_whole_labels_are_counted_one_by_one():
    for domain, parts in (
        (Domain.integers(0, 9), 10),
        (Domain.integers(1, MOST_WHOLE), MOST_WHOLE),
        (Domain.integers(0, 100_000), PARTS),
        (Domain(0, 1).with_cells(2**20 + 1), PARTS),
    ):
        assert histogram_parts(domain, 10**6, Fraction(1)) == parts


def test_the_noisier_counts_are_the_fewer_there_are():
    parts = [
        histogram_parts(Domain(0, 1).with_cells(1001), records, Fraction(1, 100))
        for records in (10, 10**4, 2 * 10**4, 10**6)
    ]
    assert parts == [FEWEST_PARTS, 12, 50, PARTS]
    assert histogram_parts(Domain.integers(0, 1), 10, Fraction(1, 100)) == 2


def test_counts_that_are_only_noise_are_not_believed():
    queries = SumQueries(np.full(100, 3.0), "0.01", Domain(0, 50).with_cells(501))
    found = label_range(queries.histogram(4, "0.001"), 100, 0.009)
    assert found.clip == (0, 500)
    assert (found.mean, found.factor, found.shift) == (25, 1, 0)


@pytest.mark.parametrize("middle", [20, 64, 110])
def test_without_noise_the_clip_covers_all_labels_and_the_moments_are_theirs(middle):
    labels = bell(middle, 4)
    found = label_range(histogram(labels, WHOLE), len(labels), 1e6)
    assert found.clip[0] <= labels.min()
    assert labels.max() <= found.clip[1]
    assert found.mean == pytest.approx(labels.mean(), abs=0.01)
    assert found.variance == pytest.approx(labels.var(), rel=0.01)
    assert (found.factor, found.shift) == pytest.approx((1, 0), abs=1e-3)


def test_labels_with_a_thin_tail_are_clipped_and_the_less_so_the_more_epsilon():
    labels = np.minimum(np.floor(GENERATOR.exponential(8, 20_000)), 127)
    counts = histogram(labels, WHOLE)
    widths = [np.diff(label_range(counts, len(labels), epsilon).clip)[0] for epsilon in (0.01, 0.1, 1, 10, 100, 1e4)]
    assert widths == sorted(widths)
    assert 20 < widths[2] < 100
    assert widths[0] < widths[-1]


def test_both_ends_are_clipped_where_labels_lie_in_the_middle():
    lower, upper = label_range(histogram(bell(64, 6), WHOLE), 20_000, 1).clip
    assert 20 < lower < 64 < upper < 108


def test_mirrored_labels_have_the_mirrored_clip():
    labels = np.minimum(np.floor(GENERATOR.gamma(4, 5, 20_000)), 127)
    one, other = (label_range(histogram(each, WHOLE), 20_000, 0.5) for each in (labels, 127 - labels))
    assert other.clip == (127 - one.clip[1], 127 - one.clip[0])
    assert other.mean == pytest.approx(127 - one.mean)
    assert other.variance == pytest.approx(one.variance)


@given(st.integers(0, 126), st.integers(1, 127))
def test_undoing_any_clip_restores_the_mean(lower, width):
    labels = np.clip(np.round(np.random.default_rng(1).normal(50, 20, 5000)), 0, 127)
    counts = histogram(labels, WHOLE)
    whole = range_within((0, 127), counts, len(labels))
    found = range_within((lower, min(127, lower + width)), counts, len(labels))
    assert float(found.unclipped(np.array(found.mean))) == pytest.approx(whole.mean, abs=1e-9)
    clipped = np.clip(labels, *found.clip).mean()
    assert found.mean == pytest.approx(clipped, abs=0.1)


def test_a_mean_above_another_stays_above_it():
    labels = np.minimum(np.floor(GENERATOR.exponential(8, 20_000)), 127)
    found = label_range(histogram(labels, WHOLE), 20_000, 0.05)
    assert found.factor >= 1
    assert (np.diff(found.unclipped(np.linspace(0, 50, 9))) > 0).all()


def test_labels_in_another_unit_have_the_same_clip():
    labels = GENERATOR.gamma(4, 5, 20_000).clip(0, 200)
    one = label_range(histogram(labels, Domain(0, 200).with_cells(6401)), 20_000, 0.5)
    other = label_range(histogram(labels / 10 - 7, Domain(-7, 13).with_cells(6401)), 20_000, 0.5)
    assert other.clip == one.clip
    assert (other.mean, other.lower) == pytest.approx((one.mean / 10 - 7, one.lower / 10 - 7))
    assert (other.variance, other.factor, other.shift) == pytest.approx(
        (one.variance / 100, one.factor, one.shift / 10)
    )


@pytest.mark.parametrize("scale", [1e-6, 1e3, 1e9])
@pytest.mark.parametrize(
    "domain", [Domain.integers(0, 1), Domain.integers(-3, 2), Domain(-50, 50).with_cells(2**20 + 1)]
)
def test_a_clip_has_a_width_whatever_was_counted(domain, scale):
    labels = np.full(50, domain.upper)
    found = label_range(histogram(labels, domain, scale), 50, 1.0)
    assert 0 <= found.clip[0] < found.clip[1] < domain.count
    assert np.isfinite([found.mean, found.factor, found.shift]).all()
    assert found.variance > 0
