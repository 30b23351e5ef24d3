"""`LabelDPRegressor` by noisy sums: which method is taken, what it costs, and what it must not touch."""

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

from labeldp import Domain, InsufficientBudget, InvalidInput, LabelDPRegressor, Ledger, Prior
from labeldp.learn.method import choose_method
from labeldp.learn.sums.sums_learner import SumsLearner
from labeldp.release.sum_queries import SumQueries

ROWS = 4000
GENERATOR = np.random.default_rng(15)
X = GENERATOR.normal(size=(ROWS, 3))
Y = np.clip(150 + 60 * X[:, 0] + 20 * GENERATOR.normal(size=ROWS), 0, 400)


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "ledger.db")
    made.add_dataset("sales", 1)
    return made


def test_the_plain_call_takes_sums_and_costs_epsilon():
    model = LabelDPRegressor(epsilon=0.5, domain=(0, 400)).fit(X, Y)
    assert model.method_.name == "sums"
    assert "4,000 records" in model.method_.why
    assert model.epsilon_spent_ == 0.5
    assert model.sums_.epsilon_exact == Fraction(1, 2)
    assert model.sums_.proof().holds
    assert Fraction(499, 1000) < model.sums_.spent <= Fraction(1, 2)
    assert not hasattr(model, "mechanism_")
    assert model.score(X, Y) > 0.3  # 0.9 without noise


def test_a_large_epsilon_takes_sums_and_then_labels():
    model = LabelDPRegressor(epsilon=8, domain=(0, 400)).fit(X[:150], Y[:150])
    assert model.method_.name == "both"


@pytest.mark.parametrize(
    ("settings", "fit", "said"),
    [
        ({"estimator": Ridge()}, {}, "estimator"),
        ({"mechanism": "rr-on-bins"}, {}, "rr-on-bins"),
        ({"target_values": "bins"}, {}, "target values"),
        ({"prior": Prior([0, 200, 400], [1, 1, 1])}, {}, "prior"),
        ({}, {"sample_weight": np.ones(1000)}, "sample weights"),
    ],
)
def test_what_only_labels_can_do_takes_labels_and_is_refused_for_sums(settings, fit, said, ledger):
    model = LabelDPRegressor(epsilon=0.5, domain=Domain(0, 400, 41), **settings).fit(X[:1000], Y[:1000], **fit)
    assert model.method_.name == "labels"
    assert said in model.method_.why
    asked = LabelDPRegressor(epsilon=0.5, domain=(0, 400), method="sums", ledger=ledger, dataset="sales", **settings)
    with pytest.raises(InvalidInput, match=said):
        asked.fit(X[:1000], Y[:1000], **fit)
    assert ledger.remaining("sales") == 1


def test_a_method_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="auto, labels, sums, both"):
        LabelDPRegressor(domain=(0, 400), method="sum").fit(X, Y)


def test_sums_are_charged_once_and_refused_beyond_the_budget(ledger):
    model = LabelDPRegressor(epsilon=0.75, domain=(0, 400), ledger=ledger, dataset="sales").fit(X, Y)
    assert model.method_.name == "sums"
    assert ledger.remaining("sales") == Fraction(1, 4)
    (dataset,), (release,) = ledger.datasets(), ledger.history()
    assert (dataset.uncommitted, release.kind, release.epsilon) == (0, "sums", Fraction(3, 4))
    ledger.verify()
    with pytest.raises(InsufficientBudget):
        LabelDPRegressor(epsilon=0.75, domain=(0, 400), ledger=ledger, dataset="sales").fit(X, Y)
    assert ledger.remaining("sales") == Fraction(1, 4)


