"""`advise` puts predictions, targets and risks together, and refuses what it cannot answer."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import pytest

from labeldp import Domain, InvalidInput, LabelDPError, Prior, advise
from labeldp.evaluate.advice import EPSILONS
from labeldp.mechanisms import prediction

SHAPE = "exponential:mean=90"


@pytest.fixture(scope="module")
def advice():
    return advise((0, 400), 50_000, shape=SHAPE)


def test_there_is_a_row_for_each_epsilon_in_order():
    found = advise((0, 400), 1_000, shape=SHAPE, epsilons=["2", 0.5, 2.0, "1/4"])
    assert [outlook.epsilon for outlook in found.outlooks] == [0.25, 0.5, 2]
    assert [outlook.risk.epsilon for outlook in found.outlooks] == [0.25, 0.5, 2]


def test_the_table_has_the_figures_of_the_predictions(advice):
    rows = advice.table()
    assert [row["epsilon"] for row in rows] == list(EPSILONS)
    assert rows[2]["labels_mse"] == advice.outlooks[2].labels.mse
    assert rows[2]["sums_rmse"] ** 2 == pytest.approx(advice.outlooks[2].sums.mse)
    assert advice.to_arrow().to_pylist() == rows
    assert list(advice.to_pandas().columns) == list(rows[0])


def test_the_recommended_epsilon_is_the_least_that_keeps_most(advice):
    best = advice.recommended
    assert best.labels.r2 >= 0.8 * advice.not_private.r2
    assert all(each.labels.r2 < 0.8 * advice.not_private.r2 for each in advice.outlooks if each.epsilon < best.epsilon)
    assert advice.recommendation.startswith(f"Take ε = {best.epsilon:g}: ")


def test_with_few_records_nothing_is_recommended_for_labels():
    found = advise((0, 400), 200, shape=SHAPE, epsilons=[0.1, 0.5])
    assert found.recommended is None
    assert "none of these ε protects and keeps 80 %" in found.recommendation
    assert "ε = 0.5 is predicted to reach" in found.recommendation


def test_what_hardly_protects_is_never_recommended():
    few = advise((0, 400), 200, shape=SHAPE, epsilons=[0.1, 8, 40])
    assert few.recommended is None
    assert "ε = 8 would, but that is hardly any protection" in few.recommendation
    assert advise((0, 400), 50_000, shape=SHAPE, epsilons=[0.5, 1]).recommended.epsilon == 0.5
    assert advise((0, 400), 50_000, shape=SHAPE, epsilons=[0.5, 1], rows_per_person=10).recommended is None


def test_sums_are_pointed_out_where_they_need_less_epsilon():
    found = advise((0, 400), 5_000, shape=SHAPE)
    assert "with noisy sums" in found.recommendation


def test_features_that_tell_nothing_need_no_epsilon():
    found = advise((0, 400), 5_000, shape=SHAPE, explained=0)
    assert found.recommended is None
    assert found.recommendation.startswith("No ε helps")


def test_without_a_distribution_labels_are_taken_as_uniform():
    found = advise((0, 12), 5_000)
    assert found.assumed
    assert found.mean_only.mse == pytest.approx(12, rel=0.05)
    assert not advise((0, 12), 5_000, shape="uniform").assumed


def test_a_prior_may_end_within_the_bounds_or_have_empty_values_beyond():
    found = advise((0, 400), 5_000, prior=Prior([0, 10, 50, 500], [2, 1, 1, 0]))
    assert found.prior.values.tolist() == [0, 10, 50]


def test_the_statement_names_the_value_and_the_unit():
    assert advise((0, 48), 500).statement == "more than 24"
    assert advise(Domain(0, 48, unit="hours"), 500, value=40).statement == "more than 40 hours"


def test_rows_of_one_person_count_in_every_risk():
    found = advise((0, 400), 500, epsilons=[0.5, 1], rows_per_person=3)
    assert [outlook.risk.total for outlook in found.outlooks] == [1.5, 3]


def test_the_plot_has_a_line_a_method_and_the_two_references(advice):
    axes = advice.plot()
    names = [line.get_label() for line in axes.get_lines()]
    assert names == [
        "private labels (auto)",
        "the paper's bins",
        "noisy sums (one team)",
        "no privacy",
        "the mean for all",
    ]
    assert axes.get_lines()[0].get_ydata() == pytest.approx([each.labels.rmse for each in advice.outlooks])
    plt.close(axes.figure)


@pytest.mark.usefixtures("advice")
def test_a_second_question_needs_no_new_designs(monkeypatch):
    monkeypatch.setattr(prediction.BiasVariance, "optimal", lambda *_, **__: pytest.fail("designed again"))
    advise((0, 400), 50_000, shape=SHAPE)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"records": 0}, "records must be a whole number"),
        ({"records": 2.5}, "records must be a whole number"),
        ({"records": True}, "records"),
        ({"records": 10**16}, r"10\^15"),
        ({"explained": -0.1}, "explained must be a share"),
        ({"explained": 1.1}, "explained must be a share"),
        ({"explained": math.nan}, "explained must be a share"),
        ({"explained": "0.5"}, "explained must be a share"),
        ({"epsilons": []}, "at least one"),
        ({"epsilons": "1,2"}, "must be a list"),
        ({"epsilons": 1}, "must be a list"),
        ({"epsilons": [0]}, "epsilon must be greater than 0"),
        ({"epsilons": [50]}, "epsilon must be at most 40"),
        ({"prior": [1, 2]}, "prior must be a Prior"),
        ({"prior": Prior([0, 500], [1, 1])}, "the bounds are 0 to 400"),
        ({"prior": Prior([-1, 5], [1, 1])}, "the bounds are 0 to 400"),
        ({"prior": Prior([5], [1])}, "nothing for a model to predict"),
        ({"prior": Prior([0, 5], [1, 1]), "shape": "uniform"}, "not both"),
        ({"shape": "log-normale"}, "unknown shape"),
        ({"value": 400}, "value must lie within the bounds"),
        ({"value": -1}, "value must lie within the bounds"),
        ({"value": "200"}, "value must lie within the bounds"),
        ({"rows_per_person": 0}, "rows per person"),
        ({"domain": (400, 0)}, "lower bound must be below"),
        ({"domain": None}, "domain must be given"),
    ],
)
def test_wrong_numbers_are_refused(given, part):
    arguments = {"domain": (0, 400), "records": 1_000} | given
    with pytest.raises(InvalidInput, match=part) as caught:
        advise(arguments.pop("domain"), arguments.pop("records"), **arguments)
    assert isinstance(caught.value, LabelDPError)
