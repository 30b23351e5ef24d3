"""A `LabelDPRegressor` holds what comes from one release, whatever fits failed before: its pickle carries ε and not 2ε."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsRegressor

from labeldp import InvalidInput, LabelDPRegressor, Ledger, RepeatedRelease

pytestmark = pytest.mark.filterwarnings("ignore::labeldp.RepeatedRelease")

X = np.random.default_rng(0).normal(size=(600, 2))
Y = 200 + 50 * X[:, 0]


class Neighbours(KNeighborsRegressor):
    """Keeps its targets, as neighbours do, and fails on private values if `moody` says so. A rehearsal has two targets."""

    def __init__(self, moody=None):
        super().__init__(n_neighbors=5)
        self.moody = moody

    def fit(self, X, y):
        super().fit(X, y)
        if self.moody is not None and np.unique(y).size > 2:
            raise self.moody
        return self


FAILURES = {"an error": ValueError("not in the mood"), "an interrupt": KeyboardInterrupt()}


def regressor(moody=None, **settings):
    return LabelDPRegressor(Neighbours(moody), epsilon=1, domain=(0, 400), mechanism="discrete-laplace", **settings)


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "ledger.db")
    made.add_dataset("sales", 9)
    return made


def traces(private):
    """The bytes of a release: its codes, and the values that a model is trained on."""
    return private.codes.tobytes(), private.values("auto").tobytes()


def stored(model):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    return pickle.dumps(model), buffer.getvalue()


def held(model, release):
    """Whether a pickle or joblib's file of the model holds any of a release."""
    return any(trace in data for data in stored(model) for trace in release)


def failed(moody=FAILURES["an error"], **settings):
    """A regressor whose training failed, and the bytes of the release that it was given."""
    model = regressor(moody, **settings)
    with pytest.raises(type(moody)):
        model.fit(X, Y)
    release = traces(model.private_labels_)
    assert held(model, release)  # the search finds what is there
    return model, release


@pytest.mark.parametrize("moody", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("with_ledger", [False, True])
def test_a_good_fit_drops_the_labels_of_a_failed_one(moody, with_ledger, ledger):
    charged = {"ledger": ledger, "dataset": "sales"} if with_ledger else {}
    model, release = failed(moody, **charged)
    model.set_params(estimator=Neighbours()).fit(X, Y)
    assert not hasattr(model, "private_labels_")
    assert not held(model, release)
    assert model.estimator_._y.tobytes() in pickle.dumps(model)  # the good fit's own release is there
    assert model.epsilon_spent_ == 2
    if with_ledger:
        assert ledger.remaining("sales") == 7


@pytest.mark.parametrize("other", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_so_does_a_good_fit_of_a_copy(other):
    model, release = failed()
    twin = other(model).set_params(estimator=Neighbours()).fit(X, Y)
    assert not held(twin, release)
    assert twin.epsilon_spent_ == 2
    assert held(model, release)  # the failed one keeps its own, and has paid for it
    assert model.epsilon_spent_ == 1


def test_a_clone_has_nothing_of_a_failed_fit():
    model, release = failed()
    twin = clone(model)
    assert not held(twin, release)
    assert not hasattr(twin, "epsilon_spent_")
    twin.set_params(estimator=Neighbours()).fit(X, Y)
    assert not held(twin, release)
    assert twin.epsilon_spent_ == 1


@pytest.mark.parametrize("moody", FAILURES.values(), ids=FAILURES)
def test_a_failed_fit_drops_the_model_of_a_good_one(moody):
    model = regressor().fit(X, Y)
    good = (model.estimator_._y.tobytes(),)
    assert held(model, good)
    model.set_params(estimator=Neighbours(moody))
    with pytest.raises(type(moody)):
        model.fit(X, Y)
    assert held(model, traces(model.private_labels_))
    assert not held(model, good)
    assert model.epsilon_spent_ == 2
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_model_that_is_never_made_drops_the_model_of_a_good_fit(monkeypatch):
    model = regressor().fit(X, Y)
    good = (model.estimator_._y.tobytes(),)

    def failing(*_):
        raise MemoryError

    monkeypatch.setattr("labeldp.learn.regressor.clone", failing)
    with pytest.raises(MemoryError):
        model.fit(X, Y)
    assert held(model, traces(model.private_labels_))
    assert not held(model, good)


def test_the_second_of_two_failed_fits_keeps_its_own_labels_only():
    model, release = failed()
    with pytest.raises(ValueError, match="mood"):
        model.fit(X, Y)
    assert not held(model, release)
    assert held(model, traces(model.private_labels_))
    assert model.epsilon_spent_ == 2


def test_a_fit_that_is_refused_before_the_charge_changes_nothing_that_was_released(ledger):
    model, release = failed(ledger=ledger, dataset="sales")
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.full(Y.size, np.nan))
    with pytest.raises(InvalidInput):
        model.set_params(mechanism="nonsense").fit(X, Y)
    assert held(model, release)
    assert model.epsilon_spent_ == 1
    assert ledger.remaining("sales") == 8
    model.set_params(mechanism="discrete-laplace", estimator=Neighbours()).fit(X, Y)
    assert not held(model, release)
    assert model.epsilon_spent_ == 2


def test_a_fit_that_fails_between_charge_and_training_is_counted_and_leaves_one_release(ledger, monkeypatch):
    model, release = failed(ledger=ledger, dataset="sales")
    drawn = []

    def failing(self, release_id):
        drawn.append(release_id)
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", failing)  # after the draw
        with pytest.raises(OSError, match="full"):
            model.fit(X, Y)
    assert drawn
    assert held(model, release)
    assert model.epsilon_spent_ == 2
    assert ledger.remaining("sales") == 7
    model.set_params(estimator=Neighbours()).fit(X, Y)
    assert not held(model, release)
    assert model.epsilon_spent_ == 3


def test_a_warning_that_is_an_error_comes_before_the_draw():
    model, release = failed()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRelease)
        with pytest.raises(RepeatedRelease):
            model.fit(X, Y)
    assert held(model, release)
    assert model.epsilon_spent_ == 2  # counted before anything is drawn