@pytest.mark.parametrize(
    "features",
    [
        pd.DataFrame({"a": [1.0, np.inf] * (ROWS // 2)}),
        pa.table({"a": [[1]] * ROWS}),
        np.full((ROWS, 1), np.inf),
        X[:-1],
    ],
)
def test_features_that_cannot_be_read_cost_nothing(features, ledger):
    with pytest.raises(ValueError, match=r"a|infinity|rows|samples"):
        LabelDPRegressor(epsilon=0.5, domain=(0, 400), ledger=ledger, dataset="sales").fit(features, Y)
    assert ledger.remaining("sales") == 1


def test_a_second_fit_leaves_nothing_of_the_first():
    model = LabelDPRegressor(epsilon=0.5, domain=(0, 400)).fit(X, Y)
    with pytest.warns(UserWarning, match="second fit"):
        model.set_params(method="labels", estimator=Ridge()).fit(X, Y)
    assert not hasattr(model, "sums_")
    assert model.epsilon_spent_ == 1.0


def test_what_was_released_before_a_failure_is_kept(monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("labeldp.learn.sums.sums_learner.infer", fail)
    model = LabelDPRegressor(epsilon=0.5, domain=(0, 400))
    with pytest.raises(MemoryError):
        model.fit(X, Y)
    assert model.epsilon_spent_ == 0.5
    assert [answer.kind for answer in model.sums_.answers] == ["histogram", "signs"]
    assert not hasattr(model, "estimator_")


def test_text_dates_and_missing_values_are_read():
    frame = pd.DataFrame(
        {
            "shop": np.where(X[:, 0] > 0, "a", "b"),
            "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(ROWS), unit="h"),
            "price": np.where(X[:, 1] > 1, np.nan, X[:, 1]),
        }
    )
    model = LabelDPRegressor(epsilon=1, domain=(0, 400)).fit(frame, Y)
    assert model.method_.name == "sums"
    new = pd.DataFrame({"shop": ["c", None], "when": [pd.NaT, pd.Timestamp("2030-01-01")], "price": [np.nan, 5.0]})
    assert np.isfinite(model.predict(new)).all()


class Recorded:
    """Answers of an earlier fit, played back in order: it holds no label."""

    def __init__(self, queries):
        self.queries, self.answers = queries, list(queries.answers)
        self.domain, self.records, self.clipped = queries.domain, queries.records, (0, queries.domain.count - 1)
        self.remaining, self.size, self.weights = queries.epsilon_exact, queries.size, queries.weights

    def histogram(self, *_):
        return self._next()

    def over_cells(self, *_):
        return self._next()

    def against_signs(self, *_):
        return self._next()

    def clip(self, lower, upper):
        self.clipped = lower, upper

    def subtract(self, _, reach):
        self.clipped = -reach, reach

    def _next(self):
        answer = self.answers.pop(0)
        self.remaining -= answer.epsilon_exact
        return answer


def test_the_model_is_a_function_of_features_and_answers_alone():
    queries = SumQueries(Y, 1, (0, 400))
    first = SumsLearner(X).learn(queries)
    again = SumsLearner(X).learn(Recorded(queries))
    np.testing.assert_array_equal(first.predict(X), again.predict(X))


def test_the_fitted_model_can_be_pickled():
    model = LabelDPRegressor(epsilon=1, domain=Domain.integers(0, 400)).fit(X, np.rint(Y))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_the_method_follows_epsilon_records_and_columns():
    domain = Domain(0, 400)
    assert choose_method(50_000, 0.5, 20, domain).name == "sums"
    assert choose_method(50_000, 0.5, 1000, domain).name == "labels"
    assert choose_method(50_000, 4, 20, domain).name == "both"
    assert choose_method(300, 1, 20, domain).name == "labels"  # measured: 8,700 with labels, 10,600 with sums
    assert choose_method(1000, 0.5, 20, domain).name == "sums"  # measured: 8,600 with labels, 5,300 with sums


@pytest.mark.parametrize("epsilon", ["1e-9", pytest.param("40", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "domain",
    [Domain(0, 1e55), Domain(0, 1e-55), Domain(-1e5, 1e5), Domain.integers(0, 2**32 - 1), Domain.integers(0, 1)],
)
def test_any_budget_and_range_that_is_taken_also_works(domain, epsilon):
    labels = domain.lower + (domain.upper - domain.lower) * (X[:500, 0] > 0)
    model = LabelDPRegressor(epsilon=epsilon, domain=domain, method="sums").fit(X[:500], labels)
    predictions = model.predict(X[:500])
    assert ((predictions >= domain.lower) & (predictions <= domain.upper)).all()
    assert model.sums_.spent <= Fraction(epsilon)


def test_bounds_that_floats_cannot_square_are_left_to_labels():
    assert LabelDPRegressor(epsilon=1, domain=(0, 1e99)).fit(X, Y).method_.name == "labels"
    with pytest.raises(InvalidInput, match="another unit"):
        LabelDPRegressor(epsilon=1, domain=(0, 1e99), method="sums").fit(X, Y)


def test_predictions_are_clipped_unless_told_otherwise():
    steep = np.where(X[:, 0] > 0, 400.0, 0.0)
    model = LabelDPRegressor(epsilon=1, domain=(0, 400), method="sums", clip_predictions=False).fit(X, steep)
    far = np.array([[9.0, 0, 0], [-9.0, 0, 0]])
    free = model.predict(np.vstack([X, far]))
    clipped = model.set_params(clip_predictions=True).predict(np.vstack([X, far]))
    np.testing.assert_array_equal(clipped, np.clip(free, 0, 400))


@pytest.mark.slow
def test_pairs_are_found_though_their_columns_do_nothing_alone():
    features = np.random.default_rng(1).uniform(-1, 1, (8_000, 5))
    labels = 50 * np.sign(features[:, 0] * features[:, 1])
    model = LabelDPRegressor(epsilon=1, domain=(-100, 100)).fit(features, labels)
    assert model.method_.name == "sums"
    assert model.score(features, labels) > 0.8  # 0.97 in each of 20 runs


def test_with_little_budget_the_mean_is_learned_all_the_same():
    counts = np.random.default_rng(2).poisson(2.0, 2000)
    model = LabelDPRegressor(epsilon=0.2, domain=(0, 50)).fit(X[:2000], counts)
    assert model.method_.name == "sums"
    assert abs(model.predict(X[:2000]).mean() - counts.mean()) < 5  # the middle of the bounds is 23 away


def test_a_column_of_booleans_is_the_same_as_zeros_and_ones():
    flag = X[:, 0] > 0
    model = LabelDPRegressor(epsilon=1, domain=(0, 400)).fit(pd.DataFrame({"flag": flag}), Y)
    asked = [pd.DataFrame({"flag": values}) for values in ([True, False], [1, 0], [1.0, 0.0])]
    first, *others = (model.predict(one) for one in asked)
    assert first[0] != first[1]
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_a_model_of_an_array_predicts_for_a_table_by_position():
    model = LabelDPRegressor(epsilon=1, domain=(0, 400)).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), model.predict(pd.DataFrame(X, columns=["a", "b", "c"])))


def test_negative_weights_are_refused_before_anything_is_drawn(ledger):
    model = LabelDPRegressor(epsilon=0.5, domain=(0, 400), ledger=ledger, dataset="sales")
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model.fit(X, Y, sample_weight=-np.ones(ROWS))
    assert ledger.remaining("sales") == 1
