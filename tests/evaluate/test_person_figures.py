"""Scores, reports and held-out errors where a person is the unit of privacy: rows are weighted, and persons vary independently."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from labeldp import Domain, InvalidInput, LabelSource, Ledger, held_out_error, report, score
from labeldp.evaluate import Report, Score, held_out_sums
from labeldp.evaluate.class_sums import LEAST, ClassSums
from labeldp.evaluate.report import _mean, _quantile
from labeldp.priors import BudgetWarning
from labeldp.release import group_sums
from labeldp.release.grid_labels import SumsBudget
from labeldp.release.group_sums import UNITS, Rows, draw_histograms, draw_numbers
from labeldp.release.ledger_rows import OtherUnit

WARDS = np.array(["north", "south"])
ONE = Fraction(1)


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(group_sums, "cube_noise", lambda count, scale, sides=(): np.zeros(count, np.int64))
    monkeypatch.setattr(group_sums, "add_laplace", lambda values, scale: values)


@pytest.fixture
def visits(tmp_path):
    """Persons with 1 to 9 rows in two wards, whose labels are the higher, the more rows they have."""
    generator = np.random.default_rng(0)
    person = np.repeat(np.arange(900), generator.integers(1, 10, 900))
    rows = np.bincount(person)[person]
    stay = np.clip(rows + generator.normal(size=900)[person] + generator.normal(size=person.size), 0, 30)
    columns = {"visit": np.arange(person.size), "patient": person, "ward": WARDS[generator.integers(0, 2, person.size)]}
    table = pa.table(columns | {"stay": stay, "guess": np.clip(stay + generator.normal(size=person.size), 0, 30)})
    pq.write_table(table, tmp_path / "visits.parquet")
    return tmp_path, table


def source(folder, **more):
    return LabelSource(folder / "visits.parquet", "stay", "visit", person_column="patient", **more)


def scored(folder, epsilon=1, **more):
    models = {"models": ["guess"]} | more
    return score(source(folder), folder / "visits.parquet", folder / "score", epsilon, (0, 30), **models)


@pytest.mark.usefixtures("noiseless")
def test_without_noise_every_person_counts_as_one(visits):
    folder, table = visits
    person, ward, y, f = (np.asarray(table[name]) for name in ("patient", "ward", "stay", "guess"))
    weight = 1 / np.bincount(person)[person]
    found = scored(folder, epsilon=40, by="ward").score
    told = report(source(folder), by="ward", epsilon=40, domain=(0, 30), out=folder / "report", quantiles=(0.5, 0.9))
    assert found.persons == told.persons == 900
    parts = [(found.overall, None, np.ones(y.size, bool))]
    parts += [(found.by_group[name], row, ward == name) for name, row in zip(WARDS, told.rows, strict=True)]
    for figures, row, own in parts:
        w, error = weight[own], (f - y)[own]
        one = figures["guess"]
        assert one.records == own.sum()
        assert one.mse.value == pytest.approx(np.average(error**2, weights=w), rel=1e-3)
        assert one.mae.value == pytest.approx(np.average(abs(error), weights=w), rel=1e-3)
        assert one.bias.value == pytest.approx(np.average(error, weights=w), abs=1e-3)
        mean = np.average(y[own], weights=w)
        assert one.mse_of_mean.value == pytest.approx(np.average((y[own] - mean) ** 2, weights=w), rel=2e-3)
        assert abs(mean - y[own].mean()) > 0.5  # the mean over rows is another one
        if row is not None:
            assert row.figures["mean"].value == pytest.approx(mean, abs=1e-3)
            order = np.argsort(y[own])
            below = np.cumsum(w[order]) / w.sum()
            for part in (0.5, 0.9):
                assert row.figures[f"quantile {part}"].value == pytest.approx(y[own][order][below >= part][0], abs=0.3)


def largest_change(sums, other):
    """The change in units of what noise is scaled for: the size of the body in each group for numbers, all for histograms."""
    moved = sums.values - other.values
    assert sums.scale == other.scale
    return (
        sum(smallest_body(sums.body, group, row) for group, row in enumerate(moved.tolist()))
        if sums.kind == "numbers"
        else int(abs(moved).sum())
    )


def smallest_body(body, group, change):
    """The smallest r at which the noise of a group can be this change."""
    sides = body.sides(group) if body else []
    reach = max(map(abs, change))
    for side, limit in sides:
        reach = max(reach, abs(sum(a * z for a, z in zip(side, change, strict=False))) / limit)
    return math.ceil(reach)


def asked(labels, rows):
    """All sums about four persons in two groups, of which the first has four rows."""
    ends = np.broadcast_to([[-0.5, 0.5], [0.0, 0.25]], (2, 2, 2))
    edges = np.linspace(0, 1, 6)
    above = rows.means(labels - 0.5)
    yield draw_numbers(SumsBudget(1), [above, np.square(above)], ends, rows, ONE)
    cells = np.minimum((labels * 5).astype(np.int64), 4)
    yield draw_histograms(SumsBudget(1), cells, np.column_stack([edges[:-1], edges[1:]]), rows, ONE)
    hits = np.where(labels > 0.5, np.arange(labels.size) % 3, -1)
    yield draw_histograms(SumsBudget(1), hits, np.zeros((3, 2)), rows, ONE, "hits")


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("persons", [np.array([0, 0, 0, 0, 1, 2, 3]), None])
def test_no_labels_of_a_person_move_the_sums_by_more_than_their_cost(persons):
    """Every pair of assignments to the four rows of a person. Rows that are not weighted are found."""
    rows = Rows.of(np.array([0, 1, 0, 0, 1, 1, 0]), persons)
    found = [
        list(asked(np.array([*labels, 0.3, 0.6, 0.9]), rows))
        for labels in itertools.product((0.0, 0.37, 1.0), repeat=4)
    ]
    for sums in zip(*found, strict=True):
        most = max(largest_change(one, other) for one, other in itertools.combinations(sums, 2))
        assert (most <= sums[0].sensitivity) == (persons is not None)
        assert most > 0.99 * sums[0].sensitivity  # and the noise is not larger than it must be


@pytest.mark.usefixtures("noiseless")
def test_all_sums_of_a_score_move_within_their_cost(monkeypatch):
    drawn, draw = [], held_out_sums.add_noise
    monkeypatch.setattr(held_out_sums, "add_noise", lambda *given: drawn.append(draw(*given)) or drawn[-1])
    generator = np.random.default_rng(1)
    persons, codes = np.repeat(np.arange(12), 5), generator.integers(0, 3, 60)
    models, labels = generator.random((3, 60)), generator.random(60)
    for ends in itertools.product((0.0, 0.4, 1.0), repeat=5):
        labels[persons == 7] = ends
        held_out_sums.HeldOutSums.ask(SumsBudget(1), ONE, labels, models, codes, persons)
    first = drawn[::2]  # the sums of squares depend on these
    moved = [largest_change(one, other) for one, other in itertools.combinations(first[::2], 2)]
    assert 0.95 * UNITS < max(moved) <= UNITS
    assert sum(one.epsilon_exact for one in drawn[:2]) <= 1


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("classes", [2, 3])
def test_all_sums_of_a_score_of_classes_move_within_their_cost(classes):
    """Every pair of assignments to the four rows of a person, with extreme probabilities among them."""
    generator = np.random.default_rng(3)
    persons, codes = np.repeat(np.arange(6), 4), generator.integers(0, 2, 24)
    p = np.clip(softmax(4 * generator.normal(size=(2, 24, classes)), axis=2), LEAST, 1)
    p /= p.sum(axis=2, keepdims=True)
    labels = generator.integers(0, classes, 24).astype(float)
    found = []
    for own in itertools.product(range(classes), repeat=4):
        labels[persons == 2] = own
        found.append(ClassSums.ask(SumsBudget(1), ONE, labels, p, codes, persons).parts)
    for sums in zip(*found, strict=True):
        most = max(largest_change(one, other) for one, other in itertools.combinations(sums, 2))
        assert 0 < most <= sums[0].sensitivity
        assert all((one.ends == sums[0].ends).all() and (one.weights == sums[0].weights).all() for one in sums)
    assert sum(one.epsilon_exact for one in found[0]) <= 1


@pytest.mark.usefixtures("noiseless")
def test_without_noise_figures_of_classes_are_those_of_weighted_rows(visits):
    folder, table = visits
    person, ward, stay = (np.asarray(table[name]) for name in ("patient", "ward", "stay"))
    generator = np.random.default_rng(4)
    rate = np.round(expit(stay - 6 + generator.normal(size=stay.size)), 2).clip(0.01, 0.99)  # with ties
    y = generator.random(stay.size) < expit(stay - 6)
    table = table.set_column(3, "stay", pa.array(np.where(y, "long", "short")))
    pq.write_table(table.append_column("rate", pa.array(rate)), folder / "visits.parquet")
    classes, weight = Domain.of_classes(["short", "long"]), 1 / np.bincount(person)[person]
    given = {"by": "ward", "epsilon": 40, "domain": classes}
    told = report(source(folder), **given, out=folder / "report")
    scores = score(source(folder), folder / "visits.parquet", folder / "score", models=["rate"], **given).score
    parts = [(scores.overall["rate"], None, np.ones(y.size, bool))]
    parts += [(scores.by_group[name]["rate"], row, ward == name) for name, row in zip(WARDS, told.rows, strict=True)]
    for one, row, own in parts:
        of = {"sample_weight": weight[own]}
        share = np.average(y[own], weights=weight[own])
        assert one.records == own.sum()
        assert one.log_loss.value == pytest.approx(log_loss(y[own], rate[own], **of), abs=1e-4)
        assert one.brier.value == pytest.approx(brier_score_loss(y[own], rate[own], **of), abs=1e-4)
        assert one.auc["long"].value == pytest.approx(roc_auc_score(y[own], rate[own], **of), abs=1e-3)
        assert one.rate["long"].value == pytest.approx(share, abs=1e-4)
        assert abs(share - y[own].mean()) > 0.05  # the share of rows is another one
        lowest = own & (rate <= np.quantile(rate, 0.1, method="inverted_cdf"))
        first = one.calibration[0]
        assert (first.records, first.of) == (lowest.sum(), "long")
        assert first.share.value == pytest.approx(np.average(y[lowest], weights=weight[lowest]), abs=1e-4)
        assert first.predicted == pytest.approx(np.average(rate[lowest], weights=weight[lowest]))
        if row is not None:
            assert row.figures["rate of long"].value == pytest.approx(share, abs=1e-4)
    for kind, made in ((Score, scores), (Report, told)):
        assert kind.open(folder / kind.__name__.lower()).to_arrow().equals(made.to_arrow())
        with pytest.raises(InvalidInput, match="unit of privacy"):
            kind.from_json(json.dumps(json.loads(made.to_json()) | {"persons": None}))


@pytest.mark.parametrize("epsilon", ["1", "40"])
def test_intervals_of_classes_cover_where_the_rows_of_a_person_are_alike(epsilon):
    """200 groups of 150 persons with up to 12 rows. Of 200 intervals of 95 % more than 26 miss once in 500,000 times."""
    generator = np.random.default_rng(5)
    sizes = generator.integers(1, 13, 200 * 150)
    persons = np.repeat(np.arange(sizes.size), sizes)
    codes, amount = np.arange(sizes.size)[persons] % 200, Fraction(epsilon)

    def drawn(owners, count):
        """Classes and probabilities of rows, most of which are those of their persons."""
        odds, luck = generator.normal(-1, 1.2, count), generator.random(count)
        own = np.where(generator.random(owners.size) < 0.1, generator.random(owners.size), luck[owners])
        return (own < expit(odds)[owners]).astype(float), np.clip(expit(1.5 * odds)[owners], LEAST, 1 - LEAST)

    y, p = drawn(np.arange(400_000), 400_000)
    true = {
        "log_loss": log_loss(y, p),
        "brier": brier_score_loss(y, p),
        "auc": roc_auc_score(y, p),
        "rate of yes": y.mean(),
    }
    y, p = drawn(persons, sizes.size)

    def missed(of):
        sums = ClassSums.ask(SumsBudget(amount), amount, y, np.stack([1 - p, p], axis=-1)[None], codes, of)
        found = [sums.group(group).error(0, Domain.of_classes(["no", "yes"]), amount).figures for group in range(200)]
        return {
            name: sum(not one[name].lower <= value <= one[name].upper for one in found) for name, value in true.items()
        }

    assert max(missed(persons).values()) <= 26
    if epsilon == "40":
        assert min(missed(None).values()) > 60  # as if all rows were independent


@pytest.mark.parametrize("epsilon", ["0.5", "8"])
def test_intervals_cover_where_the_rows_of_a_person_are_alike(epsilon):
    """200 groups of 60 persons with up to 12 rows. Of 200 intervals of 95 % more than 26 miss once in 500,000 times."""
    generator = np.random.default_rng(2)
    sizes = generator.integers(1, 13, 200 * 60)
    persons = np.repeat(np.arange(sizes.size), sizes)
    codes = np.arange(sizes.size)[persons] % 200
    level = generator.beta(2, 3, sizes.size)
    y = np.clip(level[persons] + generator.normal(0, 0.05, persons.size), 0, 1)
    truth = np.clip(generator.beta(2, 3, 1_000_000) + generator.normal(0, 0.05, 1_000_000), 0, 1)
    amount, edges = Fraction(epsilon), np.linspace(0, 1, 65)
    ends = np.broadcast_to([[-0.5, 0.5], [0.0, 0.25]], (200, 2, 2))

    def missed(rows):
        above = rows.means(y - 0.5)
        sums = draw_numbers(SumsBudget(amount), [above, np.square(above)], ends, rows, amount)
        cells = np.minimum((y * 64).astype(np.int64), 63)
        counts = draw_histograms(SumsBudget(amount), cells, np.column_stack([edges[:-1], edges[1:]]), rows, amount)
        found = {"mean": ([_mean(sums, group, Domain(0, 1)) for group in range(200)], truth.mean())}
        for part in (0.2, 0.5):
            found[part] = [_quantile(counts, group, part) for group in range(200)], np.quantile(truth, part)
        return {
            name: sum(not one.lower <= value <= one.upper for one in figures)
            for name, (figures, value) in found.items()
        }

    assert max(missed(Rows.of(codes, persons)).values()) <= 26
    if epsilon == "8":
        assert missed(Rows.of(codes))["mean"] > 60  # as if all rows were independent

    errors = np.stack([np.clip(level[persons] + 0.3 * generator.random(sizes.size)[persons], 0, 1)])
    sums = held_out_sums.HeldOutSums.ask(SumsBudget(amount), amount, y, errors, codes, persons)
    found = [sums.group(group).error(0, Domain(0, 1), ONE).figures for group in range(200)]
    true = (
        np.average((errors[0] - y) ** 2, weights=1 / sizes[persons]),
        np.average(errors[0] - y, weights=1 / sizes[persons]),
    )
    for name, value in zip(("mse", "bias"), true, strict=True):
        assert sum(not one[name].lower <= value <= one[name].upper for one in found) <= 26, name


def test_the_ledger_is_charged_for_persons_and_the_folders_say_so(visits):
    folder, table = visits
    ledger = Ledger.create(folder / "ledger.db")
    ledger.add_dataset("rows", 3)
    ledger.add_dataset("patients", 3, unit="person")
    with pytest.raises(OtherUnit):
        scored(folder, ledger=ledger, dataset="rows")
    found = scored(folder, ledger=ledger, dataset="patients").score
    told = report(source(folder), epsilon=1, domain=(0, 30), out=folder / "report", ledger=ledger, dataset="patients")

    class Given:
        def predict(self, X):
            return X

    y, f, persons = (np.asarray(table[name]) for name in ("stay", "guess", "patient"))
    held_out_error(Given(), f, y, 1, (0, 30), persons=persons, ledger=ledger, dataset="patients")
    assert ledger.remaining("patients") == 0
    assert ledger.remaining("rows") == 3
    for kind, made in ((Score, found), (Report, told)):
        name = kind.__name__.lower()
        opened = kind.open(folder / name)
        assert opened.to_json() == made.to_json()
        assert opened.persons == 900
        card = (folder / name / "PRIVACY.md").read_text()
        assert "for each person" in card
        assert "means over persons" in card
        assert "m·ε" not in card
        with pytest.raises(InvalidInput, match="unit of privacy"):
            kind.from_json(json.dumps(json.loads(made.to_json()) | {"persons": None}))


@pytest.mark.parametrize(
    ("patients", "match"),
    [
        (lambda p: np.zeros(p.size, np.int64), "one person cannot be hidden"),
        (lambda p: pa.array([None, *p[1:].tolist()]), "no person in row 1"),
        (lambda p: p + 0.5, "persons must be integers or text"),
    ],
)
def test_bad_persons_are_refused_before_the_charge(visits, patients, match):
    folder, table = visits
    ledger = Ledger.create(folder / "ledger.db")
    ledger.add_dataset("patients", 1, unit="person")
    changed = table.set_column(1, "patient", pa.array(patients(np.asarray(table["patient"]))))
    pq.write_table(changed, folder / "visits.parquet")
    for release in (scored, lambda f, **more: report(source(f), epsilon=1, domain=(0, 30), out=f / "out", **more)):
        with pytest.raises(InvalidInput, match=match):
            release(folder, ledger=ledger, dataset="patients")
    assert ledger.remaining("patients") == 1


def test_a_person_with_too_many_rows_is_refused_and_single_rows_are_warned_of(visits):
    folder, _ = visits
    with pytest.raises(InvalidInput, match="262,145 rows"):
        Rows.of(np.zeros(UNITS + 2, np.int64), np.array([0, *np.ones(UNITS + 1, np.int64)]))
    with pytest.warns(BudgetWarning, match="no person has more than one row"):
        report(
            LabelSource(folder / "visits.parquet", "stay", person_column="visit"),
            epsilon=1,
            domain=(0, 30),
            out=folder / "out",
        )


def test_a_small_group_is_one_of_few_persons(visits):
    folder, table = visits
    ward = np.where(np.asarray(table["patient"]) < 15, "east", np.asarray(table["ward"]))
    pq.write_table(table.set_column(2, "ward", pa.array(ward)), folder / "visits.parquet")
    found = report(source(folder), by="ward", epsilon=1, domain=(0, 30), out=folder / "report")
    assert [row.group for row in found.rows] == ["north", "south"]
    assert found.left_out == np.count_nonzero(ward == "east") > 20
