"""`auto`: never expected to be worse than what it decides against, and a function of public numbers alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from criterion import visible_bias_and_variance
from labeldp import Domain, LabelRandomizer, Prior
from labeldp.budget import exact_epsilon
from labeldp.errors import InvalidInput
from labeldp.learn.boosting import boosting_settings
from labeldp.losses import get_loss, loss_examples
from labeldp.mechanisms import BiasVariance, Request
from labeldp.mechanisms.auto import alternatives, choose, split_for_training
from labeldp.mechanisms.bias_variance import (
    VISIBLE,
    Unbiased,
    design_scale,
    weight_of_variance,
)
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.grid_noise import DiscreteLaplace
from labeldp.mechanisms.prediction import label_share
from labeldp.mechanisms.registry import MECHANISMS
from labeldp.paper.data import criteo_prior
from labeldp.paper.network.network_regressor import network_settings

PRIOR = criteo_prior()
DOMAIN = Domain.integers(0, 400)


def designed(counts, domain, epsilon, records, loss="squared"):
    return LabelRandomizer(epsilon, domain, loss, "auto").plan(records).design(counts)


@pytest.mark.parametrize(("epsilon", "records"), [(0.5, 10_000), (2, 400_000), (8, 100)])
def test_no_alternative_is_expected_to_be_better(epsilon, records):
    """By the criterion of the design; the predicted error, which is finer, follows it within 2 %."""
    *others, auto = alternatives(PRIOR, epsilon, records, domain=DOMAIN)
    assert auto.name == "auto"
    assert auto.mechanism.proof().holds

    def criterion(choice):
        squared_bias, variance = visible_bias_and_variance(choice.mechanism, choice.values, PRIOR, VISIBLE)
        return squared_bias + weight_of_variance(records) * variance

    for other in others:
        assert criterion(auto) <= criterion(other) * (1 + 1e-3)
        assert auto.predicted_error <= other.predicted_error * 1.02


def test_the_choice_is_the_same_every_time():
    assert choose(PRIOR, 1, 5000, domain=DOMAIN).mechanism == choose(PRIOR, 1, 5000, domain=DOMAIN).mechanism


def test_more_records_buy_less_bias():
    choices = [choose(PRIOR, 0.5, n, domain=DOMAIN) for n in (1000, 10_000, 100_000)]
    terms = [visible_bias_and_variance(each.mechanism, each.values, PRIOR, VISIBLE) for each in choices]
    assert (np.diff([squared_bias for squared_bias, _ in terms]) < 0).all()
    assert (np.diff([variance for _, variance in terms]) > 0).all()
    assert (np.diff([choice.prediction.bias for choice in choices]) < 0).all()


@pytest.mark.parametrize("loss", [name for name in loss_examples() if name != "squared"])
def test_every_loss_gets_a_design_on_its_own_scale(loss):
    prior = Prior([1, 2, 5, 9, 40], [4, 3, 2, 1, 1])
    choice = choose(prior, 1, 10_000, loss)
    assert choice.mechanism.loss == get_loss(loss).name
    assert choice.decoder == "bins"
    np.testing.assert_array_equal(choice.values, code_values(choice.mechanism, "auto"))
    # The same design, made by hand: squared loss on the stretched labels gives the same table of integers.
    stretched = design_scale(get_loss(loss), prior.values, np.maximum(prior.masses, 1e-9))
    by_hand = BiasVariance.optimal(Prior(stretched, prior.masses), 1, weight_of_variance(10_000), visible=VISIBLE)
    np.testing.assert_allclose(choice.mechanism.matrix(prior.values), by_hand.matrix(stretched), atol=1e-6)


def test_quantiles_do_not_care_how_labels_are_measured():
    prior = Prior([1, 2, 5, 9, 40], [4, 3, 2, 1, 1])
    cubed = Prior(prior.values**3, prior.masses)
    one, other = (choose(p, 1, 10_000, "absolute").mechanism for p in (prior, cubed))
    np.testing.assert_allclose(one.matrix(prior.values), other.matrix(cubed.values), atol=1e-6)


def test_a_loss_that_the_bounds_do_not_allow_is_refused():
    with pytest.raises(InvalidInput, match="labels of the gamma loss must lie in"):
        choose(Prior([0, 1, 5], [1, 1, 1]), 1, 10_000, "gamma")


def test_every_loss_splits_the_budget_alike():
    domain, counts = Domain(1, 11, 11), np.full(11, 3000)
    costs = {designed(counts, domain, 1, 33_000, loss).prior.epsilon_exact for loss in ("squared", "absolute", "gamma")}
    assert costs == {Fraction(1, 25)}


def test_noise_takes_records_away():
    prior = Prior([0, 10], [1, 1])
    mechanism = Unbiased.optimal(prior, 1)
    # The label explains 25 of the value's total variance.
    total = mechanism.expected_loss(prior) + 25
    assert label_share(mechanism, mechanism.outputs) == pytest.approx(25 / total, rel=1e-9)
    assert label_share(mechanism, np.zeros(2)) == 0
    assert label_share(DiscreteLaplace(Domain(0, 10, 11), 1), np.arange(11.0)) == 1  # no prior, nothing known


def test_the_share_of_a_label_is_found_on_any_grid():
    domain = Domain(0, 400, 5_001)
    prior = Prior.uniform(domain)
    mechanism = Unbiased.optimal(Prior.uniform(Domain(0, 400, 401)), 8, domain=domain)
    share = label_share(mechanism, mechanism.outputs, prior)
    assert share == pytest.approx(prior.variance / (prior.variance + mechanism.expected_loss(prior)), rel=1e-6)


def test_boosting_grows_with_what_the_values_are_worth():
    weak, strong = boosting_settings(400_000, 0.001), boosting_settings(400_000, 0.98)
    assert weak["max_leaf_nodes"] < strong["max_leaf_nodes"] == 31
    assert weak["max_iter"] < strong["max_iter"] == 100
    assert weak["min_samples_leaf"] > strong["min_samples_leaf"] == 20


@pytest.mark.parametrize(("epsilon", "cells", "records"), [(0.5, 25, 100_000), (1, 401, 10**7), (8, 1001, 1600)])
def test_the_budget_is_split_exactly_and_the_prior_gets_little(epsilon, cells, records):
    split = split_for_training(Request(Domain(0, 1, cells), epsilon, records=records))
    assert split.epsilon_prior + split.epsilon_labels == split.epsilon == exact_epsilon(epsilon)
    assert float(split.epsilon_prior) == pytest.approx(min(epsilon / 25, 0.1))
    assert split.epsilon_prior <= min(exact_epsilon(epsilon) / 25, Fraction(1, 10))
    assert split.epsilon_prior == 2 / Fraction(split.scale)


def test_prior_and_mechanism_together_cost_epsilon():
    domain = Domain(0, 10, 11)
    mechanism = designed(np.full(11, 300), domain, "0.7", 3300)
    assert mechanism.prior.epsilon_exact + mechanism.epsilon_exact == exact_epsilon("0.7")
    assert mechanism.prior.masses.sum() == pytest.approx(1)


def test_the_network_trains_for_as_long_as_its_values_deserve():
    assert network_settings(10_000) == {"epochs": 33}
    assert network_settings(400_000) == {"epochs": 5}
    assert network_settings(400_000, 0.02) == {"epochs": 2}
    assert network_settings(10_000, 0.03) == {"epochs": 11}
    assert network_settings(10_000, 0.03, batch_size=1000) == {"epochs": 3}
    assert network_settings(10**8) == {"epochs": 1}
    assert network_settings(0, 0) == {"epochs": 3}


def test_no_records_are_refused():
    with pytest.raises(InvalidInput, match="at least 1"):
        choose(PRIOR, 1, 0)
    with pytest.raises(InvalidInput, match="at least one"):
        split_for_training(Request(Domain(0, 1, 10), 1, records=0))


def test_cells_beyond_what_a_design_tells_apart_are_counted_together_before_the_noise(monkeypatch):
    seen = []
    monkeypatch.setattr("labeldp.mechanisms.auto.noisy_counts", lambda counts, scale: seen.append(counts) or counts)
    counts = np.arange(30_001)
    mechanism = designed(counts, Domain.integers(0, 30_000), 1, int(counts.sum()))
    (coarse,) = seen
    assert coarse.size == 1001
    assert coarse.sum() == counts.sum()
    assert coarse.dtype == np.int64
    assert mechanism.proof().holds


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 4])
def test_few_records_spend_more_on_the_prior_without_a_jump(epsilon):
    budget, domain = exact_epsilon(epsilon), Domain(0, 1, 9)
    shares = []
    for worth in np.geomspace(30, 3000, 60):
        split = split_for_training(Request(domain, epsilon, records=round(worth / epsilon**2) + 1))
        assert split.epsilon_prior + split.epsilon_labels == budget
        assert 0 < split.epsilon_prior <= budget / 2
        shares.append(float(split.epsilon_prior))
    assert (np.diff(shares) <= 0).all()
    assert max(np.divide(shares[:-1], shares[1:])) < 1.4
    assert shares[0] > 3 * min(epsilon / 25, 0.1)


@pytest.mark.parametrize(("epsilon", "records"), [(1, 6000), (2, 6000), (8, 6000), (8, 1600), (0.5, 20_000)])
def test_the_prior_of_many_records_gets_what_it_always_did(epsilon, records):
    split = split_for_training(Request(Domain(0, 1, 60), epsilon, records=records))
    assert float(split.epsilon_prior) == pytest.approx(min(epsilon / 25, 0.1))


@pytest.mark.parametrize("records", [50, 100, 400, 1000])
def test_few_records_spend_as_much_on_the_prior_at_a_large_epsilon(records):
    """At ε = 8, 100 waiting times had a prior so noisy that a model was worse than answering the mean."""
    for epsilon in (2, 8, 20):
        split = split_for_training(Request(Domain(0, 1, 9), epsilon, records=records))
        assert float(split.epsilon_prior) == pytest.approx(4 / records**0.5)


@pytest.mark.parametrize("name", ["auto", "rr-on-bins", "unbiased", "bias-variance", "rr-with-prior"])
def test_records_that_are_too_few_for_any_mechanism_give_a_warning(name):
    entry = MECHANISMS[name]
    few, enough = (entry.split_for(Request(Domain(0, 1, 9), 0.5, records=records)) for records in (399, 401))
    assert "399 records are too few to learn from at epsilon = 0.5" in few.advice
    assert enough.advice is None
    few, enough = (entry.split_for(Request(Domain(0, 1, 2), 2, records=records)) for records in (49, 50))
    assert "records × epsilon is 98." in few.advice
    assert enough.advice is None
