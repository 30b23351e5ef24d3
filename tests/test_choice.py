"""`auto`: never expected to be worse than what it decides against, and a function of public numbers alone."""

from __future__ import annotations

import numpy as np
import pytest

from labeldp import Domain, Prior, RROnBins
from labeldp.choice import alternatives, boosting_settings, choose, effective_records
from labeldp.data import criteo_prior
from labeldp.errors import InvalidInput
from labeldp.mechanisms.unbiased import Unbiased

pytest.importorskip("clarabel")

PRIOR = criteo_prior()
DOMAIN = Domain.integers(0, 400)


@pytest.mark.parametrize("epsilon", [0.5, 2, 8])
@pytest.mark.parametrize("records", [100, 10_000, 400_000])
def test_no_alternative_is_expected_to_be_better(epsilon, records):
    *others, auto = alternatives(PRIOR, epsilon, records, domain=DOMAIN)
    assert auto.name == "auto"
    assert auto.mechanism.proof().holds
    for other in others:
        assert auto.predicted_error <= other.predicted_error * (1 + 1e-3)


def test_the_choice_is_the_same_every_time():
    assert choose(PRIOR, 1, 5000, domain=DOMAIN).mechanism == choose(PRIOR, 1, 5000, domain=DOMAIN).mechanism


def test_more_records_buy_less_bias():
    excesses = [choose(PRIOR, 0.5, n, domain=DOMAIN).excess for n in (1000, 10_000, 100_000)]
    assert (np.diff([e.squared_bias for e in excesses]) < 0).all()
    assert (np.diff([e.variance for e in excesses]) > 0).all()


def test_losses_that_are_not_about_means_get_the_papers_mechanism():
    choice = choose(Prior([0, 1, 5, 9], [4, 3, 2, 1]), 1, 10_000, "absolute")
    assert isinstance(choice.mechanism, RROnBins)
    assert choice.mechanism.loss == "absolute"
    assert choice.decoder == "bins"


def test_noise_takes_records_away():
    prior = Prior([0, 10], [1, 1])
    mechanism = Unbiased.optimal(prior, 1)
    # The label explains 25 of the value's total variance.
    total = mechanism.expected_loss(prior) + 25
    assert effective_records(mechanism, mechanism.outputs, prior, 1000) == pytest.approx(1000 * 25 / total, rel=1e-9)
    assert effective_records(mechanism, np.zeros(2), prior, 1000) == 0


def test_boosting_grows_with_what_the_values_are_worth():
    weak, strong = boosting_settings(400_000, 300), boosting_settings(400_000, 390_000)
    assert weak["max_leaf_nodes"] < strong["max_leaf_nodes"] == 31
    assert weak["max_iter"] < strong["max_iter"] == 100
    assert weak["min_samples_leaf"] > strong["min_samples_leaf"] == 20


def test_no_records_are_refused():
    with pytest.raises(InvalidInput, match="at least 1"):
        choose(PRIOR, 1, 0)
