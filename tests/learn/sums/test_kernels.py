"""The prior covariances of effects: mean zero and variance one over the records, smooth along numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.learn.sums.inference import KEPT, LINE, kernel, roots

SHARES = st.lists(st.integers(1, 50), min_size=2, max_size=12).map(lambda counts: np.array(counts) / sum(counts))


@given(SHARES, st.booleans(), st.booleans(), st.booleans())
def test_effects_have_mean_zero_and_variance_one_over_the_records(weights, ordered, missing, with_centres):
    missing = missing and ordered
    centres = np.arange(len(weights) - missing) ** 2.0 if with_centres else None
    covariance = kernel(weights, ordered=ordered, missing=missing, centres=centres)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
    np.testing.assert_allclose(weights @ covariance, 0, atol=1e-12)
    assert weights @ np.diag(covariance) == pytest.approx(1)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9 * np.trace(covariance)


@given(SHARES.filter(lambda weights: len(weights) > 3))
def test_a_missing_number_is_as_far_from_every_number_and_not_on_their_line(weights):
    centres = np.arange(len(weights) - 1.0)
    without = kernel(weights, ordered=True, missing=True)
    distances = without[-1, -1] + np.diag(without)[:-1] - 2 * without[-1, :-1]
    np.testing.assert_allclose(distances, distances[0], rtol=1e-9)
    line = kernel(weights, ordered=True, missing=True, centres=centres) - (1 - LINE) * without
    np.testing.assert_allclose(line[-1], 0, atol=1e-12)
    assert np.linalg.matrix_rank(line, tol=1e-9) == 1
    steps = np.diff(line[0, :-1])
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6, atol=1e-12)


def test_cells_that_are_near_each_other_are_alike_and_categories_are_not():
    weights = np.full(10, 0.1)
    along = kernel(weights, ordered=True)
    from_first = along[0, 0] + np.diag(along) - 2 * along[0]  # the variance of the difference from the first cell
    assert (np.diff(from_first) > 0).all()
    apart = kernel(weights, ordered=False)
    assert len(set(np.round(apart[~np.eye(10, dtype=bool)], 12))) == 1


def test_the_numbering_of_categories_does_not_matter():
    weights, order = np.array([0.1, 0.2, 0.3, 0.4]), [2, 0, 3, 1]
    whole = kernel(weights, ordered=False)
    np.testing.assert_allclose(kernel(weights[order], ordered=False), whole[np.ix_(order, order)], atol=1e-12)


@given(SHARES, st.booleans())
def test_roots_keep_all_but_a_thousandth_of_each_direction(weights, ordered):
    covariance = kernel(weights, ordered=ordered)
    made = roots(covariance)
    assert np.linalg.norm(made @ made.T - covariance, 2) <= KEPT * np.trace(covariance) + 1e-9
    assert np.linalg.matrix_rank(made) == made.shape[1] < len(weights)


@pytest.mark.parametrize("weights", [[1.0], [0.0, 1.0], [1.0, 0.0]])
def test_a_block_in_which_records_do_not_differ_has_a_covariance_of_usual_size(weights):
    covariance = kernel(np.array(weights), ordered=False)
    assert np.diag(covariance).max() <= 2
    assert np.isfinite(roots(covariance)).all()
