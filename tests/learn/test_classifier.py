"""LabelDPClassifier: scikit-learn's own checks, classes of any type, calibrated rates, and what is refused before the charge."""

from __future__ import annotations

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from labeldp import Domain, LabelDPClassifier, LabelRandomizer, Ledger
from labeldp.errors import ClassesWarning, InsufficientBudget, InvalidInput
from labeldp.learn import BoostingRegressor
from labeldp.learn.class_rates import ClassRates, base_rates
from labeldp.learn.method import Method, labels_pay, labels_worth
from labeldp.learn.stored.model_file import from_bytes, to_bytes
from labeldp.mechanisms import RandomizedResponse
from labeldp.mechanisms.decoding import indicator_values

pytestmark = [
    pytest.mark.filterwarnings("ignore::labeldp.errors.RepeatedRelease"),
    pytest.mark.filterwarnings("ignore::labeldp.errors.ClassesWarning"),
]

NEED_DETERMINISM = {"check_classifier_data_not_an_array", "check_supervised_y_2d", "check_fit_idempotent"}
NEED_EQUAL_FITS = {
    "check_sample_weight_equivalence_on_dense_data": "rows of weight zero fall into folds too",
    "check_sample_weight_equivalence_on_sparse_data": "rows of weight zero fall into folds too",
}


@parametrize_with_checks([LabelDPClassifier(LinearRegression(), epsilon=40)])
def test_scikit_learn_checks_pass_where_noise_is_negligible(estimator, check):
    if reason := NEED_EQUAL_FITS.get(check.func.__name__):
        pytest.skip(reason)
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([LabelDPClassifier(epsilon=1), LabelDPClassifier(epsilon=40, method="sums")])
def test_scikit_learn_checks_pass_but_for_those_that_need_determinism(estimator, check):
    if check.func.__name__ in NEED_DETERMINISM or check.func.__name__ in NEED_EQUAL_FITS:
        pytest.skip("compares two fits, and every fit draws new noise")
    if estimator.method == "sums" and "sample_weight" in check.func.__name__:
        pytest.skip("sums refuse sample weights")
    if check.keywords.get("readonly_memmap"):
        pytest.skip("slow; the test above has this check")
    check(estimator)


GENERATOR = np.random.default_rng(5)
ROWS = 6000
X = GENERATOR.normal(size=(ROWS, 3))
RATES = expit(2 * X[:, 0] - X[:, 1] - 1)
Y = (GENERATOR.random(ROWS) < RATES).astype(int)
NAMES = np.array(["no", "yes"])
FAST = BoostingRegressor(random_state=0)


def excess(rates):
    """The log loss above that of the true rates, as a share of that of the mean rate."""
    best, mean = log_loss(Y, RATES), log_loss(Y, np.full(ROWS, Y.mean()))
    return (log_loss(Y, rates) - best) / (mean - best)


@pytest.mark.parametrize(
    "labels",
    [
        Y,
        Y == 1,
        NAMES[Y],
        Y.astype(float),
        2 * Y - 1,
        pd.Series(NAMES[Y], dtype="category"),
        pa.array(NAMES[Y]),
        list(NAMES[Y]),
        pd.Series(Y == 1),
        pa.array(Y == 1),
    ],
    ids=["0/1", "booleans", "text", "floats", "signs", "pandas", "arrow", "list", "pandas booleans", "arrow booleans"],
)
def test_classes_may_be_of_any_type(labels):
    model = LabelDPClassifier(FAST, epsilon=4, method="labels").fit(X, labels)
    assert model.classes_.tolist() == sorted(np.unique(np.asarray(labels)).tolist())
    assert model.classes_.dtype.kind == np.asarray(labels).dtype.kind.replace("O", "U")
    assert (model.predict(X) == np.asarray(labels)).mean() == model.score(X, np.asarray(labels)) > 0.75
    assert excess(model.predict_proba(X)[:, 1]) < 0.2
    np.testing.assert_allclose(
        model.decision_function(X), np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0])
    )


