"""Test errors from held-out sums: exact without noise, unbiased with it, covered by their intervals, and paid once."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from labeldp import Domain, InsufficientBudget, InvalidInput, LabelDPError, LabelDPRegressor, Ledger, held_out_error
from labeldp.evaluate import held_out_sums
from labeldp.evaluate.held_out_sums import HeldOutSums
from labeldp.learn import BoostingRegressor
from labeldp.learn.sums.sums_learner import SumsLearner
from labeldp.release import group_sums
from labeldp.release.grid_labels import SumsBudget
from labeldp.release.group_sums import UNITS, Body, Changes
from labeldp.release.noisy_sums import cube_variance
from labeldp.release.sum_queries import SumQueries
from labeldp.sampling.integer_noise import cube_noise, inside

FIGURES = ("mse", "mse_of_mean", "gain", "r2", "mae", "bias")


class Given:
    """A model whose predictions are its features."""

    def predict(self, X):
        return np.asarray(X)


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(group_sums, "cube_noise", lambda count, scale, sides=(): np.zeros(count, np.int64))


@pytest.fixture
def drawn(monkeypatch):
    """All sums that are drawn."""
    found = []
    draw = held_out_sums.add_noise

    def listening(*arguments):
        found.append(draw(*arguments))
        return found[-1]

    monkeypatch.setattr(held_out_sums, "add_noise", listening)
    return found


def records(generator, count):
    """Predictions that explain about half of the labels' variance, in other units and with a tail."""
    predictions = np.minimum(generator.gamma(2, 20, count), 150)
    return predictions, np.clip(0.8 * predictions + generator.exponential(15, count), 0, 200)


def truth(predictions, labels):
    error, variance = np.mean(np.square(predictions - labels)), np.var(labels, ddof=1)
    r2 = 1 - error / variance if variance else math.nan
    absolute, bias = np.mean(abs(predictions - labels)), np.mean(predictions - labels)
    return {"mse": error, "mse_of_mean": variance, "gain": variance - error, "r2": r2, "mae": absolute, "bias": bias}


NUMBERS = st.lists(st.tuples(st.floats(-80, 120), st.floats(-20, 60)), min_size=2, max_size=60)


@pytest.mark.usefixtures("noiseless")
@given(NUMBERS)
def test_without_noise_the_figures_are_exact(pairs):
    predictions, labels = np.array(pairs).T
    found = held_out_error(Given(), predictions, labels, 1, (-20, 60))
    # numbers are rounded to a millionth of their width; the correction for the noise that the mean should have had stays in the others
    width = np.ptp([*predictions, -20, 60]) ** 2
    expected = truth(predictions, labels)
    assert found.mse.value == pytest.approx(expected["mse"], abs=1e-5 * width)


@pytest.mark.usefixtures("noiseless")
def test_without_noise_and_with_many_records_all_figures_are_exact():
    predictions, labels = records(np.random.default_rng(0), 20_000)
    found = held_out_error(Given(), predictions, labels, 10, (0, 200))
    for name, value in truth(predictions, labels).items():
        assert float(getattr(found, name)) == pytest.approx(value, rel=1e-3), name


def test_noise_is_unbiased():
    """The same records again and again: the mean of the figures is theirs, as far as so many draws tell."""
    predictions, labels = records(np.random.default_rng(1), 500)
    expected = truth(predictions, labels)
    drawn = [held_out_error(Given(), predictions, labels, 1, (0, 200)) for _ in range(300)]
    for name in ("mse", "mse_of_mean", "gain", "mae", "bias"):
        values = np.array([getattr(one, name).value for one in drawn])
        assert abs(values.mean() - expected[name]) < 4.5 * values.std() / math.sqrt(len(drawn)), name
        errors = [getattr(one, name).standard_error for one in drawn]
        assert values.std() < 1.15 * np.median(errors), name


@pytest.mark.parametrize(
    ("count", "epsilon"),
    [(100, 0.3), (1000, 1), (2000, 20)],
)
def test_intervals_cover_the_population_s_figures(count, epsilon):
    """Both noise and sampling are in them. Of 200 intervals of 95 % more than 26 miss once in 500,000 times."""
    expected = truth(*records(np.random.default_rng(2), 1_000_000))
    missed = dict.fromkeys(FIGURES, 0)
    for seed in range(200):
        predictions, labels = records(np.random.default_rng([3, seed]), count)
        found = held_out_error(Given(), predictions, labels, epsilon, (0, 200))
        for name in FIGURES:
            one = getattr(found, name)
            missed[name] += not one.lower <= expected[name] <= one.upper
    assert max(missed.values()) <= 26, missed


