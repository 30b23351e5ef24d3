"""From names, objects and callables to losses, and from mistakes to helpful refusals."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from labeldp.errors import InvalidInput
from labeldp.losses import Absolute, Custom, Huber, Pinball, SquaredLog, get_loss, loss_examples


@pytest.mark.parametrize("name", loss_examples())
def test_a_losss_name_makes_it_again(name):
    assert get_loss(get_loss(name).name) == get_loss(name)
    assert hash(get_loss(name)) == hash(get_loss(name))


def test_names_are_read_generously():
    assert get_loss(" Pinball( .25 )") == Pinball(0.25)
    assert get_loss("squared_log") == SquaredLog()
    assert get_loss("huber(1e-3)") == Huber(0.001)


def test_a_loss_is_itself_and_a_callable_is_wrapped():
    loss = Absolute()
    assert get_loss(loss) is loss
    custom = get_loss(math.dist)
    assert isinstance(custom, Custom)
    assert custom.name == "function dist"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("sqared", "Did you mean 'squared'"),
        ("mse", "Did you mean 'squared'"),
        ("mae", "Did you mean 'absolute'"),
        ("quantile", r"Did you mean 'pinball\(0\.5\)'"),
        ("quantile(0.9)", r"Did you mean 'pinball\(0\.9\)'"),
        ("Hubber(2)", r"Did you mean 'huber\(1\.5\)'"),
        ("zzz", "Known: squared, absolute"),
        ("pinball", r"needs a finite number, as in 'pinball\(0\.3\)'"),
        ("pinball(x)", "needs a finite number"),
        ("squared(2)", "does not take a number"),
        ("pinball(1.5)", "strictly between 0 and 1"),
        ("huber(0)", "greater than 0"),
        ("huber(inf)", "finite"),
        (7, "a name, a Loss or a callable"),
    ],
)
def test_mistakes_are_explained(text, match):
    with pytest.raises(InvalidInput, match=match):
        get_loss(text)


def test_no_suggestion_where_nothing_is_close():
    with pytest.raises(InvalidInput) as error:
        get_loss("zzz")
    assert "Did you mean" not in str(error.value)


def test_a_custom_losss_threshold_is_found_by_bisection():
    custom, named = Custom(lambda f, y: (f - y) ** 2), get_loss("squared")
    np.testing.assert_allclose(custom.threshold([0, 1], [1, 7]), named.threshold([0, 1], [1, 7]), rtol=1e-14)
    gamma = get_loss("gamma")
    assert Custom(gamma).threshold(2.0, 5.0) == pytest.approx(float(gamma.threshold(2.0, 5.0)), rel=1e-12)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda f, y: np.abs(f - y) - 1, "0 or more"),
        (lambda f, y: np.where(f == y, np.nan, 1.0), "is nan at output"),
        (lambda f, y: np.where(y > f, np.minimum(y - f, np.maximum(2 - (y - f), 0)), 0.0), "falls"),
        (lambda f, y: np.where(f > y, np.abs(np.sin(f - y)), np.abs(f - y)), "falls"),
        (lambda f, y: np.abs(f - y) * (6 - f), "falls"),
        (lambda f, y: np.abs(f - y) * (6 - y), "falls"),
        (lambda f, y: np.abs(f - y) * (1 + f) ** 4 / (1 + y) ** 4, "falls"),
    ],
)
def test_what_is_no_loss_is_refused(function, match):
    with pytest.raises(InvalidInput, match=match):
        Custom(function).check_assumption([0.0, 5.0])


def test_the_pair_shown_really_violates_the_assumption():
    with pytest.raises(InvalidInput) as error:
        Custom(lambda f, y: np.where(f > 3, 1.0, np.abs(f - y))).check_assumption([0.0, 5.0])
    numbers = [float(number) for number in re.findall(r"(?:is|but|output|label) (\d[\d.]*\d|\d)", str(error.value))]
    near_loss, near_output, near_label, far_loss, far_output, far_label = numbers
    assert near_loss > far_loss
    assert (near_output == far_output) != (near_label == far_label)
    assert abs(near_output - near_label) < abs(far_output - far_label)


def test_rounding_noise_is_not_a_violation():
    Custom(lambda f, y: np.maximum(f * f - 2 * f * y + y * y, 0.0)).check_assumption(np.linspace(100, 105, 40))
