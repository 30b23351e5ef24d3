"""What `advise` foresees is what `train` and `score` print on generated data."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Domain, LabelRandomizer, LabelSource, Prior, advise, privatize, score, train
from labeldp.evaluate.foreseen import _spread_out, score_epsilon
from labeldp.evaluate.held_out_sums import HeldOutSums
from labeldp.mechanisms.prediction import likely_predictions

NORMAL = "normal:mean=200,sd=70.7"


@pytest.mark.parametrize(("records", "epsilon", "known"), [(4000, 0.5, False), (12_000, 2, True)])
def test_the_intervals_of_train_and_score_are_as_wide_as_foreseen(tmp_path, records, epsilon, known):
    """In 96 such runs the lower end of R² was at most 0.14 off, and a score's distance at most 30 %."""
    hint, rest = np.random.default_rng(1).normal(size=(2, records))
    ids, labels = np.arange(records), np.clip(200 + 50 * hint + 50 * rest, 0, 400)
    pq.write_table(pa.table({"id": ids, "amount": labels}), tmp_path / "labels.parquet")
    source = LabelSource(tmp_path / "labels.parquet", "amount", "id")
    privatize(source, LabelRandomizer(epsilon, (0, 400)), tmp_path / "message")
    features = pa.table({"id": ids, "hint": hint})
    model = train(tmp_path / "message", features, id="id", model="boosting", folds=3).model
    pq.write_table(pa.table({"id": ids, "model": model.predict(features)}), tmp_path / "predictions.parquet")
    (foreseen,) = advise((0, 400), records, shape=NORMAL, epsilons=[epsilon]).foreseen
    told = score(source, tmp_path / "predictions.parquet", tmp_path / "score", foreseen.score_epsilon, (0, 400)).score
    mse = told.overall["model"].mse
    assert foreseen.score_within == pytest.approx(mse.upper - mse.value, rel=0.35)
    assert model.facts["score"]["within"] == pytest.approx(foreseen.score_within, rel=0.25)
    assert model.facts["score"]["epsilon"] == foreseen.score_epsilon
    r2 = model.facts["estimates"]["r2"]
    assert (r2["lower"] is not None and r2["lower"] > 0) == known == (foreseen.r2 is not None)
    if known:
        assert foreseen.r2[0] == pytest.approx(r2["lower"], abs=0.15)
        assert foreseen.r2[1] == pytest.approx(r2["upper"], abs=0.2)


@pytest.mark.slow
def test_intervals_get_narrower_with_records_and_epsilon():
    by_epsilon = advise((0, 400), 50_000, shape=NORMAL, epsilons=[1, 4]).foreseen
    (more,) = advise((0, 400), 200_000, shape=NORMAL, epsilons=[1]).foreseen
    few, most = by_epsilon
    for narrow in (most, more):
        assert few.r2[0] < narrow.r2[0] < narrow.r2[1] < few.r2[1]
        assert narrow.score_within < few.score_within
        assert narrow.score_share < few.score_share


def test_made_up_predictions_explain_what_they_should():
    prior = Prior([0, 10, 50, 400], [4, 3, 2, 1])
    predictions, joint = likely_predictions(prior, 0.3)
    assert joint.sum(axis=0) == pytest.approx(prior.masses, rel=1e-4)
    assert (joint * np.square(predictions[:, None] - prior.values)).sum() == pytest.approx(
        0.7 * prior.variance, rel=1e-3
    )
    assert joint @ prior.values / joint.sum(axis=1) == pytest.approx(predictions)


@pytest.mark.parametrize("records", [1, 7, 5000])
def test_made_up_records_follow_their_probabilities(records):
    expected = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(4, 3)
    rows, codes = _spread_out(expected, records)
    counts = np.zeros_like(expected)
    np.add.at(counts, (rows, codes), 1)
    assert counts.sum() == records
    assert np.abs(np.cumsum(counts) - records * np.cumsum(expected)).max() <= 0.5 + 1e-9


def test_the_rows_of_a_person_share_what_a_score_costs():
    found = advise((0, 400), persons=4000, rows_per_person=5, shape=NORMAL, epsilons=[2])
    (foreseen,), (outlook,) = found.foreseen, found.outlooks
    assert foreseen.score_epsilon == 0.04
    assert outlook.records == 4000 * outlook.entries
    (alone,) = advise((0, 400), outlook.records, shape=NORMAL, epsilons=[2 / outlook.entries]).foreseen
    assert foreseen.r2 == pytest.approx(alone.r2)
    assert "for each person" in found.recommendation
    each = advise((0, 400), 20_000, rows_per_person=2, shape=NORMAL, epsilons=[0.5])
    assert "ε = 0.5 for each record, which is 1 for a person with 2 rows" in each.recommendation


@pytest.mark.parametrize(
    ("domain", "records", "more"),
    [
        ((0, 1), 1, {"epsilons": [1e-4, 40]}),
        ((0, 1e-9), 10**15, {"epsilons": [40]}),
        (Domain.integers(0, 1), 500, {"epsilons": [1]}),
        (Domain(0, 1, cells=5000), 3000, {"epsilons": [2]}),
        ((-5, 5), 3000, {"epsilons": [2], "public": True, "shape": "normal:mean=0,sd=1"}),
        ((0, 1), 3000, {"epsilons": [1], "explained": 0}),
        ((0, 1), 3000, {"epsilons": [1], "explained": 1}),
    ],
)
def test_there_is_an_answer_at_every_edge(domain, records, more):
    for each in advise(domain, records, **more).foreseen:
        assert each.r2 is None or 0 < each.r2[0] < each.r2[1] <= 1
        assert (each.score_epsilon is None) == (each.score_within is None) == (each.score_share is None)
        assert each.score_within is None or each.score_within > 0


def test_a_score_costs_a_tenth_in_two_digits():
    assert score_epsilon(Fraction(2)) == Fraction(1, 5)
    assert score_epsilon(Fraction(1, 3)) == Fraction("0.033")
    assert score_epsilon(Fraction(1, 2000)) is None


def test_sampling_and_noise_make_up_the_reach_of_a_score():
    predictions = np.linspace(0.2, 0.8, 50)
    noise, both = (HeldOutSums.reach(predictions, Fraction(1, 10), 10_000, variance) for variance in (0.0, 0.04))
    assert both**2 == pytest.approx(noise**2 + 1.96**2 * 0.04 / 10_000, rel=1e-3)
    large = HeldOutSums.reach(predictions, Fraction(40), 10_000, 0.04)
    assert large == pytest.approx(1.96 * 0.2 / 100, rel=0.02)
