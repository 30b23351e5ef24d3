"""Which estimators of scikit-learn can be stored, of all that it has."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.utils import all_estimators

from labeldp.learn.stored.codec import NotStorable
from labeldp.learn.stored.skops_file import COMPILED, PACKAGES, from_skops, to_skops

EXCLUDED = {
    "calibration": "classifiers only",
    "cluster": "compiled trees and neighbours",
    "covariance": "no regressor, and no part of one",
    "discriminant_analysis": "classifiers only",
    "ensemble": "compiled trees; histogram boosting has an entry of its own",
    "feature_extraction": "text and images, which are no features here",
    "frozen": "a wrapper that hides what it holds from clone",
    "gaussian_process": "fitted ones hold a random state",
    "manifold": "compiled neighbours, and most cannot predict for new rows",
    "mixture": "no regressor, and no part of one",
    "model_selection": "fitted searches hold masked arrays: store their best_estimator_",
    "multiclass": "classifiers only",
    "multioutput": "more than one number for each row",
    "naive_bayes": "classifiers only",
    "neighbors": "compiled neighbours",
    "neural_network": "fitted ones hold a random state",
    "semi_supervised": "classifiers only",
    "svm": "compiled support vectors",
    "tree": "compiled trees",
}
REFUSED = {
    **dict.fromkeys(COMPILED, "not on the list"),
    **dict.fromkeys(("PoissonRegressor", "GammaRegressor", "TweedieRegressor"), "_loss"),  # our list names them
    **dict.fromkeys(
        ("GenericUnivariateSelect", "SelectFdr", "SelectFpr", "SelectFwe", "SelectKBest", "SelectPercentile"),
        "f_classif",
    ),
    "SparseRandomProjection": "SparseMatrixNode",
    "SplineTransformer": "BSpline",
}
"""Estimators of the listed packages that cannot be stored, and what stands in the way."""
SEVERAL_OUTPUTS = {"MultiTaskElasticNet", "MultiTaskElasticNetCV", "MultiTaskLasso", "MultiTaskLassoCV"}
FOR_LABELS = {"LabelBinarizer", "LabelEncoder", "MultiLabelBinarizer"}
ARGUMENTS = {
    "ColumnTransformer": {"transformers": [("scaled", StandardScaler(), [0])]},
    "FeatureUnion": {"transformer_list": [("scaled", StandardScaler())]},
    "GaussianRandomProjection": {"n_components": 2},
    "Pipeline": {"steps": [("scaled", StandardScaler()), ("line", Ridge())]},
    "SparseRandomProjection": {"n_components": 2},
    "SparseCoder": {"dictionary": np.eye(3)},
    **{name: {"n_components": 1} for name in ("CCA", "PLSCanonical", "PLSSVD")},
    **{name: {"estimator": Ridge()} for name in ("RFE", "RFECV", "SelectFromModel", "SequentialFeatureSelector")},
}
RANDOM = np.random.default_rng(0)
X = np.abs(RANDOM.normal(size=(40, 3))) + 0.1
Y = np.repeat([1.0, 2.0, 3.0, 4.0], 10)


def package(kind):
    return kind.__module__.split(".")[1]


FOUND = {
    name: kind
    for sort in ("regressor", "transformer")
    for name, kind in all_estimators(sort)
    if package(kind) in PACKAGES and name not in SEVERAL_OUTPUTS | FOR_LABELS
}


def test_every_package_is_listed_or_left_out_for_a_reason():
    assert {package(kind) for _, kind in all_estimators()} == PACKAGES | EXCLUDED.keys()
    assert not PACKAGES & EXCLUDED.keys()


def test_the_estimators_that_are_refused_exist():
    assert set(FOUND) >= REFUSED.keys()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(FOUND))
def test_a_fitted_estimator_comes_back_or_is_refused_for_a_known_reason(name):
    features = X[:, :1] if name == "IsotonicRegression" else X @ X.T if name == "KernelCenterer" else X
    model = FOUND[name](**ARGUMENTS.get(name, {})).fit(features, Y)
    if name in REFUSED:
        with pytest.raises(NotStorable, match=REFUSED[name]):
            to_skops(model, "model")
        return
    loaded = from_skops(to_skops(model, "model"))
    use = "predict" if hasattr(model, "predict") else "transform"
    expected, found = (getattr(each, use)(features) for each in (model, loaded))
    if hasattr(expected, "toarray"):
        expected, found = expected.toarray(), found.toarray()
    np.testing.assert_array_equal(found, expected)
