from __future__ import annotations

import math

import numpy as np
import pytest

from labeldp.errors import InvalidInput
from labeldp.paper.data import (
    CALIBRATED,
    census_prior,
    criteo_prior,
    published_census,
    published_criteo,
)


def test_the_criteo_table_is_whole_and_ordered():
    rows = published_criteo()
    assert [row.epsilon for row in rows] == [0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 3, 4, 6, 8, math.inf]
    assert all(row.mechanism_rr_on_bins < row.mechanism_laplace for row in rows[:-1])
    assert (rows[3].mechanism_rr_on_bins, rows[3].test_rr_on_bins) == (10977.09, 10901.33)
    assert rows[-1].mechanism_laplace == 0
    assert rows[-1].test_rr_on_bins_std == 29.27


def test_the_census_table_is_whole_and_ordered():
    rows = published_census()
    assert [row.epsilon for row in rows] == [0.5, 1, 2, 4, 8, math.inf]
    assert (rows[0].mechanism_rr_with_prior, rows[3].test_rr_on_bins) == (274.11, 136.59)


def test_the_calibrated_prior_has_the_variance_that_rr_on_bins_tends_to():
    """As ε falls to 0, RR-on-Bins' error rises to the variance of the labels; ε = 0.05 is almost there."""
    prior = criteo_prior()
    assert np.array_equal(prior.values, np.arange(401))
    mean = prior.values @ prior.masses
    variance = (prior.values - mean) ** 2 @ prior.masses
    assert abs(variance / published_criteo()[0].mechanism_rr_on_bins - 1) < 1e-3
    assert abs(prior.masses[-1] - 0.05) < 0.002


def test_the_census_prior_gives_the_error_of_always_answering_a_whole_year():
    """At small ε RRWithPrior answers the most frequent label whatever the truth, so its error is E[(52 − weeks)²]."""
    prior = census_prior()
    assert np.array_equal(prior.values, np.arange(1, 53))
    assert prior.values[prior.masses.argmax()] == 52
    error = (52 - prior.values) ** 2 @ prior.masses
    assert abs(error / published_census()[0].mechanism_rr_with_prior - 1) < 1e-3


@pytest.mark.parametrize("name", CALIBRATED.names)
def test_a_calibrated_prior_lies_on_the_grid_of_its_experiment(name):
    known = CALIBRATED[name]
    assert set(known.prior().values) <= set(known.domain.grid)


def test_an_unknown_calibrated_prior_is_refused_with_the_known_ones():
    with pytest.raises(
        InvalidInput, match=r"unknown dataset 'sensus'\. Did you mean 'census'\? Known: census, criteo\."
    ):
        CALIBRATED["sensus"]
