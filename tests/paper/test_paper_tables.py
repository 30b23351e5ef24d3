"""The published mechanism figures of the paper's two tables, from the calibrated priors."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from labeldp import Domain
from labeldp.mechanisms import Laplace, RROnBins, RRWithPrior
from labeldp.paper.data import (
    CENSUS_TRAIN_ROWS,
    CRITEO_TRAIN_ROWS,
    census_prior,
    criteo_prior,
    published_census,
    published_criteo,
)

FIGURES = [row for row in published_criteo() if math.isfinite(row.epsilon)]
PRIOR = criteo_prior()
SPENT_ON_PRIOR = Fraction(math.sqrt(401 / CRITEO_TRAIN_ROWS))


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: f"epsilon {row.epsilon:g}")
def test_rr_on_bins_has_the_published_error(row):
    mechanism = RROnBins.optimal(PRIOR, Fraction(repr(row.epsilon)) - SPENT_ON_PRIOR)
    assert mechanism.expected_loss(PRIOR) == pytest.approx(row.mechanism_rr_on_bins, rel=1e-3)


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: f"epsilon {row.epsilon:g}")
def test_clipped_laplace_has_the_published_error(row):
    assert Laplace(Domain(0, 400), row.epsilon).expected_loss(PRIOR) == pytest.approx(row.mechanism_laplace, rel=1e-3)


@pytest.mark.parametrize("row", published_census()[:-1], ids=lambda row: f"epsilon {row.epsilon:g}")
def test_the_census_table_has_the_published_errors(row):
    prior = census_prior()
    epsilon = Fraction(repr(row.epsilon)) - Fraction(math.sqrt(53 / CENSUS_TRAIN_ROWS))
    for mechanism, published in (
        (RROnBins.optimal(prior, epsilon), row.mechanism_rr_on_bins),
        (RRWithPrior(prior, epsilon), row.mechanism_rr_with_prior),
    ):
        assert mechanism.expected_loss(prior) == pytest.approx(published, rel=1e-3)


def test_three_bins_at_epsilon_three():
    mechanism = RROnBins.optimal(PRIOR, Fraction(3) - SPENT_ON_PRIOR)
    assert mechanism.outputs.size == 3
    assert mechanism.outputs == pytest.approx([50, 100, 250], rel=0.35)
