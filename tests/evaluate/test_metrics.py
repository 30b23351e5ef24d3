"""Figures against true labels, compared with scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as known

from labeldp.evaluate.scoring import metrics

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.poisson(3, 500).astype(float)
PREDICTIONS = 0.1 + LABELS * RANDOM.random(500)


def test_they_are_those_of_scikit_learn():
    assert metrics(PREDICTIONS, LABELS) == pytest.approx(
        {
            "mean squared error": known.mean_squared_error(LABELS, PREDICTIONS),
            "root mean squared error": known.root_mean_squared_error(LABELS, PREDICTIONS),
            "mean absolute error": known.mean_absolute_error(LABELS, PREDICTIONS),
            "R squared": known.r2_score(LABELS, PREDICTIONS),
            "mean bias": PREDICTIONS.mean() - LABELS.mean(),
            "mean Poisson deviance": known.mean_poisson_deviance(LABELS, PREDICTIONS),
        }
    )


def test_what_is_not_defined_is_none():
    assert metrics(PREDICTIONS, np.full(500, 2.0))["R squared"] is None
    assert metrics(PREDICTIONS - 1, LABELS)["mean Poisson deviance"] is None
    assert metrics(PREDICTIONS, LABELS - 1)["mean Poisson deviance"] is None