@pytest.mark.parametrize("epsilon", [0.2, 8])
@pytest.mark.parametrize("method", ["sums", "labels"])
def test_rates_are_inside_and_their_mean_is_the_private_base_rate(method, epsilon):
    model = LabelDPClassifier(FAST if method == "labels" else None, epsilon=epsilon, method=method).fit(X, Y)
    rates = model.predict_proba(np.vstack([X, 1e6 * X[:10]]))
    assert 0 < rates.min() <= rates.max() < 1
    np.testing.assert_allclose(rates.sum(axis=1), 1)
    if method == "labels":
        np.testing.assert_allclose(rates[:ROWS].mean(axis=0), model.estimator_.rates_, atol=1e-6)
    assert abs(rates[:ROWS, 1].mean() - Y.mean()) < 0.5 / (epsilon * np.sqrt(ROWS)) * 6


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_indicator_values_are_unbiased_for_every_class(classes):
    mechanism = RandomizedResponse(Domain.integers(0, classes - 1), 1)
    expected = mechanism.matrix(mechanism.outputs) @ indicator_values(mechanism)
    np.testing.assert_allclose(expected, np.eye(classes), atol=1e-12)


def test_base_rates_are_the_means_where_these_are_precise_and_positive_elsewhere():
    precise = np.repeat([[1.0, 0.0], [0.0, 1.0]], [7000, 3000], axis=0)
    np.testing.assert_allclose(base_rates(precise, np.ones(10_000)), [0.7, 0.3], atol=1e-4)
    noisy = np.column_stack([1 - (v := GENERATOR.normal(-0.5, 5, 100)), v])
    assert 0 < base_rates(noisy, np.ones(100))[1] < 0.5


def test_calibration_draws_overconfident_models_back():
    model = LabelDPClassifier(DecisionTreeRegressor(random_state=0), epsilon=1, method="labels").fit(X, Y)
    slope = model.estimator_.slopes_[0]
    assert slope < 0.6
    assert excess(model.predict_proba(GENERATOR.permutation(X))[:, 1]) < 2
    assert roc_auc_score(Y, LabelDPClassifier(FAST, epsilon=1, method="labels").fit(X, Y).predict_proba(X)[:, 1]) > 0.75


