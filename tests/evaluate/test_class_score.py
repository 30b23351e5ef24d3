"""Scores of classes: the figures of scikit-learn without noise, intervals that cover, the exact sensitivity, bad input before the charge."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from labeldp import (
    Domain,
    InvalidInput,
    LabelRandomizer,
    LabelSource,
    Ledger,
    Message,
    PrivacyRefused,
    held_out_error,
    privatize,
    report,
    score,
)
from labeldp.evaluate import Report, Score, estimate_classes
from labeldp.evaluate.class_sums import LEAST, ClassSums
from labeldp.json_text import to_record
from labeldp.mechanisms import PrivateLabels, RandomizedResponse
from labeldp.release import group_sums
from labeldp.release.grid_labels import SumsBudget
from labeldp.release.group_sums import KINDS, UNITS
from seeded_words import SeededWords

N = 3000
TWO, THREE = Domain.of_classes(["no", "yes"]), Domain.of_classes(["a", "b", "c"])


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(group_sums, "cube_noise", lambda count, scale, sides=(): np.zeros(count, np.int64))
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


class Given:
    """A classifier whose probabilities are its features."""

    def __init__(self, classes):
        self.classes_ = np.array(classes)

    def predict_proba(self, X):
        return X


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("unit", ["record", "person"])
@pytest.mark.parametrize("count", [2, 3])
def test_a_team_with_both_sides_gets_the_figures_of_a_score(tmp_path, count, unit):
    generator = np.random.default_rng(8)
    rates = softmax(generator.normal(size=(N, count)), axis=1)
    names, ids = ("a", "b", "c")[:count], np.arange(N)
    y = np.array(names)[(rates.cumsum(axis=1) < generator.random((N, 1))).sum(axis=1).clip(max=count - 1)]
    columns = {f"p_{name}": rates[:, k] for k, name in enumerate(names)}
    pq.write_table(pa.table({"visit": ids, **columns}), tmp_path / "rates.parquet")
    pq.write_table(pa.table({"visit": ids, "bought": y, "who": ids // 3}), tmp_path / "labels.parquet")
    source = LabelSource(
        tmp_path / "labels.parquet", "bought", "visit", person_column="who" if unit == "person" else None
    )
    scored = score(source, tmp_path / "rates.parquet", tmp_path / "score", 2, Domain.of_classes(names)).score
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", 2, unit=unit)
    charged = {"ledger": ledger, "dataset": "visits", "persons": ids // 3 if unit == "person" else None}
    found = held_out_error(Given(names), rates, y, 2, **charged)
    expected = scored.overall["p"]
    for name, one in expected.figures.items():
        for part in ("value", "standard_error", "lower", "upper"):
            assert getattr(found.figures[name], part) == pytest.approx(getattr(one, part))
    for mine, theirs in zip(found.calibration, expected.calibration, strict=True):
        assert (mine.of, mine.records) == (theirs.of, theirs.records)
        assert mine.share.value == pytest.approx(theirs.share.value)
    assert (found.records, found.epsilon, ledger.remaining("visits")) == (N, 2.0, 0)


def test_held_out_classes_are_refused_before_the_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.add_dataset("visits", 2)
    rates, y = np.array([[0.7, 0.3], [0.4, 0.6], [1.0, 0.0]]), np.array(["no", "yes", "no"])

    def refused(match, model=None, X=rates, y=y, domain=None, **more):
        with pytest.raises(InvalidInput, match=match):
            held_out_error(model or Given(["no", "yes"]), X, y, 1, domain, ledger=ledger, dataset="visits", **more)

    refused("leave out domain", domain=(0, 1))
    refused("a column for each", X=rates[:, :1])
    refused("a column for each", model=Given(["no", "maybe", "yes"]))
    refused("must be numbers", X=rates[:, 0])
    refused("must be numbers", X=np.full((3, 2), np.nan))
    refused("add up to 1", X=rates / 2)
    refused("gave 2 for 3 labels", X=rates[:2])
    refused("not probabilities", y=[0.2, 0.7, 0.4])
    refused("Named were no, yes", y=["no", "yes", "maybe"])
    refused("at least two", X=rates[:1], y=y[:1])
    refused("classes_", model=type("Unfitted", (), {"predict_proba": lambda self, X: X})())
    refused("give domain", model=type("Line", (), {"predict": lambda self, X: X[:, 0]})())
    assert ledger.remaining("visits") == 2


@pytest.mark.parametrize("classes", [2, 3])
def test_replacing_a_label_moves_no_sum_by_more_than_its_sensitivity(monkeypatch, classes):
    """By enumeration of every label of every record, with extreme probabilities among them."""
    monkeypatch.setattr(group_sums, "cube_noise", lambda count, scale, sides=(): np.zeros(count, np.int64))
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


@pytest.mark.parametrize(
    ("n", "epsilon", "rate"),
    [
        (600, "1", -1.0),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1500, "2", -3.0), (600, "40", -1.0))),
    ],
)
def test_intervals_cover(n, epsilon, rate):
    """200 groups with the same truth, all drawn at once. Of 200 intervals of 95 % more than 26 miss once in 500,000 times."""
    y, p = two(np.random.default_rng(5), 400_000, rate)
    logs = [-np.where(y == 1, np.log(one), np.log(1 - one)).mean() for one in p]
    brier, area = np.mean(np.square(y - p[1])), roc_auc_score(y, p[1])
    own, rates = two(np.random.default_rng(6), 200 * n, rate)
    codes, amount = np.repeat(np.arange(200), n), Fraction(epsilon)
    sums = ClassSums.ask(SumsBudget(amount), amount, own.astype(float), of_both(rates), codes)
    low, high = sums.bins[1].ends[0, 5]
    inside = y[(p[1] >= low) & (p[1] <= high)].mean()
    missed = dict.fromkeys(("log_loss", "brier", "auc", "rate of yes", "difference", "calibration"), 0)
    widths = []
    for number in range(200):
        group = sums.group(number)
        found = group.error(1, Domain.of_classes(["no", "yes"]), amount)
        true = {"log_loss": logs[1], "brier": brier, "auc": area, "rate of yes": y.mean()}
        for name, value in true.items():
            one = found.figures[name]
            missed[name] += not one.lower <= value <= one.upper
            assert one.lower <= one.value <= one.upper or np.isnan(one.value)
        one = group.difference(0, 2, 1.0, 0.05)
        missed["difference"] += not one.lower <= logs[0] - logs[2] <= one.upper
        share = found.calibration[5].share
        missed["calibration"] += not share.lower <= inside <= share.upper
        widths.append(found.auc["yes"].upper - found.auc["yes"].lower)
    assert max(missed.values()) <= 26, missed
    if epsilon == "40":  # nearly no noise: hardly wider than what the samples vary by
        areas = [roc_auc_score(own[codes == one], rates[1, codes == one]) for one in range(200)]
        assert np.mean(widths) < 1.3 * 2 * 1.96 * np.std(areas)


BAD = {
    "predictions that are not probabilities": ({"rate": np.linspace(0, 3, 60)}, TWO, "not probabilities"),
    "that do not add up": ({"p_no": np.full(60, 0.3), "p_yes": np.full(60, 0.3)}, TWO, "add up to 1"),
    "a class without a column": ({"p_a": np.full(60, 0.5), "p_b": np.full(60, 0.5)}, THREE, "no column p_c"),
    "a class that does not occur": ({"p": np.full(60, 0.5)}, Domain.of_classes(["no", "never"]), "of no class"),
    "two columns of one class": ({"p": np.full(60, 0.5), "p_yes": np.full(60, 0.5)}, TWO, "two columns"),
}


def test_a_class_that_does_not_occur_is_no_error(tmp_path):
    """A refusal would tell that the last label of this class is gone."""
    written(tmp_path, np.full(60, "no"), {"p": np.full(60, 0.5)})
    assert asked(tmp_path).score.records == 60


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


def test_a_named_model_is_taken(tmp_path):
    y = np.array(["no", "yes"])[np.arange(60) % 2]
    written(tmp_path, y, {"p_no": np.full(60, 0.5), "q_no": np.full(60, 0.9), "age": np.arange(60.0)})
    outcome = asked(tmp_path, models=["q"])
    assert outcome.score.models == ("q",)
    np.testing.assert_allclose(outcome.score.sums[0].means[0, 0], [0.9, 0.1])


def test_nothing_depends_on_labels_but_the_noisy_values_and_edits_are_refused(tmp_path):
    y, p = two(np.random.default_rng(8), 400)
    records = []
    for labels in (y, 1 - y):
        (folder := tmp_path / str(len(records))).mkdir()
        written(folder, np.array(["no", "yes"])[labels], {"rate": p[0], "other": p[1]})
        records.append(json.loads(asked(folder).score.to_json()))
    text = json.dumps(records[0])
    for part in (part for record in records for part in record["sums"]):
        for sums in (part["first"], part["spread"], *part["bins"]):
            del sums["values"]
    assert records[0] == records[1]

    def change(edit):
        record = json.loads(text)
        edit(record, record["sums"][0])
        return json.dumps(record)

    with pytest.raises(PrivacyRefused):
        Score.from_json(change(lambda record, _: record.update(epsilon="0.5")))
    for edit in (
        lambda _, sums: sums["bins"][0].update(kind="histograms"),
        lambda record, _: record.update(domain=to_record(THREE)),
        lambda _, sums: sums.update(bins=[]),
        lambda _, sums: sums["cells"][0][0][0].__setitem__(0, 7),
        lambda _, sums: sums["cells"][0][0][0].__setitem__(2, -1.0),
        lambda _, sums: sums.update(middles=["a"]),
    ):
        with pytest.raises(InvalidInput):
            Score.from_json(change(edit))


def test_rates_by_group_from_labels_and_from_a_message(tmp_path):
    """Of 200 groups of 95 % more than 26 miss once in 500,000 times."""
    generator = np.random.default_rng(9)
    group = np.arange(200 * 60) % 200
    y = np.array(THREE.classes)[generator.choice(3, group.size, p=[0.7, 0.2, 0.1])]
    pq.write_table(pa.table({"visit": np.arange(y.size), "group": group, "bought": y}), tmp_path / "labels.parquet")
    source = LabelSource(tmp_path / "labels.parquet", "bought", "visit")
    exact = report(source, by="group", epsilon=1, domain=THREE, out=tmp_path / "report")
    assert Report.open(tmp_path / "report").to_arrow().equals(exact.to_arrow())
    privatize(source, LabelRandomizer(2, THREE), tmp_path / "message")
    message = Message.open(tmp_path / "message")
    free = report(message, by="group", features=tmp_path / "labels.parquet", id="visit")
    for found in (exact, free):
        assert len(found.rows) == 200
        for name, rate in {"a": 0.7, "b": 0.2, "c": 0.1}.items():
            figures = [row.figures[f"rate of {name}"] for row in found.rows]
            assert sum(not one.lower <= rate <= one.upper for one in figures) <= 26
            assert all(0 <= one.lower <= one.value <= one.upper <= 1 for one in figures)
    with pytest.raises(InvalidInput, match="no quantiles"):
        report(source, by="group", epsilon=1, domain=THREE, out=tmp_path / "other", quantiles=[0.9])
    with pytest.raises(InvalidInput, match="of no class"):
        report(source, by="group", epsilon=1, domain=TWO, out=tmp_path / "other")


@pytest.mark.usefixtures("noiseless")
def test_the_rate_of_the_second_of_two_classes_is_counted_once(tmp_path):
    y = np.arange(90) % 3 == 0
    pq.write_table(pa.table({"bought": y, "shop": np.arange(90) % 2}), tmp_path / "labels.parquet")
    source = LabelSource(tmp_path / "labels.parquet", "bought")
    found = report(source, by="shop", epsilon=1, domain=TWO, out=tmp_path / "report")
    assert [row.figures["rate of yes"].value for row in found.rows] == pytest.approx([1 / 3, 1 / 3])
    assert [(one.kind, one.scale) for one in found.sums] == [("hits", UNITS)]


def private_classes(y, epsilon, domain, seed):
    mechanism = LabelRandomizer(epsilon, domain).plan(len(y)).design()
    return PrivateLabels(mechanism.codes(y.astype(float), randomness=SeededWords(seed)), mechanism)


def test_estimates_from_labels_that_are_hardly_private_are_the_figures_of_scikit_learn():
    y, p = two(np.random.default_rng(10), N)
    found = estimate_classes(private_classes(y, 40, TWO, 0), of_both(p[0]))
    expected = {"log_loss": log_loss(y, p[0]), "brier": brier_score_loss(y, p[0]), "rate of yes": y.mean()}
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value), name
    assert found["auc"].value == pytest.approx(
        roc_auc_score(y, p[0]), abs=1e-3
    )  # corrected for the variance of the rate
    three = np.random.default_rng(11).integers(0, 3, N)
    rates = np.random.default_rng(12).dirichlet(np.ones(3), N)
    found = estimate_classes(private_classes(three, 40, THREE, 1), rates)
    assert found["auc of b"].value == pytest.approx(roc_auc_score(three == 1, rates[:, 1]), abs=1e-3)
    assert found["log_loss"].value == pytest.approx(log_loss(three, rates))


@pytest.mark.parametrize(("n", "epsilon", "rate"), [(2000, 1, -1.0), (5000, 3, -3.0), (800, 40, -1.0)])
def test_intervals_of_estimates_from_private_labels_cover(n, epsilon, rate):
    """Of 200 intervals of 95 % more than 26 miss once in 500,000 times."""
    y, p = two(np.random.default_rng(13), 400_000, rate)
    true = {
        "log_loss": -np.where(y == 1, np.log(p[1]), np.log(1 - p[1])).mean(),
        "brier": np.mean(np.square(y - p[1])),
        "auc": roc_auc_score(y, p[1]),
        "rate of yes": y.mean(),
    }
    constant = -(y.mean() * np.log(p[1].mean()) + (1 - y.mean()) * np.log(1 - p[1].mean()))
    true["gain"] = constant - true["log_loss"]
    missed, widths = dict.fromkeys(true, 0), []
    for seed in range(200):
        own, rates = two(np.random.default_rng([14, seed]), n, rate)
        found = estimate_classes(private_classes(own, epsilon, TWO, seed), of_both(rates[1]))
        for name, value in true.items():
            assert found[name].lower <= found[name].value <= found[name].upper
            missed[name] += not found[name].lower <= value <= found[name].upper
        widths.append(found["auc"].upper - found["auc"].lower)
    assert max(missed.values()) <= 26, missed
    assert np.mean(widths) < 0.5


def test_estimates_are_for_classes_and_their_probabilities():
    y, p = two(np.random.default_rng(10), 50)
    private = private_classes(y, 1, TWO, 0)
    for rates in (p[0], of_both(p[0])[:-1], of_both(np.zeros(50))):
        with pytest.raises(InvalidInput, match="must be probabilities above 0"):
            estimate_classes(private, rates)
    numbers = PrivateLabels(private.codes, RandomizedResponse(Domain.integers(0, 9), 1))
    with pytest.raises(InvalidInput, match="not classes"):
        estimate_classes(numbers, of_both(p[0]))
