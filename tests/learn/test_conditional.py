"""Models for every loss: against truths that are known exactly, and against training with the labels themselves."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor

from labeldp import Domain, InvalidInput, LabelDPRegressor, LabelRandomizer, Ledger, Prior, RepeatedRelease
from labeldp.learn import ConditionalRegressor
from labeldp.learn.boosting import LinearStart
from labeldp.learn.learners import BoostingRegressor
from labeldp.learn.smooth_ridge import SmoothRidge
from labeldp.losses import get_loss
from labeldp.priors import BudgetWarning
from seeded_words import SeededWords

N = 12_000
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(N, 2))
LOCATION = 3.5 + 0.6 * X[:, 0]
Y = np.clip(np.exp(LOCATION + 0.5 * GENERATOR.normal(size=N)), 1, 400)
TRUTHS = {
    "absolute": np.exp(LOCATION),
    "pinball(0.9)": np.exp(LOCATION + 0.5 * norm.ppf(0.9)),
    "pinball(0.1)": np.exp(LOCATION + 0.5 * norm.ppf(0.1)),
    "poisson": np.exp(LOCATION + 0.125),
    "gamma": np.exp(LOCATION + 0.125),
    "squared-log": np.exp(LOCATION),
    "huber(10)": None,
}


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(loss, marks=pytest.mark.slow) if loss in ("pinball(0.1)", "gamma", "squared-log") else loss
        for loss in TRUTHS
    ],
)
def test_every_loss_is_close_to_the_answer_that_is_known(loss):
    model = LabelDPRegressor(BoostingRegressor(), epsilon=4, domain=Domain(1, 400, 400), loss=loss).fit(X, Y)
    predictions = model.predict(X)
    measure = get_loss(loss)
    lost = measure(predictions, Y).mean()
    constant = min(measure(np.full(N, q), Y).mean() for q in np.quantile(Y, np.linspace(0.05, 0.95, 19)))
    if TRUTHS[loss] is None:
        assert lost < 0.8 * constant
        return
    best = measure(np.clip(TRUTHS[loss], 1, 400), Y).mean()
    assert lost < best + 0.15 * (constant - best)


def test_the_model_of_a_loss_beats_the_mean_model_in_that_loss():
    for loss in ("absolute", "pinball(0.9)"):
        own, squared = (
            LabelDPRegressor(BoostingRegressor(), epsilon=1, domain=(1, 400), loss=asked).fit(X, Y)
            for asked in (loss, "squared")
        )
        measure = get_loss(loss)
        assert measure(own.predict(X), Y).mean() < measure(squared.predict(X), Y).mean()


def test_a_callable_is_a_loss_like_its_name():
    def absolute(output, label):
        return np.abs(output - label)

    model = LabelDPRegressor(BoostingRegressor(), epsilon=4, domain=(1, 400), loss=absolute).fit(X, Y)
    assert np.abs(model.predict(X) - np.exp(LOCATION)).mean() < 6


def test_any_message_with_a_prior_serves_any_loss():
    for mechanism in ("auto", "unbiased"):
        private = LabelRandomizer(4, (1, 400), mechanism=mechanism).randomize(Y)
        model = ConditionalRegressor(LinearRegression(), private.mechanism, "pinball(0.9)").fit(X, private.codes)
        assert np.mean(model.predict(X) > Y) == pytest.approx(0.9, abs=0.05)


def test_the_spread_follows_the_features_where_it_does():
    y = np.exp(3.5 + (0.2 + 0.8 * (X[:, 1] > 0)) * np.random.default_rng(1).normal(size=N)).clip(1, 400)
    private = LabelRandomizer(4, (1, 400), loss="pinball(0.9)").randomize(y)
    model = ConditionalRegressor(BoostingRegressor(), private.mechanism, "pinball(0.9)").fit(X, private.codes)
    _, spread = model.predict_scores(X)
    assert spread[X[:, 1] > 0].mean() > 1.5 * spread[X[:, 1] < 0].mean()
    for side in (X[:, 1] > 0, X[:, 1] < 0):
        assert np.mean(y[side] <= model.predict(X[side])) == pytest.approx(0.9, abs=0.06)


@pytest.mark.filterwarnings("ignore::labeldp.priors.private_histogram.BudgetWarning")
def test_deviance_predictions_are_positive_even_where_most_labels_are_zero():
    counts = np.random.default_rng(2).poisson(np.exp(-2 + 1.5 * X[:, 0]))
    for epsilon in (0.5, 4):
        model = LabelDPRegressor(
            BoostingRegressor(), epsilon=epsilon, domain=Domain.integers(0, 30), loss="poisson"
        ).fit(X, counts)
        assert model.predict(X).min() > 0
        assert np.isfinite(get_loss("poisson")(model.predict(X), counts)).all()


def test_tables_and_arrays_and_clones():
    frame = pd.DataFrame({"a": X[:, 0], "shop": np.where(X[:, 1] > 0, "east", "west")})
    model = LabelDPRegressor(BoostingRegressor(), epsilon=4, domain=(1, 400), loss="absolute").fit(frame, Y)
    assert np.corrcoef(model.predict(frame), np.exp(LOCATION))[0, 1] > 0.9
    again = clone(model.estimator_)
    assert isinstance(again, ConditionalRegressor)
    assert again.mechanism == model.mechanism_


@pytest.mark.filterwarnings("ignore::labeldp.priors.private_histogram.BudgetWarning")
@pytest.mark.parametrize("records", [2, 7, 60])
def test_few_records_give_a_model_too(records):
    model = LabelDPRegressor(epsilon=1, domain=(1, 400), loss="absolute").fit(X[:records], Y[:records])
    assert np.isfinite(model.predict(X)).all()


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("sales", 3)
    return ledger


@pytest.mark.parametrize(
    ("estimator", "loss", "said"),
    [
        (PoissonRegressor(), "squared", "PoissonRegressor does not accept negative targets"),
        (PoissonRegressor(), "poisson", "PoissonRegressor does not accept negative targets"),
        (HistGradientBoostingRegressor(loss="poisson"), "poisson", "does not accept negative targets.*loss='poisson'"),
        (
            HistGradientBoostingRegressor(loss="absolute_error"),
            "absolute",
            "loss='absolute_error' does not seek.*'absolute'",
        ),
        (
            HistGradientBoostingRegressor(loss="quantile", quantile=0.9),
            "squared",
            "does not seek the mean.*pinball.0.9.",
        ),
        (QuantileRegressor(), "pinball(0.9)", "QuantileRegressor does not seek.*loss='pinball.0.9.'"),
    ],
)
def test_what_cannot_work_is_refused_before_the_charge(ledger, estimator, loss, said):
    model = LabelDPRegressor(estimator, domain=(0, 400), loss=loss, ledger=ledger, dataset="sales")
    with pytest.raises(InvalidInput, match=said):
        model.fit(X, Y)
    assert ledger.remaining("sales") == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"estimator": PoissonRegressor()},
        {"loss": "absolute", "mechanism": "randomized-response"},
        {"target_values": "distribution"},
        {"loss": "gamma"},
    ],
)
def test_without_a_ledger_nothing_is_drawn_either(settings):
    model = LabelDPRegressor(domain=(0, 400), **settings)
    with pytest.raises(InvalidInput):
        model.fit(X, Y)
    assert not hasattr(model, "epsilon_spent_")
    assert not hasattr(model, "private_labels_")


def test_the_loss_that_a_refused_estimator_stood_for_is_named():
    for estimator, loss in (
        (GammaRegressor(), "gamma"),
        (QuantileRegressor(quantile=0.9), "pinball(0.9)"),
        (HuberRegressor(), "huber(10)"),
        (DummyRegressor(strategy="median"), "absolute"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(f"loss={loss!r}")):
            LabelDPRegressor(estimator, domain=(0, 400)).fit(X, Y)


def test_codes_are_told_from_values_and_labels():
    private = LabelRandomizer(4, (1, 400), loss="absolute").randomize(Y)
    model = ConditionalRegressor(BoostingRegressor(), private.mechanism, "absolute")
    for wrong in (private.values(), Y, np.full(N, -1), private.codes + 1000):
        with pytest.raises(InvalidInput, match="pass the PrivateLabels themselves"):
            model.fit(X, wrong)
    with pytest.raises(InvalidInput, match="does not seek the mean"):
        ConditionalRegressor(QuantileRegressor(), private.mechanism, "absolute").fit(X, private)
    half = N // 2
    model.fit(X[:half], private[:half])
    truth = np.abs(model.predict(X[half:]) - Y[half:]).mean()
    assert -model.score(X[half:], private[half:]) == pytest.approx(truth, rel=0.2)


def test_a_search_over_conditional_models_costs_once():
    private = LabelRandomizer(4, (1, 400), loss="absolute").randomize(Y)
    base = ConditionalRegressor(Ridge(), private.mechanism, "absolute")
    search = GridSearchCV(base, {"estimator__alpha": [1.0, 1e9]}, cv=3).fit(X, private.codes)
    assert search.best_params_ == {"estimator__alpha": 1.0}


def test_mean_predictions_have_the_labels_mean():
    counts = np.where(
        np.random.default_rng(5).random(N) < 0.7, 0, np.random.default_rng(6).poisson(np.exp(1 + 0.4 * X[:, 0]))
    )
    model = LabelDPRegressor(BoostingRegressor(), epsilon=4, domain=Domain.integers(0, 20), loss="poisson").fit(
        X, counts
    )
    assert model.predict(X).mean() == pytest.approx(counts.mean(), rel=0.08)


def test_what_an_object_has_spent_adds_up_and_the_first_repeat_warns():
    model = LabelDPRegressor(LinearRegression(), epsilon=0.5, domain=(0, 400), mechanism="rr-on-bins").fit(X, Y)
    assert model.epsilon_spent_ == 0.5
    with pytest.warns(RepeatedRelease, match="second fit"):
        model.fit(X, Y)
    assert model.epsilon_spent_ == 1.0
    model.fit(X, Y)  # said once
    assert model.epsilon_spent_ == 1.5
    assert not hasattr(clone(model), "epsilon_spent_")


@pytest.mark.parametrize(
    "repeat",
    [
        lambda model: cross_val_score(model, X, Y, cv=2),
        lambda model: GridSearchCV(model, {"epsilon": [1.0, 2.0]}, cv=2).fit(X, Y),
        lambda model: MultiOutputRegressor(model).fit(X, np.stack([Y, Y], axis=1)),
    ],
    ids=["cross_val_score", "GridSearchCV", "MultiOutputRegressor"],
)
def test_clones_count_together(repeat):
    with pytest.warns(RepeatedRelease) as caught:
        repeat(LabelDPRegressor(LinearRegression(), domain=(0, 400), mechanism="rr-on-bins"))
    assert len(caught) == 1


def test_a_line_is_learned_from_few_noisy_labels():
    noisy = 5 * X[:500, 0] + np.random.default_rng(3).normal(0, 20, 500)
    line = LinearStart(HistGradientBoostingRegressor(max_iter=1)).fit(X[:500], noisy)
    assert line.predict([[1.0, 0.0]])[0] - line.predict([[-1.0, 0.0]])[0] == pytest.approx(10, abs=5)


def test_a_line_ignores_codes_missing_numbers_and_absurd_ones():
    codes = np.random.default_rng(4).integers(0, 5, N)
    numbers = np.where(np.arange(N) % 7 == 0, np.nan, X[:, 0])
    matrix = np.column_stack([numbers, codes])
    model = LinearStart(HistGradientBoostingRegressor(), SmoothRidge(1, levels=False)).fit(matrix, LOCATION)
    assert model.line_.used_.tolist() == [True]
    far = model.predict([[1e12, 0.0]])[0]
    assert far < LOCATION.max() + 1  # clipped at three standard deviations


def test_a_public_prior_without_spread_is_no_obstacle():
    model = LabelDPRegressor(epsilon=1, domain=(0, 400), prior=Prior([7.0], [1.0]), loss="absolute").fit(
        X[:100], Y[:100]
    )
    np.testing.assert_allclose(model.predict(X[:5]), 7.0)


@pytest.mark.parametrize("zeros", [0.95, pytest.param(0.9, marks=pytest.mark.slow)])
def test_a_mean_among_many_zeros_is_not_lost(zeros):
    """Poisson loss on a fine grid used to predict a tenth of the mean: the score of an atom had no spread."""
    counts = np.where(np.arange(N) % 100 < 100 * zeros, 0.0, 1.0 + (np.arange(N) % 7 == 0))
    domain = Domain(0, 20, 801)
    prior = Prior(domain.grid, np.bincount(domain.cell(counts), minlength=domain.count))
    randomizer = LabelRandomizer(2, domain, "poisson", prior=prior)
    private = randomizer.randomize(counts, randomness=SeededWords(0))
    model = ConditionalRegressor(LinearRegression(), private.mechanism, "poisson").fit(X, private)
    assert model.predict(X).mean() == pytest.approx(counts.mean(), rel=0.2)


def test_a_mean_that_noise_hides_gives_a_warning():
    amounts = np.where(np.arange(N) % 100 < 3, 300.0, 0.0)
    private = LabelRandomizer(0.5, (0, 5000), "poisson").randomize(amounts)
    with pytest.warns(BudgetWarning, match="hides the mean of the labels"):
        ConditionalRegressor(LinearRegression(), private.mechanism, "poisson").fit(X, private)
