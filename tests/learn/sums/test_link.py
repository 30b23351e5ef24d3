"""Effects that multiply, and two classes: a link is found where it is right, and nowhere else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from drawn_evidence import drawn_evidence
from scipy.special import expit

from labeldp import Domain
from labeldp.learn.stored.model_file import from_bytes, to_bytes
from labeldp.learn.sums.inference import Linearised, Link
from labeldp.learn.sums.sums_learner import SumsLearner
from labeldp.release.sum_queries import SumQueries

ROWS = 4000
GENERATOR = np.random.default_rng(3)
TABLE = pa.table({name: GENERATOR.normal(size=ROWS) for name in "abc"} | {"shop": GENERATOR.choice(list("xyz"), ROWS)})
SCORE = (
    0.5 * TABLE["a"].to_numpy()
    + 0.4 * TABLE["b"].to_numpy()
    - 0.3 * TABLE["c"].to_numpy()
    + 0.5 * (np.array(TABLE["shop"].to_pylist()) == "x")
)
MULTIPLIED = np.clip(20 * np.exp(SCORE) * GENERATOR.gamma(10, 0.1, ROWS), 0, 400)
ADDED = np.clip(150 + 40 * SCORE + GENERATOR.normal(0, 20, ROWS), 0, 400)
RATES = expit(3 * SCORE - 2)
CLASSES = (GENERATOR.random(ROWS) < RATES).astype(float)


def learned(labels, epsilon=8, bounds=(0, 400)):
    return SumsLearner(TABLE).learn(SumQueries(labels, epsilon, bounds))


@pytest.fixture(scope="module")
def multiplied():
    return learned(MULTIPLIED)


@pytest.fixture(scope="module")
def classes():
    return learned(CLASSES, bounds=Domain.integers(0, 1))


@pytest.fixture(params=["multiplied", "classes"])
def bent(request):
    return request.getfixturevalue(request.param)


def test_effects_that_multiply_are_found(multiplied):
    truth = 20 * np.exp(SCORE)
    assert multiplied.link.name in ("log", "logit")  # far below its upper end, a logit multiplies too
    assert np.mean((multiplied.predict(TABLE) - truth) ** 2) < 0.1 * truth.var()


def test_effects_that_add_up_are_left_alone():
    model = learned(ADDED)
    assert model.link == Link()
    assert np.mean((model.predict(TABLE) - 150 - 40 * SCORE) ** 2) < 0.1 * np.var(40 * SCORE)


def log_loss(rates):
    return -np.mean(CLASSES * np.log(rates) + (1 - CLASSES) * np.log1p(-rates))


def test_two_classes_have_odds_that_multiply(classes):
    rates = classes.predict(TABLE)
    assert classes.link == Link("logit", classes=True)
    assert 0 < rates.min() <= rates.max() < 1
    assert rates.mean() == pytest.approx(CLASSES.mean(), abs=0.01)
    assert log_loss(rates) - log_loss(RATES) < 0.03 * (log_loss(CLASSES.mean()) - log_loss(RATES))


@pytest.mark.parametrize("rate", [0, 1])
def test_labels_of_one_class_still_give_rates_inside(rate):
    rates = learned(np.full(ROWS, float(rate)), 0.1, Domain.integers(0, 1)).predict(TABLE)
    assert 0 < rates.min() <= rates.max() < 1
    assert abs(rates.mean() - rate) < 0.1


@pytest.mark.slow
def test_labels_between_bounds_that_saturate_get_a_logit_link():
    means = 400 * expit(3 * SCORE)
    model = learned(np.clip(means + GENERATOR.normal(0, 10, ROWS), 0, 400))
    assert model.link.name == "logit"
    assert np.mean((model.predict(TABLE) - means) ** 2) < 0.02 * means.var()


def test_contributions_add_up_to_the_prediction(bent):
    parts = bent.contributions(TABLE)
    np.testing.assert_allclose(sum(parts.values()), bent.unbounded(TABLE))
    assert np.ptp(parts["mean"]) == 0


def test_intervals_contain_the_prediction_and_are_wider_for_larger_means(multiplied):
    low, high = multiplied.predict_interval(TABLE).T
    predicted = multiplied.predict(TABLE)
    assert ((low <= predicted) & (predicted <= high)).all()
    assert np.corrcoef(predicted, multiplied.uncertainty(TABLE))[0, 1] > 0.5


def test_effects_are_shown_in_the_unit_of_the_labels(multiplied):
    effect = next(one for one in multiplied.shown_effects() if one.name == "a")
    assert np.ptp(effect.values) > 10
    assert (effect.errors > 0).all()


def test_a_file_keeps_the_link(bent):
    loaded = from_bytes(to_bytes(bent))
    assert loaded.link == bent.link
    np.testing.assert_array_equal(loaded.predict(TABLE), bent.predict(TABLE))


@pytest.mark.parametrize("seed", range(3))
def test_the_identity_link_is_linear_around_any_effects(seed):
    evidence = drawn_evidence(seed).evidence
    effects = np.random.default_rng(seed).normal(size=evidence.records)
    plain, around = Linearised(evidence), Linearised(evidence, Link(), evidence.offset, effects)
    for name in ("images", "shared", "answers"):
        np.testing.assert_allclose(getattr(around, name), getattr(plain, name), atol=1e-9)


def test_weights_of_one_count_records():
    evidence = drawn_evidence(0).evidence
    np.testing.assert_array_equal(evidence.weighted(np.ones(evidence.records)), evidence.gram)


@pytest.mark.parametrize("link", [Link(), Link("log", 3.0), Link("logit", 3.0, 5.0)])
def test_slopes_are_those_of_finite_differences(link):
    score = np.linspace(-2, 2, 9)
    slope = (link.mean(score + 1e-6) - link.mean(score - 1e-6)) / 2e-6
    np.testing.assert_allclose(link.slope(score), slope, rtol=1e-6)
    np.testing.assert_allclose([link.score(mean) for mean in link.mean(score)], score)


@pytest.mark.parametrize("seed", range(3))
def test_strong_effects_on_a_rare_class_are_not_overshot(seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(6000, 3))
    rates = expit(3 * X[:, 0] - 6)
    hits = (generator.random(6000) < rates).astype(float)
    found = SumsLearner(X).learn(SumQueries(hits, 0.5, Domain.integers(0, 1))).predict(X)
    lost = [-np.mean(hits * np.log(p) + (1 - hits) * np.log1p(-p)) for p in (rates, found, hits.mean())]
    assert lost[1] - lost[0] < 0.4 * (lost[2] - lost[0])
