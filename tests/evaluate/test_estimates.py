"""Errors, means and gains from private labels: how they compare, and how they show themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from private_populations import DOMAIN, MECHANISMS, PRIOR, population, randomized

from labeldp import estimate_error
from labeldp.errors import InvalidInput
from labeldp.evaluate import ErrorEstimate, Estimate, estimate_gain, estimate_mean, estimate_r2, estimates
from labeldp.mechanisms import PrivateLabels, RROnBins, Unbiased


def test_the_gain_over_the_mean_is_known_better_than_the_error():
    random = np.random.default_rng(6)
    labels, feature = population(random, 20_000)
    mechanism = MECHANISMS["unbiased"]
    private = randomized(mechanism, labels)
    gain, error = estimate_gain(private, feature), estimate_error(private, feature)
    assert gain.lower > 0
    assert gain.upper - gain.lower < error.upper - error.lower
    shuffled = estimate_gain(private, random.permutation(feature))
    assert shuffled.upper < gain.lower


def test_more_confidence_takes_a_wider_interval_around_the_same_value():
    labels, feature = population(np.random.default_rng(1), 20_000)
    private = randomized(MECHANISMS["unbiased"], labels)
    for estimate in (
        lambda confidence: estimate_mean(private, confidence=confidence),
        lambda confidence: estimate_error(private, feature, confidence=confidence),
        lambda confidence: estimate_gain(private, feature, confidence=confidence),
    ):
        narrow, wide = estimate(0.8), estimate(0.99)
        assert wide.lower < narrow.lower < narrow.value < narrow.upper < wide.upper
        assert narrow.value == wide.value
        assert (narrow.confidence, wide.confidence) == (0.8, 0.99)


def test_the_risks_of_the_parts_of_r2_add_up_to_its_own(monkeypatch):
    labels, feature = population(np.random.default_rng(1), 500)
    risks = []
    for name, place in (("consistent_range", 2), ("explained_range", 4)):
        part = getattr(estimates, name)

        def noted(*given, part=part, place=place, **more):
            risks.append(given[place])
            return part(*given, **more)

        monkeypatch.setattr(estimates, name, noted)
    estimate_r2(randomized(MECHANISMS["unbiased"], labels), feature, confidence=0.9)
    assert len(risks) == 2
    assert sum(risks) == pytest.approx(0.1)


def test_predictions_may_be_a_column_of_a_table():
    labels, feature = population(np.random.default_rng(1), 100)
    private = randomized(MECHANISMS["unbiased"], labels)
    assert estimate_error(private, pd.Series(feature)) == estimate_error(private, feature)


def test_estimates_show_value_interval_and_records():
    figures = {"lower": 4100.4, "upper": 5300, "standard_error": 250, "bias_allowance": 0, "records": 5000}
    error = ErrorEstimate(value=4700.26, confidence=0.95, **figures)
    mean = Estimate(value=4700.26, confidence=0.999, **figures)
    assert str(error) == "mean squared error 4,700 (95% interval 4,100 to 5,300, 5,000 private labels)"
    assert str(mean) == "4,700 (99.9% interval 4,100 to 5,300, 5,000 private labels)"


def test_bad_arguments_are_refused():
    mechanism = Unbiased.optimal(PRIOR, 4, domain=DOMAIN)
    two, three = (PrivateLabels(np.zeros(size, np.uint32), mechanism) for size in (2, 3))
    for estimate in (estimate_error, estimate_gain):
        with pytest.raises(InvalidInput, match="one prediction per private label is needed: got 2 for 3"):
            estimate(three, [1.0, 2.0])
        with pytest.raises(InvalidInput, match="index 1"):
            estimate(two, [1.0, np.nan])
        with pytest.raises(InvalidInput, match="confidence"):
            estimate(two, [1.0, 2.0], confidence=1)
    with pytest.raises(InvalidInput, match="at least two"):
        estimate_mean(two[:1])
    with pytest.raises(InvalidInput, match="prior"):
        estimate_error(PrivateLabels(two.codes, RROnBins([1.0, 4.0], 1)), [1.0, 2.0])
