"""How far a mean of records may be from the mean of the population."""

from __future__ import annotations

import numpy as np
import pytest
from private_populations import DOMAIN, MECHANISMS, PRIOR, population, randomized
from scipy import stats

from labeldp.evaluate.constraints import Target, moment_values
from labeldp.evaluate.intervals import SampleMean, bernstein_radius
from labeldp.mechanisms import Unbiased

RISK = 0.05


def sample_mean(mechanism, labels):
    moments = moment_values(mechanism, labels.size)
    target = Target.mean(mechanism, labels.size)
    return SampleMean.of(target, moments, randomized(mechanism, labels), mechanism.matrix(DOMAIN.grid), RISK)


def test_many_records_leave_the_normal_interval():
    found = sample_mean(MECHANISMS["unbiased"], population(np.random.default_rng(0), 100_000)[0])
    normal = stats.norm.ppf(1 - RISK / 2) * found.standard_error
    assert found.below == pytest.approx(normal, rel=0.05)
    assert found.above == pytest.approx(normal, rel=0.05)
    assert min(found.below, found.above) > normal


def test_what_no_record_shows_is_allowed_for_by_the_rule_of_three():
    """Of 1,000 labels that are all 0, with hardly any noise, log(2/risk)/1000 may be 20 and none are below."""
    mechanism = Unbiased.optimal(PRIOR, 20, domain=DOMAIN, anchors=21)
    found = sample_mean(mechanism, np.zeros(1000))
    assert found.standard_error == pytest.approx(0, abs=1e-9)
    assert found.above == pytest.approx(20 * np.log(2 / RISK) / 1000, rel=1e-3)
    assert found.below == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("records", [10, 1000])
def test_the_bernstein_radius_holds_for_every_number_of_records(records):
    random = np.random.default_rng(0)
    samples = (random.random((2000, records)) < 0.03).astype(float)
    radius = bernstein_radius(samples.var(axis=1, ddof=1), 1.0, records, RISK)
    missed = np.abs(samples.mean(axis=1) - 0.03) > radius
    assert missed.mean() <= RISK


def test_the_bernstein_radius_is_that_of_maurer_and_pontil():
    log_term = np.log(4 / 0.1)
    assert bernstein_radius(0.09, 2.0, 101, 0.1) == pytest.approx(
        np.sqrt(2 * 0.09 * log_term / 101) + 7 * 2 * log_term / 300
    )
