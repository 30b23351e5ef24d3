"""The named losses: values against scikit-learn, thresholds, Assumption 1."""

from __future__ import annotations

from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from labeldp.losses import Custom, Loss, get_loss, loss_examples

NAMES = [*loss_examples(), "pinball(0.9)"]
SKLEARN = {
    "squared": metrics.mean_squared_error,
    "absolute": metrics.mean_absolute_error,
    "pinball(0.3)": lambda y, f: metrics.mean_pinball_loss(y, f, alpha=0.3),
    "poisson": metrics.mean_poisson_deviance,
    "gamma": metrics.mean_gamma_deviance,
    "squared-log": metrics.mean_squared_log_error,
}
positive = st.floats(1e-3, 1e3)


@pytest.mark.parametrize("name", SKLEARN)
def test_values_are_those_of_scikit_learn(name):
    rng = np.random.default_rng(0)
    y, f = rng.gamma(2, 3, size=200) + 1e-3, rng.gamma(2, 3, size=200) + 1e-3
    assert get_loss(name)(f, y).mean() == pytest.approx(SKLEARN[name](y, f), rel=1e-12)


def test_huber_is_half_the_square_inside_and_linear_outside():
    loss = get_loss("huber(1.5)")
    np.testing.assert_allclose(loss([1, 0, 0], [0, 1.5, 3]), [0.5, 1.125, 1.5 * (3 - 0.75)])


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("poisson", lambda f, y: 2 * (y * mpmath.log(y / f) - (y - f))),
        ("gamma", lambda f, y: 2 * (y / f - 1 - mpmath.log(y / f))),
        ("squared-log", lambda f, y: (mpmath.log1p(f) - mpmath.log1p(y)) ** 2),
    ],
)
def test_values_keep_their_digits_near_and_far(name, formula):
    ratios = [1e-30, 1e-3, 0.5, 0.7, 0.76, 0.9, 1 - 1e-9, 1 + 1e-12, 1.1, 1.24, 1.26, 3.0, 1e6]
    for output, ratio in product([1e-12, 0.3, 1.0, 1e9], ratios):
        label = output * ratio
        with mpmath.workprec(400):
            truth = float(formula(mpmath.mpf(output), mpmath.mpf(label)))
        assert float(get_loss(name)(output, label)) == pytest.approx(truth, rel=2e-14), (output, ratio)


@pytest.mark.parametrize("name", NAMES)
@given(a=positive, b=positive)
def test_at_the_threshold_both_outputs_lose_the_same(name, a, b):
    low = min(a, b)
    high = max(a, b, low * (1 + 1e-6))  # closer ones leave too few doubles between them to lose exactly the same
    loss = get_loss(name)
    threshold = loss.threshold(low, high)
    assert low <= threshold <= high
    scale = float(loss(low, high) + loss(high, low))
    assert float(loss(low, threshold)) == pytest.approx(float(loss(high, threshold)), rel=1e-6, abs=1e-9 * scale)


@pytest.mark.parametrize("name", NAMES)
@given(a=positive, b=positive)
def test_the_closed_form_of_the_threshold_is_what_bisection_finds(name, a, b):
    low, high = min(a, b), max(a, b, min(a, b) * 1.01)
    loss = get_loss(name)
    assert float(loss.threshold(low, high)) == pytest.approx(float(Loss.threshold(loss, low, high)), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(a=positive)
def test_the_true_label_as_output_loses_nothing(name, a):
    assert float(get_loss(name)(a, a)) == 0


@pytest.mark.parametrize("name", NAMES)
def test_they_meet_assumption_1(name):
    loss, sizes = get_loss(name), np.geomspace(0.01, 1000, 50)
    both = np.r_[-sizes[::-1], sizes]
    Custom(loss).check_assumption(both[loss.valid_labels.contains(both) & loss.valid_outputs.contains(both)])


def test_the_poisson_log_loss_does_not_meet_assumption_1_but_differs_from_the_deviance_by_a_function_of_the_label():
    loss = get_loss("poisson")
    with pytest.raises(ValueError, match=r"falls as output and label move apart|0 or more"):
        Custom(loss.log_loss).check_assumption([0.5, 5])
    outputs = np.array([0.5, 1, 3])
    for label in (0.0, 0.7, 4.0):
        rest = loss.log_loss(outputs, label) - loss(outputs, label) / 2
        np.testing.assert_allclose(rest, rest[0])


def test_the_expected_poisson_log_loss_follows_from_the_expected_deviance():
    loss, values, masses = get_loss("poisson"), np.array([0.0, 1, 4]), np.array([0.5, 0.3, 0.2])
    deviance, log_loss = masses @ loss(1.3, values), masses @ loss.log_loss(1.3, values)
    assert loss.expected_log_loss(deviance, values, masses) == pytest.approx(log_loss, rel=1e-14)


def test_a_poisson_output_of_zero_suits_labels_of_zero_only():
    loss = get_loss("poisson")
    assert loss([0, 0, 2], [0, 1, 0]).tolist() == [0, np.inf, 4]
    assert loss.threshold(0.0, 3.0) == 0