def test_intervals_shrink_with_records_and_with_epsilon():
    widths = {}
    for count, epsilon in ((1000, 0.1), (1000, 10), (40_000, 10)):
        predictions, labels = records(np.random.default_rng(4), count)
        found = held_out_error(Given(), predictions, labels, epsilon, (0, 200))
        widths[count, epsilon] = [getattr(found, name).standard_error for name in ("mse", "mse_of_mean", "gain")]
    assert np.all(np.array(widths[1000, 0.1]) > 4 * np.array(widths[1000, 10]))
    assert np.all(np.array(widths[1000, 10]) > 2 * np.array(widths[40_000, 10]))


@pytest.mark.parametrize("epsilon", ["0.001", "1", "40"])
def test_all_sums_together_cost_at_most_epsilon_and_nearly_all_of_it(drawn, epsilon):
    predictions, labels = records(np.random.default_rng(5), 300)
    found = held_out_error(Given(), predictions, labels, epsilon, (0, 200))
    spent = sum(sums.epsilon_exact for sums in drawn)
    assert spent <= Fraction(epsilon) == found.epsilon_exact
    assert spent > Fraction(epsilon) * (1 - Fraction(1, 10**9))


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize(
    "where", [(0.1, 0.4), (0.0, 1.0), (0.45, 0.55), (0.6, 0.9), (-0.5, 1.7), (0.3, 0.3), (0.0, 0.0)]
)
def test_no_label_moves_the_sums_by_more_than_their_cost(drawn, where):
    """Every pair of labels on a grid, and of labels next to the predictions: the noise is scaled for their change, in one group only.

    The sums of squares depend on the first sums.
    """
    models = np.stack([np.linspace(*where, 12), np.linspace(*where, 12)[::-1], np.full(12, 0.2)])
    labels, codes = np.linspace(0, 1, 12), np.arange(12) % 3
    largest = 0
    for record in (0, 5, 11):
        drawn.clear()
        for label in {*np.linspace(0, 1, 17), *np.clip(models[:, record], 0, 1)}:
            HeldOutSums.ask(SumsBudget(1), Fraction(1), np.where(np.arange(12) == record, label, labels), models, codes)
        for one, other in itertools.combinations(drawn[::2], 2):
            moved = (one.values - other.values).tolist()
            assert (one.scale, one.body.limits.tolist()) == (other.scale, other.body.limits.tolist())
            assert not any(any(row) for group, row in enumerate(moved) if group != record % 3)
            sides = one.body.sides(record % 3)
            assert max(map(abs, moved[record % 3])) <= one.sensitivity
            assert inside(moved[record % 3], one.sensitivity, sides)
            largest = max(largest, *(abs(np.dot(a, moved[record % 3][:4])) / limit for a, limit in sides))
    assert 0.8 * UNITS < largest <= UNITS == drawn[0].sensitivity  # and the limits are not much wider than they must be


def test_rounding_beyond_the_limits_does_not_show(drawn):
    """Whatever floats do to the numbers of a label, only what the limits allow is summed; the rest counts as the public label."""
    labels = np.full(8, 0.3)
    HeldOutSums.ask(SumsBudget(1), Fraction(1), labels, np.linspace(0.1, 0.4, 8)[None], np.zeros(8, np.int64))
    body = drawn[0].body
    least, weights = np.zeros((len(body.coefficients), 3)), np.full(3, UNITS)
    public = np.zeros((4, 3), np.int64)
    units = np.array([[0, 0, 0, 0], [UNITS, 0, 0, UNITS], [-9, 0, 0, 0]]).T
    kept = Changes(body, least, []).enforced(units, public, weights, np.zeros(3, np.int64))
    assert not kept.any()
    with pytest.raises(InvalidInput, match="too far apart"):
        Changes(body, least, []).enforced(units, units, weights, np.zeros(3, np.int64))


