"""Inference from noisy sums is the textbook's conditioning of Gaussians, done here record by record."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_evidence import VARIANCE, drawn_evidence
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from labeldp import LabelDPRegressor
from labeldp.learn.sums import inference
from labeldp.learn.sums.inference import infer, posterior_given, prior_belief


def conditioned(drawn, variances, rest):
    """The posterior mean and covariance of all effects, with matrices as large as there are records."""
    drawn.variances, drawn.rest = variances, rest
    evidence = drawn.evidence
    weights = drawn.asked(evidence.questions)
    crossed = drawn.prior @ drawn.one_hot.T @ weights
    gain = crossed @ np.linalg.inv(weights.T @ drawn.label_covariance @ weights + np.diag(evidence.noise))
    return gain @ evidence.answers, drawn.prior - gain @ crossed.T


@pytest.mark.parametrize("seed", range(5))
def test_the_posterior_is_the_textbook_s(seed):
    drawn = drawn_evidence(seed)
    found = posterior_given(drawn.evidence, drawn.variances, drawn.rest)
    mean, covariance = conditioned(drawn, drawn.variances, drawn.rest)
    np.testing.assert_allclose(found.effects(drawn.evidence), mean, atol=1e-8)
    spread = found.spread(drawn.evidence)
    np.testing.assert_allclose(spread @ spread.T, covariance, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_with_variances_of_its_own_choice_is_the_textbook_s_too(seed):
    drawn = drawn_evidence(seed)
    found = infer(drawn.evidence, VARIANCE)
    mean, _ = conditioned(drawn, found.variances, found.rest)
    np.testing.assert_allclose(found.effects(drawn.evidence), mean, atol=1e-8)
    assert found.variances[0] == VARIANCE
    assert (found.variances > 0).all()
    assert inference.LEAST_REST <= found.rest / VARIANCE <= inference.MOST_REST


def test_without_answers_nothing_is_known():
    drawn = drawn_evidence(0, asked=False)
    evidence = drawn.evidence
    found = posterior_given(evidence, drawn.variances, drawn.rest)
    assert not found.effects(evidence).any()
    spread = found.spread(evidence)
    np.testing.assert_allclose(spread @ spread.T, drawn.prior, atol=1e-6)


def test_beforehand_columns_are_thought_alike():
    drawn = drawn_evidence(0, asked=False)
    kinds = np.array([block.kind for block in drawn.evidence.blocks])
    found = prior_belief(drawn.evidence, VARIANCE)
    assert len(set(found.variances[kinds == "column"])) == 1
    assert found.variances[kinds == "column"].sum() == pytest.approx(inference.SHARE["column"] * VARIANCE)


@pytest.mark.parametrize("rest", [0.3, 5.0])
@pytest.mark.parametrize("known", [True, False])
def test_slopes_are_those_of_finite_differences(rest, known):
    search = inference._Search(inference.Linearised(drawn_evidence(1).evidence), VARIANCE)
    point = np.append(np.random.default_rng(1).normal(size=len(search.free)), np.log(rest * VARIANCE))
    slopes = search._loss(point, known)[1]
    free = slice(-1 if known else None)
    numeric = approx_fprime(point, lambda x: search._loss(x, known)[0], 1e-6)
    np.testing.assert_allclose(slopes[free], numeric[free], atol=1e-4)


def test_the_loss_is_minus_the_likelihood_where_the_prior_is_flat(monkeypatch):
    monkeypatch.setattr(inference, "SPREAD", {"column": 1e12, "pair": 1e12})
    monkeypatch.setattr(inference, "LEVEL", {"column": 1e12, "pair": 1e12})
    drawn = drawn_evidence(1)
    search = inference._Search(inference.Linearised(drawn.evidence), VARIANCE)
    weights = drawn.asked(drawn.evidence.questions)
    sizes, differences = np.random.default_rng(1).normal(size=(4, len(search.free))), []
    for logs in sizes:
        drawn.variances = search.variances(logs)
        covariance = weights.T @ drawn.label_covariance @ weights + np.diag(drawn.evidence.noise)
        likelihood = multivariate_normal(cov=covariance).logpdf(drawn.evidence.answers)
        differences.append(search._loss(np.append(logs, np.log(drawn.rest)), True)[0] + likelihood)
    np.testing.assert_allclose(differences, differences[0], atol=1e-7)


def test_the_search_ends_where_the_loss_is_flat():
    search = inference._Search(inference.Linearised(drawn_evidence(2).evidence), VARIANCE)
    logs, rest = search.run(search.start(), 0.7 * VARIANCE, rest_is_known=False)
    loss, slopes = search._loss(np.append(logs, np.log(rest)), False)
    assert np.abs(slopes).max() < 0.01 * max(1, abs(loss))


@pytest.mark.slow
def test_clusters_are_not_taken_for_effects():
    # 300 clusters with equal features and labels: sums vary as those of 300 labels do, and no column has an effect.
    generator = np.random.default_rng(0)
    clusters = generator.integers(0, 300, 6000)
    table = generator.normal(size=(300, 4))[clusters]
    labels = np.clip(generator.normal(50, 15, 300)[clusters], 0, 100)
    model = LabelDPRegressor(epsilon=8, domain=(0, 100), method="sums").fit(table, labels)
    assert np.std(model.predict(generator.normal(size=(500, 4)))) < 5
    assert model.estimator_.rest > 5 * np.var(labels)


def test_answers_in_another_unit_give_effects_in_that_unit():
    one, other = drawn_evidence(4).evidence, drawn_evidence(4).evidence
    other.answers, other.noise = 10 * other.answers, 100 * other.noise
    first, second = infer(one, VARIANCE), infer(other, 100 * VARIANCE)
    np.testing.assert_allclose(second.effects(other), 10 * first.effects(one), rtol=0.02, atol=0.02)
