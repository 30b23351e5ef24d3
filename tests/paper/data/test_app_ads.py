from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from labeldp.paper.data import app_ads_like
from labeldp.paper.data.criteo import CHUNK_ROWS


@pytest.fixture(scope="module")
def clicks():
    return app_ads_like(CHUNK_ROWS + 1000, seed=2)


def test_labels_are_counts_with_a_heavy_zero_and_a_long_tail(clicks):
    labels = clicks.labels
    assert np.array_equal(labels, np.rint(labels))
    assert 0.75 < (labels == 0).mean() < 0.9
    assert labels.min() == 0
    assert 30 < labels.max() <= clicks.upper == 50
    assert labels.var() > 3 * labels.mean()


def test_no_label_depends_on_how_many_follow(clicks):
    assert np.array_equal(app_ads_like(300, seed=2).labels, clicks.labels[:300])
    assert not np.array_equal(app_ads_like(300, seed=3).labels, clicks.labels[:300])


def test_features_lower_the_poisson_loss(clicks):
    matrix, _ = clicks.matrix()
    cut = 40_000
    with threadpool_limits(1):  # OpenMP threads that wait for each other on a busy machine take minutes
        model = HistGradientBoostingRegressor(loss="poisson", max_iter=40, random_state=0)
        predicted = model.fit(matrix[:cut], clicks.labels[:cut]).predict(matrix[cut:])
    labels = clicks.labels[cut:]
    constant = labels.mean()
    learned = np.mean(predicted - labels * np.log(predicted))
    assert learned < 0.85 * np.mean(constant - labels * np.log(constant))