@pytest.mark.parametrize("count", [4, 6])
def test_the_covariance_of_noise_is_that_of_its_draws(count):
    """Over 4,000 draws each variance deviates by about 3 %, one standard deviation."""
    models = np.stack([np.linspace(0.05, 0.4, 50), np.full(50, 0.2)])[: count // 2 - 1]
    epsilon = Fraction(9, 10)
    asked = HeldOutSums.ask(SumsBudget(1), Fraction(1), np.full(50, 0.2), models, np.zeros(50, np.int64)).first
    noise = np.array([cube_noise(count, asked.scale, asked.body.sides(0)) for _ in range(4000)], np.float64)
    expected = asked.body.covariance(0, count, asked.scale)
    found, unit = np.cov(noise.T), np.sqrt(np.diag(expected))
    assert asked.epsilon_exact <= epsilon
    assert found / np.outer(unit, unit) == pytest.approx(expected / np.outer(unit, unit), abs=0.15)
    assert (np.diag(expected)[:4] < 0.8 * cube_variance(count, asked.scale)).any()


def test_a_body_that_is_the_whole_cube_is_the_cube():
    sides = Body(np.array([[1, 0, 0, 0], [1, 1, 1, 1]]), np.array([[UNITS, 4 * UNITS]]))
    assert sides.covariance(0, 4, 1e6) == pytest.approx(np.eye(4) * cube_variance(4, 1e6), rel=1e-9, abs=1)


def test_a_body_too_narrow_for_its_noise_is_refused():
    with pytest.raises(InvalidInput, match="shape of the noise"):
        Body(np.array([[1, 1, 0, 0]]), np.array([[UNITS // 8]]))
    with pytest.raises(InvalidInput, match="limit for each group"):
        Body(np.array([[1, 1, 0, 0]]), np.array([[UNITS, UNITS]]))


def test_perfect_predictions_explain_everything_and_constant_ones_nothing():
    labels = np.random.default_rng(7).uniform(0, 100, 50_000)
    perfect = held_out_error(Given(), labels, labels, 5, (0, 100))
    assert perfect.r2.lower > 0.95
    assert perfect.r2.upper == 1
    assert perfect.mse.lower == 0
    constant = held_out_error(Given(), np.full(50_000, 0.1), labels, 5, (0, 100))
    assert constant.gain.upper < 0
    assert constant.r2.upper < 0
    assert constant.mse.lower > constant.mse_of_mean.upper


def test_the_gain_and_r2_are_about_the_same_mean():
    """Predictions that are too high may be worse than the labels' mean, however well they follow the labels."""
    judged = set()
    for seed in range(60):
        predictions, labels = records(np.random.default_rng([8, seed]), 400)
        found = held_out_error(Given(), predictions + seed, labels, 20, (0, 200))
        if math.isfinite(found.r2.lower):
            judged.add(by_gain := (found.gain.lower > 0, found.gain.upper < 0))
            assert by_gain == (found.r2.lower > 0, found.r2.upper < 0)
    assert judged == {(True, False), (False, False), (False, True)}


def test_where_labels_may_all_be_equal_r2_has_no_lower_end():
    found = held_out_error(Given(), [1.0, 2.0, 3.0], [1.0, 2.0, 2.5], 0.01, (0, 10))
    assert found.r2.lower == -math.inf
    assert found.r2.upper == 1
    assert found.records == 3


@pytest.mark.parametrize("kind", ["sums", "labels", "line"])
def test_any_regressor_can_be_judged(kind):
    generator = np.random.default_rng(9)
    X = generator.random((6000, 2))
    y = np.clip(60 * X[:, 0] + generator.normal(20, 5, 6000), 0, 100)
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    features, domain = (X if kind == "line" else table), (0, 100)
    train, test = (features[:4000], features[4000:]) if kind == "line" else (table.slice(0, 4000), table.slice(4000))
    if kind == "sums":
        model = SumsLearner(train).learn(SumQueries(y[:4000], 4, domain))
    elif kind == "line":
        model = LinearRegression().fit(train, y[:4000])
    else:
        model = LabelDPRegressor(BoostingRegressor(), epsilon=4, domain=domain, mechanism="rr-on-bins").fit(
            train, y[:4000]
        )
    found = held_out_error(model, test, y[4000:], 4, domain)
    exact = truth(model.predict(test), y[4000:])
    assert found.gain.lower > 0
    assert abs(found.mse.value - exact["mse"]) < 6 * found.mse.standard_error


def test_a_domain_with_whole_labels_or_durations_will_do():
    labels = np.arange(400) % 7
    assert held_out_error(Given(), labels / 1.0, labels, 20, Domain.integers(0, 6)).r2.lower > 0.5
    hours = Domain(0, 7, unit="hours")
    assert held_out_error(Given(), labels / 1.0, labels * np.timedelta64(1, "h"), 20, hours).r2.lower > 0.5


def test_the_ledger_is_charged_once(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("held-out", 2)
    predictions, labels = records(np.random.default_rng(10), 100)
    held_out_error(Given(), predictions, labels, "0.7", (0, 200), ledger=ledger, dataset="held-out")
    assert ledger.remaining("held-out") == Fraction("1.3")
    with pytest.raises(InsufficientBudget):
        held_out_error(Given(), predictions, labels, "1.4", (0, 200), ledger=ledger, dataset="held-out")
    assert ledger.remaining("held-out") == Fraction("1.3")


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("size", [1e-99, 1e-30, 1e30, 1e99])
@pytest.mark.parametrize("place", [0, 3])
def test_bounds_of_any_size_give_the_same_figures_in_their_unit(size, place):
    predictions, labels = records(np.random.default_rng(12), 200)
    plain = held_out_error(Given(), predictions, labels, 1, (0, 200))
    low = place * size
    found = held_out_error(Given(), low + predictions / 200 * size, low + labels / 200 * size, 1, (low, low + size))
    assert found.r2.value == pytest.approx(plain.r2.value, rel=1e-3)
    for name in ("mse", "mse_of_mean", "gain"):
        one, other = getattr(found, name), getattr(plain, name)
        for part in ("value", "standard_error", "lower", "upper"):
            assert getattr(one, part) / size**2 == pytest.approx(getattr(other, part) / 200**2, rel=1e-3), (name, part)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "bounds", [(-1e100, 0), (0, 1e-100), (-1e-100, 0), (1e99, 1e100), (-5e99, 5e99), (1e9, 1e9 + 1)]
)
@pytest.mark.parametrize("epsilon", ["1e-9", "40"])
@pytest.mark.parametrize("reach", [0, 1e-8, 1, 9999])
def test_nothing_fails_after_the_charge(bounds, epsilon, reach):
    low, high = bounds
    parts = np.random.default_rng(13).random(50)
    predictions = (low + high) / 2 + reach * (parts - 0.5) * (high - low)
    held_out_error(Given(), predictions, low + parts * (high - low), epsilon, bounds)


def test_bad_input_is_refused_and_costs_nothing(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("held-out", 2)
    good = np.array([1.0, 2.0, 3.0])

    def refused(match, model=None, X=good, y=good, epsilon=1, domain=(0, 10)):
        with pytest.raises(InvalidInput, match=match):
            held_out_error(model or Given(), X, y, epsilon, domain, ledger=ledger, dataset="held-out")

    refused("must be a fitted regressor", model="a name")
    refused("must be a fitted regressor", model=Given.predict)
    refused("gave 2 for 3 labels", X=good[:2])
    refused("predictions", X=np.array([1.0, np.nan, 2.0]))
    refused("predictions must be one-dimensional", X=np.ones((3, 2)))
    refused("far outside of the bounds 0 to 10: index 1", X=np.array([1.0, 1e300, 2.0]))
    refused("at least two", X=good[:1], y=good[:1])
    refused("labels", y=np.array([1.0, np.nan, 2.0]))
    refused("epsilon", epsilon=0)
    refused("epsilon", epsilon=41)
    refused("lower", domain=(10, 0))
    assert ledger.remaining("held-out") == 2
    with pytest.raises(InvalidInput, match="give ledger"):
        held_out_error(Given(), good, good, 1, (0, 10), dataset="held-out")


def test_a_sum_beyond_the_budget_is_not_drawn(monkeypatch, drawn):
    monkeypatch.setattr(held_out_sums, "SPREAD_SHARE", Fraction(-1, 10))
    predictions, labels = records(np.random.default_rng(11), 50)
    with pytest.raises(LabelDPError):
        held_out_error(Given(), predictions, labels, 1, (0, 200))
    assert not drawn
