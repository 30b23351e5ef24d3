"""Figures against true labels, compared with scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as known
from sklearn.linear_model import LogisticRegression

from labeldp.evaluate.scoring import class_metrics, metrics

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


@pytest.mark.parametrize("classes", [2, 3])
def test_figures_of_classes_are_those_of_scikit_learn(classes):
    rates = RANDOM.dirichlet(np.ones(classes), 400)
    truth = (rates.cumsum(axis=1) < RANDOM.random((400, 1))).sum(axis=1)
    found = class_metrics(rates, truth)
    last = (truth == classes - 1).astype(int)
    odds = np.log(rates[:, -1] / (1 - rates[:, -1]))[:, None]
    area = known.roc_auc_score(truth, rates[:, 1] if classes == 2 else rates, multi_class="ovr")
    assert found["log loss"] == pytest.approx(known.log_loss(truth, rates))
    assert found["AUC"] == pytest.approx(area)
    assert found["accuracy"] == known.accuracy_score(truth, rates.argmax(axis=1))
    slope = LogisticRegression(C=np.inf, tol=1e-10).fit(odds, last).coef_[0, 0]
    assert found["calibration slope"] == pytest.approx(slope, rel=1e-4)


def test_figures_of_one_class_are_not_defined():
    found = class_metrics(np.tile([0.7, 0.3], (5, 1)), np.zeros(5, int))
    assert (found["AUC"], found["calibration slope"]) == (None, None)
