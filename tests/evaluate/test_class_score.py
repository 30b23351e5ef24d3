"""Scores of classes: the figures of scikit-learn without noise, intervals that cover, the exact sensitivity, bad input before the charge."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from labeldp import Domain, InvalidInput, LabelSource, Ledger, score
from labeldp.evaluate import Score
from labeldp.evaluate.class_sums import LEAST, ClassSums
from labeldp.release import group_sums
from labeldp.release.group_sums import KINDS
from labeldp.release.sums_draw import SumsBudget

N = 3000
TWO, THREE = Domain.of_classes(["no", "yes"]), Domain.of_classes(["a", "b", "c"])


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(group_sums, "cube_noise", lambda count, scale: np.zeros(count, np.int64))
    monkeypatch.setattr(group_sums, "add_laplace", lambda exact, scale: exact)


def two(generator, n, rate=-2.0):
    """Classes, and the probabilities of the second one by a good model, by one that is too sure, and by one that is nearly the good one."""
    odds = generator.normal(rate, 1.2, n)
    y = (generator.random(n) < expit(odds)).astype(int)
    p = np.stack([expit(odds), expit(1.8 * odds + 0.5), expit(odds + 0.05 * np.sign(odds + 2))])
    return y, np.round(np.clip(p, LEAST, 1 - LEAST), 3).clip(LEAST, 1 - LEAST)  # rounded, so that there are ties


def of_both(p):
    return np.stack([1 - p, p], axis=-1)


def written(folder, y, columns, **more):
    ids = np.random.default_rng(0).permutation(9 * len(y))[: len(y)]
    pq.write_table(pa.table({"visit": ids, **columns, **more}), folder / "rates.parquet")
    pq.write_table(pa.table({"visit": ids[::-1], "bought": y[::-1]}), folder / "labels.parquet")


def asked(folder, domain=TWO, epsilon=1, **more):
    source = LabelSource(folder / "labels.parquet", "bought", "visit")
    return score(source, folder / "rates.parquet", folder / "score", epsilon, domain, **more)


@pytest.mark.usefixtures("noiseless")
def test_without_noise_the_figures_are_those_of_scikit_learn_for_all_models_and_groups(tmp_path):
    y, p = two(np.random.default_rng(1), N)
    shop = np.random.default_rng(2).choice(["a", "b"], N)
    columns = {"good_yes": p[0], "good_no": 1 - p[0], "sure_yes": p[1]}
    written(tmp_path, np.array(["no", "yes"])[y], columns, shop=shop)
    found = asked(tmp_path, by="shop", epsilon=10).score
    assert found.models == ("good", "sure")
    for group, rows in {None: np.ones(N, bool), "a": shop == "a", "b": shop == "b"}.items():
        scored = found.overall if group is None else found.by_group[group]
        for name, rates in zip(found.models, p[:2, rows], strict=True):
            one, true = scored[name], y[rows]
            expected = {
                "log_loss": log_loss(true, rates),
                "gain": log_loss(true, np.full(true.size, rates.mean())) - log_loss(true, rates),
                "brier": brier_score_loss(true, rates),
                "rate of yes": true.mean(),
            }
            for figure, value in expected.items():
                assert one.figures[figure].value == pytest.approx(value, abs=2e-5), (group, name, figure)
            # The variance of the rate is corrected for the noise that the rate should have had.
            assert one.auc["yes"].value == pytest.approx(roc_auc_score(true, rates), abs=2e-3)
            assert sum(part.records for part in one.calibration) == true.size
            lowest = rates <= np.quantile(p[found.models.index(name)], 0.1, method="inverted_cdf")
            assert one.calibration[0].share.value == pytest.approx(true[lowest].mean())
            assert one.calibration[0].predicted == pytest.approx(rates[lowest].mean())
    (pair,) = found.differences
    assert pair.error.value == pytest.approx(log_loss(y, p[0]) - log_loss(y, p[1]), abs=1e-5)
    assert pair.better == "good"
    assert Score.open(tmp_path / "score").to_arrow().equals(found.to_arrow())


@pytest.mark.usefixtures("noiseless")
def test_more_than_two_classes(tmp_path):
    generator = np.random.default_rng(3)
    p = np.clip(softmax(generator.normal(size=(N, 3)), axis=1), LEAST, 1)
    p /= p.sum(axis=1, keepdims=True)
    y = (generator.random((N, 1)) > p.cumsum(axis=1)).sum(axis=1)
    columns = {f"probability_{name}": p[:, k] for k, name in enumerate(THREE.classes)}
    written(tmp_path, np.array(THREE.classes)[y], columns)
    (one,) = asked(tmp_path, THREE).score.overall.values()
    assert one.log_loss.value == pytest.approx(log_loss(y, p), abs=2e-5)
    assert one.brier.value == pytest.approx(np.square(p - np.eye(3)[y]).sum(axis=1).mean(), abs=2e-5)
    for k, name in enumerate(THREE.classes):
        assert one.auc[name].value == pytest.approx(roc_auc_score(y == k, p[:, k]), abs=2e-3)
        assert one.rate[name].value == pytest.approx(np.mean(y == k), abs=1e-5)
        hits = [part.share.value * part.records for part in one.calibration if part.of == name]
        assert sum(hits) == pytest.approx(np.sum(y == k))


@pytest.mark.parametrize("classes", [2, 3])
def test_replacing_a_label_moves_no_sum_by_more_than_its_sensitivity(monkeypatch, classes):
    """By enumeration of every label of every record, with extreme probabilities among them."""
    monkeypatch.setattr(group_sums, "cube_noise", lambda count, scale: np.zeros(count, np.int64))
    monkeypatch.setattr(group_sums, "add_laplace", lambda counts, scale: counts)
    generator = np.random.default_rng(4)
    p = np.clip(softmax(4 * generator.normal(size=(2, 30, classes)), axis=2), LEAST, 1)
    p /= p.sum(axis=2, keepdims=True)
    y, codes = generator.integers(0, classes, 30).astype(float), np.arange(30) % 2

    def sums(labels):
        return ClassSums.ask(SumsBudget(1), Fraction(1), labels, p, codes).parts

    before, reached = sums(y), 0
    for row in range(30):
        for other in range(classes):
            exact = sums(np.where(np.arange(30) == row, other, y))
            for one, two in zip(before, exact, strict=True):
                moved = abs(one.values - two.values)
                size = moved.max() if one.kind == "numbers" else moved.sum()
                assert size <= KINDS[one.kind]
                reached = max(reached, size / KINDS[one.kind])
                np.testing.assert_array_equal(one.ends, two.ends)  # what is public does not depend on labels
    assert reached > 0.99
    assert before[-1].kind == ("hits" if classes == 2 else "histograms")


@pytest.mark.parametrize(("n", "epsilon", "rate"), [(1500, "0.5", -1.0), (4000, "2", -3.0), (1500, "40", -1.0)])
def test_intervals_cover(n, epsilon, rate):
    """Of 200 intervals of 95 % more than 26 miss once in 500,000 times."""
    y, p = two(np.random.default_rng(5), 1_000_000, rate)
    logs = [-np.where(y == 1, np.log(one), np.log(1 - one)).mean() for one in p]
    area = roc_auc_score(y, p[1])
    missed = dict.fromkeys(("log_loss", "brier", "auc", "rate of yes", "difference", "calibration"), 0)
    amount, widths = Fraction(epsilon), []
    for seed in range(200):
        own, rates = two(np.random.default_rng([6, seed]), n, rate)
        sums = ClassSums.ask(
            SumsBudget(amount), amount, own.astype(float), of_both(rates), np.zeros(n, np.int64)
        ).group(0)
        found = sums.error(1, ("no", "yes"), amount)
        true = {"log_loss": logs[1], "brier": np.mean(np.square(y - p[1])), "auc": area, "rate of yes": y.mean()}
        for name, value in true.items():
            one = found.figures[name]
            missed[name] += not one.lower <= value <= one.upper
            assert one.lower <= one.value <= one.upper or np.isnan(one.value)
        one = sums.difference(0, 2, 1.0, 0.05)
        missed["difference"] += not one.lower <= logs[0] - logs[2] <= one.upper
        part = found.calibration[5]
        low, high = sums.sums.bins[1].ends[0, 5]
        inside = (p[1] >= low) & (p[1] <= high)
        missed["calibration"] += not part.share.lower <= y[inside].mean() <= part.share.upper
        widths.append(found.auc["yes"].upper - found.auc["yes"].lower)
    assert max(missed.values()) <= 26, missed
    if epsilon == "40":  # nearly no noise: hardly wider than what the samples vary by
        drawn = (two(np.random.default_rng([7, seed]), n, rate) for seed in range(100))
        usual = 2 * 1.96 * np.std([roc_auc_score(own, rates[1]) for own, rates in drawn])
        assert np.mean(widths) < 1.3 * usual


BAD = {
    "predictions that are not probabilities": ({"rate": np.linspace(0, 3, 60)}, TWO, "not probabilities"),
    "that do not add up": ({"p_no": np.full(60, 0.3), "p_yes": np.full(60, 0.3)}, TWO, "add up to 1"),
    "a class without a column": ({"p_a": np.full(60, 0.5), "p_b": np.full(60, 0.5)}, THREE, "no column p_c"),
    "a class that does not occur": ({"p": np.full(60, 0.5)}, Domain.of_classes(["no", "never"]), "of no class"),
    "two columns of one class": ({"p": np.full(60, 0.5), "p_yes": np.full(60, 0.5)}, TWO, "two columns"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_predictions_are_refused_before_the_charge(tmp_path, case):
    columns, domain, words = BAD[case]
    names = ("no", "yes") if domain.count == 2 else ("a", "b", "c")
    written(tmp_path, np.array(names)[np.arange(60) % len(names)], columns)
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", budget=5)
    models = list(columns) if case == "two columns of one class" else None
    with pytest.raises(InvalidInput, match=words):
        asked(tmp_path, domain, models=models, ledger=ledger, dataset="visits")
    assert ledger.remaining("visits") == 5
    assert not (tmp_path / "score").exists()


def test_one_class_is_refused_and_a_named_model_is_taken(tmp_path):
    written(tmp_path, np.full(60, "no"), {"p": np.full(60, 0.5)})
    with pytest.raises(InvalidInput, match="all labels are of one class"):
        asked(tmp_path)
    y = np.array(["no", "yes"])[np.arange(60) % 2]
    written(tmp_path, y, {"p_no": np.full(60, 0.5), "q_no": np.full(60, 0.9), "age": np.arange(60.0)})
    outcome = asked(tmp_path, models=["q"])
    assert outcome.score.models == ("q",)
    np.testing.assert_allclose(outcome.score.sums[0].means[0, 0], [0.9, 0.1])
