"""A scorer for scikit-learn's searches on private labels."""

from __future__ import annotations

import numpy as np
import pytest
from private_populations import DOMAIN, PRIOR, population, randomized
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV

from labeldp import estimate_error
from labeldp.errors import InvalidInput
from labeldp.evaluate import noise_corrected_scorer
from labeldp.mechanisms import RROnBins, Unbiased


@pytest.mark.parametrize("decoder", ["bins", "debiased"])
def test_the_score_is_minus_the_estimated_error(decoder):
    labels, feature = population(np.random.default_rng(9), 20_000)
    private = randomized(RROnBins.optimal(PRIOR, 4), labels)
    values = private.values(decoder)
    model = LinearRegression().fit(feature[:, None], values)
    score = noise_corrected_scorer(private.mechanism, decoder)(model, feature[:, None], values)
    assert -score == pytest.approx(estimate_error(private, model.predict(feature[:, None])).value)


def test_it_scores_against_the_training_values_by_default():
    labels, feature = population(np.random.default_rng(9), 2000)
    private = randomized(RROnBins.optimal(PRIOR, 4), labels)
    model = LinearRegression().fit(feature[:, None], private.values())
    assert noise_corrected_scorer(private.mechanism)(model, feature[:, None], private.values()) < 0
    with pytest.raises(InvalidInput, match="'auto'"):
        noise_corrected_scorer(private.mechanism)(model, feature[:, None], private.values("bins"))


def test_the_scorer_works_in_a_grid_search():
    random = np.random.default_rng(9)
    labels, feature = population(random, 3000)
    mechanism = Unbiased.optimal(PRIOR, 4, domain=DOMAIN)
    values = randomized(mechanism, labels).values()
    search = GridSearchCV(Ridge(), {"alpha": [1e-3, 1e9]}, scoring=noise_corrected_scorer(mechanism))
    search.fit(feature[:, None], values)
    assert search.best_params_ == {"alpha": 1e-3}
    assert search.best_score_ < 0


def test_the_scorer_tells_models_apart_where_noise_takes_their_error_below_zero():
    mechanism = Unbiased.optimal(PRIOR, 0.5, domain=DOMAIN)
    score, random = noise_corrected_scorer(mechanism), np.random.default_rng(4)
    features = np.array([[0.0], [1.0]])
    good, bad = (Ridge(alpha=0).fit(features, ends) for ends in ([0.0, 10.0], [100.0, 0.0]))
    above_zero = 0
    for seed in range(40):
        labels = random.integers(0, 2, 20) * 10.0
        values = randomized(mechanism, labels, seed).values()
        scores = [score(model, labels[:, None] / 10, values) for model in (good, bad)]
        above_zero += scores[0] > 0
        assert scores[0] != scores[1]
    assert above_zero > 5


def test_the_scorer_refuses_numbers_that_are_no_codes():
    mechanism = Unbiased.optimal(PRIOR, 4, domain=DOMAIN)
    model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(InvalidInput, match="not this mechanism's values"):
        noise_corrected_scorer(mechanism)(model, [[0.0], [1.0]], [0.123, 0.456])
