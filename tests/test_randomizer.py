"""The two-step randomizer: budget exact, inputs of every kind, and nothing of the labels kept."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from labeldp import Domain, LabelRandomizer, Prior
from labeldp.errors import InvalidInput, PrivacyRefused
from labeldp.mechanisms import MECHANISMS, code_values
from labeldp.priors import BudgetWarning
from labeldp.sampling import KeyedRandomness

LABELS = np.minimum(np.random.default_rng(0).exponential(90, 20_000), 400)


@given(
    epsilon=st.one_of(st.floats(0.2, 8), st.decimals("0.2", "8", places=3)),
    kind=st.sampled_from([entry.name for entry in MECHANISMS if entry.exact]),
)
def test_prior_and_labels_together_never_cost_more_than_epsilon(epsilon, kind):
    private = LabelRandomizer(epsilon, Domain(0, 400, 41), mechanism=kind).randomize(LABELS)
    assert private.epsilon_exact <= Fraction(str(epsilon))
    assert private.mechanism.proof().holds
    assert set(np.unique(private.values("bins"))) <= set(private.mechanism.outputs)


def test_a_public_prior_costs_nothing():
    public = Prior([0, 100, 400], [1, 1, 1])
    private = LabelRandomizer(1, (0, 400), prior=public).randomize(LABELS)
    assert private.mechanism.epsilon_exact == private.epsilon_exact == 1
    assert private.mechanism.prior == public


def test_fit_gives_the_mechanism_and_spends_only_on_the_prior():
    mechanism = LabelRandomizer(1, (0, 400)).fit(LABELS)
    assert mechanism.prior is not None
    assert mechanism.prior.epsilon_exact + mechanism.epsilon_exact == 1
    assert 0 < mechanism.prior.epsilon_exact <= Fraction(1, 2)


@pytest.mark.parametrize("wrap", [list, np.asarray, pd.Series, pl.Series, pa.array], ids=lambda wrap: wrap.__module__)
def test_labels_of_every_library_are_accepted(wrap):
    private = LabelRandomizer(2, (0, 400)).randomize(wrap(LABELS))
    assert len(private) == LABELS.size
    assert private.values().shape == LABELS.shape


def test_keyed_randomness_needs_ids_and_repeats():
    public = Prior([0, 100, 400], [1, 1, 1])
    randomizer = LabelRandomizer(1, (0, 400), prior=public)
    keyed = KeyedRandomness(b"k" * 32, b"r" * 16)
    first, again = (randomizer.randomize(LABELS, np.arange(LABELS.size), keyed).codes for _ in range(2))
    assert (first == again).all()


def test_values_outside_the_bounds_are_clipped_or_refused():
    wild = np.append(LABELS, [-5.0, 1e9])
    assert len(LabelRandomizer(1, (0, 400)).randomize(wild)) == wild.size
    with pytest.raises(InvalidInput, match="outside"):
        LabelRandomizer(1, (0, 400), out_of_range="error").randomize(wild)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": 0, "domain": (0, 1)}, "greater than 0"),
        ({"epsilon": 1, "domain": None}, "must be given"),
        ({"epsilon": 1, "domain": (1, 0)}, "below"),
        ({"epsilon": 1, "domain": (0, 1), "mechanism": "nonsense"}, "unknown mechanism"),
        ({"epsilon": 1, "domain": (0, 1), "loss": "sqaured"}, "Did you mean 'squared'"),
        ({"epsilon": 1, "domain": (0, 1), "out_of_range": "raise"}, '"clip", "clip-all" or "error"'),
        ({"epsilon": 1, "domain": (0, 1), "prior": [0.5, 0.5]}, "prior must be a Prior, got list"),
    ],
)
def test_bad_settings_are_refused_before_any_label_is_read(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        LabelRandomizer(**arguments)


def test_float_mechanisms_are_refused():
    with pytest.raises(PrivacyRefused, match="comparison only"):
        LabelRandomizer(1, (0, 1), mechanism="laplace")


@pytest.mark.parametrize("labels", [[], [1.0, None], ["a"], [[1.0]]])
def test_bad_labels_are_refused(labels):
    with pytest.raises(InvalidInput):
        LabelRandomizer(1, (0, 400)).randomize(labels)


def test_too_many_cells_say_what_to_change():
    with pytest.raises(InvalidInput, match="at most 100 cells"):
        LabelRandomizer(0.1, Domain(0, 400, 401), mechanism="rr-on-bins").randomize(LABELS[:10_000])


def test_private_labels_hold_no_raw_label():
    secret = 123.456789
    private = LabelRandomizer(1, (0, 400)).randomize(np.full(5000, secret))
    stored = pickle.dumps(private)
    assert np.float64(secret).tobytes() not in stored


def test_a_prior_that_was_paid_for_is_not_taken_for_public():
    paid = Prior([0, 400], [1, 1], Fraction(1, 2))
    with pytest.raises(InvalidInput, match="not public"):
        LabelRandomizer(1, (0, 400), prior=paid)


@pytest.mark.parametrize("records", [1, 90])
def test_few_records_give_a_warning_and_are_still_told_apart(records):
    with pytest.warns(BudgetWarning, match="too few"):
        private = LabelRandomizer(1, (0, 400)).randomize(np.linspace(0, 400, records))
    low, high = private.mechanism.conditional_moments(np.array([0.0, 400.0]))[0]
    assert high - low > 2
    assert private.epsilon_exact == 1


def test_the_obvious_call_gives_a_model_the_slope_of_the_true_labels():
    """The data of the README. The paper's outputs give a slope of about 7 where the truth is 55.4.

    One call is off by 1.1 (standard deviation of 60 calls) and the mean of four by 0.55. The tolerance is five of those.
    """
    generator = np.random.default_rng(0)
    features = generator.normal(size=(100_000, 2))
    labels = np.clip(90 + 60 * features[:, 0] + generator.normal(0, 20, 100_000), 0, 400)
    slopes = LinearRegression().fit(features, labels).coef_
    assert slopes[0] == pytest.approx(55.4, abs=0.1)
    found = []
    for _ in range(4):
        private = LabelRandomizer(1.0, (0, 400)).randomize(labels)
        np.testing.assert_array_equal(np.asarray(private), private.values())
        np.testing.assert_array_equal(private.to_arrow()["private_label"].to_numpy(), private.values())
        found.append(LinearRegression().fit(features, private.values()).coef_)
    np.testing.assert_allclose(np.mean(found, axis=0), slopes, atol=0.05 * slopes[0])


def test_the_papers_mechanism_is_one_word_away_and_its_values_are_debiased():
    mechanism = LabelRandomizer(1, (0, 400), mechanism="rr-on-bins").fit(LABELS)
    assert mechanism.kind == "rr-on-bins"
    np.testing.assert_array_equal(code_values(mechanism), code_values(mechanism, "debiased"))
    assert LabelRandomizer(1, (0, 400)) == LabelRandomizer(1, (0, 400), mechanism="auto")


@pytest.mark.filterwarnings("ignore::labeldp.BudgetWarning")
@pytest.mark.parametrize(("records", "epsilon"), [(2, 0.01), (2, 40), (10, 1), (100, 0.01)])
@pytest.mark.parametrize("domain", [(0, 400), Domain.integers(0, 9), Domain.integers(5, 6), Domain(-1e9, 1e9)], ids=str)
def test_the_default_takes_few_records_small_domains_and_extreme_budgets(domain, records, epsilon):
    bounds = Domain.of(domain)
    labels = np.linspace(bounds.lower, bounds.upper, records)
    private = LabelRandomizer(epsilon, domain).randomize(labels.round() if bounds.whole else labels)
    assert private.epsilon_exact == Fraction(str(epsilon))
    assert private.values().shape == (records,)
    assert np.isfinite(private.values()).all()


def test_a_prior_in_another_unit_is_refused():
    with pytest.raises(InvalidInput, match="same unit"):
        LabelRandomizer(1, (0, 100), prior=Prior([0, 4000, 9000], [1, 1, 1]))
    LabelRandomizer(1, (0, 100), prior=Prior([0, 50, 9000], [1, 1, 1]))


@pytest.mark.parametrize(
    ("loss", "bounds", "said"),
    [
        ("gamma", (0, 100), r"gamma loss is for labels in \(0, inf\).* give a lower bound above 0 \(--lower\)"),
        ("poisson", (-5, 100), "a lower bound of at least 0"),
        ("squared-log", (-1, 100), "a lower bound above -1"),
    ],
)
def test_bounds_that_a_loss_is_not_defined_for_are_refused_at_once(loss, bounds, said):
    with pytest.raises(InvalidInput, match=said):
        LabelRandomizer(1, bounds, loss)


def test_a_coarse_grid_is_pointed_out_for_losses_that_look_at_single_labels():
    with pytest.warns(BudgetWarning, match="rounded to 9 cells only, which is coarse for absolute loss"):
        LabelRandomizer(1, (0, 400), "absolute").rehearse(500)


@pytest.mark.parametrize(
    ("labels", "classes", "said"),
    [
        (["no"] * 30, ["no", "yes"], "all labels are of one class"),
        (["no", "yes"] * 15, ["no", "yes", "maybe"], "no label is of the class 'maybe'"),
        ([0.3] * 30, ["no", "yes"], "not probabilities"),
    ],
)
def test_classes_that_do_not_fit_the_labels_are_refused(labels, classes, said):
    with pytest.raises(InvalidInput, match=said):
        LabelRandomizer(1, Domain.of_classes(classes)).randomize(labels)