def test_counts_of_the_classes_decide_between_the_methods_within_epsilon(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", budget=4)
    model = LabelDPClassifier(epsilon="3.5", ledger=ledger, dataset="visits")
    found = model._strategy(
        Method("either", ""), LabelRandomizer("3.5", Domain.of_classes(["0", "1"])), *either_of(model)
    )
    private = found.release(lambda _: None)
    assert found.sums.queries.released.spent + private.mechanism.epsilon_exact <= Fraction(7, 2)
    assert private.mechanism.epsilon_exact == found.sums.queries.remaining
    assert ledger.remaining("visits") == Fraction(1, 2)


def test_few_labels_or_a_rare_class_are_summed():
    assert LabelDPClassifier(epsilon=0.5).fit(X, Y).method_.name == "sums"
    assert labels_pay(ROWS, 4, np.array([0.7, 0.3]))
    assert not labels_pay(ROWS, 4, np.array([0.99, 0.01]))
    pays = {k: [labels_pay(2000 * n, 2, np.full(k, 1 / k)) for n in (1, 5, 1000)] for k in (2, 3, 10)}
    assert pays == {2: [False, True, True], 3: [False, True, True], 10: [False, False, True]}


@pytest.mark.parametrize("classes", [2, 3, 20])
def test_the_worth_of_labels_is_that_of_randomized_response(classes):
    mechanism = RandomizedResponse(Domain.integers(0, classes - 1), 1)
    values = indicator_values(mechanism)[:, 0]
    probabilities = mechanism.matrix(mechanism.outputs)[1]  # a label of another class
    noise = probabilities @ np.square(values) - (probabilities @ values) ** 2
    assert labels_worth(1000, 1.0, classes) == pytest.approx(1000 / noise, rel=1e-6)


BAD = {
    "one class": (NAMES[0 * Y], None, "one class"),
    "one number": (0 * Y, None, "one class"),
    "a third class": (np.where(X[:, 0] > 2, "maybe", NAMES[Y]), ["no", "yes"], "must be of 2 classes"),
    "a class that does not occur": (NAMES[Y], ["no", "unknown", "yes"], "no label is of the class 'unknown'"),
    "probabilities": (RATES, None, "not probabilities"),
    "probabilities and names": (RATES, ["no", "yes"], "not probabilities"),
    "a mixture": (np.array([1, "no"] * 3000, object), None, "mixture"),
    "missing text": (np.array(["yes", "no", None] * 2000, object), None, "mixture"),
    "missing numbers": (np.where(X[:, 0] > 2, np.nan, Y), None, "NaN"),
    "too many": (np.arange(ROWS) % 30, None, "more than 20 classes"),
    "one name": (NAMES[Y], ["no"], "2 to 20"),
    "a name for both": (NAMES[Y], "no,yes", "must be a list"),
    "the same name": (NAMES[Y], ["no", "no"], "once"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_labels_are_refused_before_the_charge(case, tmp_path):
    labels, classes, words = BAD[case]
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", budget=4)
    model = LabelDPClassifier(epsilon=1, classes=classes, ledger=ledger, dataset="visits")
    with pytest.raises(ValueError, match=words) as refused:
        model.fit(X, labels)
    assert "maybe" not in str(refused.value)
    assert ledger.remaining("visits") == 4
    assert not hasattr(model, "epsilon_spent_")


def test_a_ledger_refuses_and_a_failed_fit_keeps_the_model(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", budget=1)
    model = LabelDPClassifier(epsilon=1, ledger=ledger, dataset="visits").fit(X, Y)
    with pytest.raises(InsufficientBudget):
        model.fit(X, NAMES[Y])
    assert model.classes_.tolist() == [0, 1]
    assert b"yes" not in pickle.dumps(model)  # NAMES were read and not released
    assert model.predict_proba(X).shape == (ROWS, 2)


def test_only_classes_that_are_read_off_the_labels_cause_a_warning():
    model = LabelDPClassifier(FAST, epsilon=1, method="labels")
    with pytest.warns(ClassesWarning, match="name them"):
        clone(model).fit(X, NAMES[Y])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassesWarning)
        for labels, classes in ((Y, None), (Y == 1, None), (NAMES[Y], ["yes", "no"])):
            LabelDPClassifier(FAST, epsilon=1, method="labels", classes=classes).fit(X, labels)


LETTERS = ["a", "b", "c"]
TRUTH = softmax(1.5 * np.column_stack([X[:, 0], X[:, 1], np.zeros(ROWS)]), axis=1)
THREE = np.array(LETTERS)[(TRUTH.cumsum(axis=1) < GENERATOR.random((ROWS, 1))).sum(axis=1)]


@pytest.mark.parametrize("persons", [None, np.arange(ROWS) // 2])
@pytest.mark.parametrize("method", ["sums", "labels"])
def test_three_classes_have_rates_that_add_up(method, persons, tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("fruit", budget=10, unit="record" if persons is None else "person")
    model = LabelDPClassifier(
        FAST if method == "labels" else None,
        epsilon=3 if persons is None else 6,
        classes=LETTERS,
        method=method,
        ledger=ledger,
        dataset="fruit",
    ).fit(X, THREE, persons=persons)
    assert ledger.remaining("fruit") == 10 - model.epsilon_spent_ == 10 - model.epsilon
    rates = model.predict_proba(np.vstack([X, 1e6 * X[:10]]))
    np.testing.assert_allclose(rates.sum(axis=1), 1)
    assert 0 < rates.min() <= rates.max() < 1
    if method == "labels":
        if persons is None:
            np.testing.assert_allclose(rates[:ROWS].mean(axis=0), model.estimator_.rates_, atol=1e-6)
    else:
        assert model.sums_.proof().holds
        assert model.sums_.epsilon_exact == model.epsilon
    np.testing.assert_allclose(rates[:ROWS].mean(axis=0), TRUTH.mean(axis=0), atol=0.05)
    whole = log_loss(THREE, np.tile(TRUTH.mean(axis=0), (ROWS, 1))) - log_loss(THREE, TRUTH)
    assert log_loss(THREE, rates[:ROWS]) - log_loss(THREE, TRUTH) < 0.15 * whole
    assert model.decision_function(X).shape == (ROWS, 3)


def test_the_mean_rates_of_sums_are_the_private_base_rates_and_effects_are_found():
    names = np.array(["red", "green", "blue"])
    features = pd.DataFrame({"shade": names[np.arange(ROWS) % 3], "size": X[:, 0]})
    labels = np.where(GENERATOR.random(ROWS) < 0.6, names[np.arange(ROWS) % 3], names[(np.arange(ROWS) + 1) % 3])
    model = LabelDPClassifier(epsilon=4, classes=[*names, "grey"], method="sums").fit(
        features, np.where(np.arange(ROWS) % 10 == 0, "grey", labels)
    )
    rates = pd.DataFrame(model.predict_proba(features), columns=model.classes_).groupby(features["shade"]).mean()
    assert {shade: rates.loc[shade].idxmax() for shade in names} == dict(zip(names, names, strict=True))
    np.testing.assert_allclose(rates["grey"], 0.1, atol=0.04)
    assert model.estimator_.of("red").shown_effects()[0].name == "shade"
    assert model.plot_effects(of="red").axes
    with pytest.raises(InvalidInput, match="unknown class"):
        model.plot_effects(of="purple")


@pytest.mark.parametrize("rows", [12, 60])
@pytest.mark.parametrize("epsilon", [0.01, 1, 40])
def test_a_few_noisy_records_of_many_classes_still_make_a_model(rows, epsilon):
    features = np.column_stack([np.arange(rows), np.arange(rows) % 4])
    for classes in (3, 12):
        labels = np.arange(rows) % classes
        model = LabelDPClassifier(epsilon=epsilon, classes=range(classes), method="sums").fit(features, labels)
        rates = model.predict_proba(np.vstack([features, 1e6 * features]))
        assert 0 < rates.min() <= rates.max() < 1
        np.testing.assert_allclose(rates.sum(axis=1), 1)


def test_counts_of_many_classes_decide_within_epsilon():
    model = LabelDPClassifier(epsilon=6, classes=LETTERS).fit(X, THREE)
    assert model.method_.name == "labels"
    assert model.sums_.spent + model.mechanism_.epsilon_exact <= 6
    rare = np.where(np.arange(ROWS) < 40, THREE, "a")
    model = LabelDPClassifier(epsilon=3, classes=LETTERS).fit(X, rare)
    assert model.method_.name == "sums"
    assert "rarest class" in model.method_.why
    assert model.sums_.spent <= 3


@pytest.mark.parametrize("labels", [NAMES[Y], THREE], ids=["two", "three"])
@pytest.mark.parametrize("method", ["sums", "labels"])
def test_files_and_pickles_keep_the_classifier(method, labels):
    model = LabelDPClassifier(FAST if method == "labels" else None, epsilon=2, method=method).fit(X, labels)
    for copy in (from_bytes(to_bytes(model)), pickle.loads(pickle.dumps(model))):
        assert copy.classes_.tolist() == sorted(set(labels))
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


def test_rates_of_a_model_are_those_of_its_parts():
    table = pa.table({"a": X[:, 0], "shop": NAMES[(X[:, 1] > 0).astype(int)]})
    mechanism = RandomizedResponse(Domain.of_classes(["no", "yes"]), 2)
    model = ClassRates(FAST, mechanism).fit(table, mechanism.codes(Y.astype(float)))
    assert model.steps(ROWS) == 4
    assert from_bytes(to_bytes(model)).predict_proba(table)[:, 1] == pytest.approx(model.predict_proba(table)[:, 1])


def either_of(model):
    """What a fit passes to a strategy for `Y`."""
    labels = model._checked(X, Y)
    return X, labels, {}, None


def test_pairs_of_columns_are_asked_for_only_where_records_and_epsilon_allow():
    """A product without effects of its columns is found with much information; with little, all of ε is for columns."""
    product = (np.random.default_rng(1).random(ROWS) < expit(3 * np.sign(X[:, 0] * X[:, 1]))).astype(int)
    model = LabelDPClassifier(epsilon=8, method="sums").fit(X, product)
    assert model.estimator_.pairs
    assert roc_auc_score(product, model.predict_proba(X)[:, 1]) > 0.85
    assert not LabelDPClassifier(epsilon=0.5, method="sums").fit(X, product).estimator_.pairs


@pytest.mark.parametrize("names", [["stayed", "came back"], ["yes", "no"]])
def test_true_is_the_second_class_unless_the_names_say_which(names):
    """In the order of the user: `classes_` is sorted."""
    y = np.arange(600) % 10 == 0
    model = LabelDPClassifier(epsilon=20, classes=names, method="labels").fit(np.zeros((600, 1)), y)
    rates = dict(zip(model.classes_.tolist(), model.predict_proba(np.zeros((1, 1)))[0], strict=True))
    assert rates["yes" if "yes" in names else "came back"] < 0.5
