"""Reports by group: exact without noise, intervals that cover, one charge, and bad input before it."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import (
    Domain,
    InvalidInput,
    LabelRandomizer,
    LabelSource,
    Ledger,
    Message,
    PrivacyRefused,
    apply,
    privatize,
    report,
)
from labeldp.evaluate import Report
from labeldp.evaluate.report import _mean, _quantile
from labeldp.release import group_sums
from labeldp.release.grid_labels import SumsBudget
from labeldp.release.group_sums import Rows, draw_histograms, draw_numbers


def stays(generator, n):
    return np.minimum(generator.gamma(2, 3, n), 30)


@pytest.fixture
def visits(tmp_path):
    generator = np.random.default_rng(0)
    ward = np.array(["north", "south", None, "tiny"], object)[generator.choice(4, 4000, p=[0.6, 0.296, 0.1, 0.004])]
    stay = stays(generator, 4000) + 3 * (ward == "south")
    table = pa.table({"visit": np.arange(4000), "ward": pa.array(ward, pa.string()), "stay": stay})
    pq.write_table(table, tmp_path / "visits.parquet")
    return tmp_path, ward, np.minimum(stay, 30)


def made(folder, *, out="report", epsilon=1, **more):
    source = LabelSource(folder / more.pop("file", "visits.parquet"), "stay")
    settings = {"by": "ward", "domain": (0, 30)} | more
    return report(source, epsilon=epsilon, out=folder / out, **settings)


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(group_sums, "cube_noise", lambda count, scale, sides=(): np.zeros(count, np.int64))
    monkeypatch.setattr(group_sums, "add_laplace", lambda values, scale: values)


@pytest.mark.usefixtures("noiseless")
def test_without_noise_means_and_quantiles_are_those_of_the_groups(visits):
    folder, ward, stay = visits
    found = made(folder, epsilon=10, quantiles=(0.9, 0.5))
    assert [row.group for row in found.rows] == ["north", "south", "(missing)"]
    assert found.left_out == np.count_nonzero(ward == "tiny")
    for row, name in zip(found.rows, ("north", "south", None), strict=True):
        own = stay[ward == name] if name else stay[[one is None for one in ward]]
        assert row.records == own.size
        assert row.figures["mean"].value == pytest.approx(own.mean(), abs=1e-3)
        for part in (0.5, 0.9):
            assert row.figures[f"quantile {part:g}"].value == pytest.approx(np.quantile(own, part), abs=0.2)


@pytest.mark.usefixtures("noiseless")
def test_few_whole_labels_are_counted_one_by_one(visits):
    folder, ward, stay = visits
    table = pq.read_table(folder / "visits.parquet")
    pq.write_table(table.set_column(2, "stay", pa.array(np.rint(stay))), folder / "visits.parquet")
    found = made(folder, epsilon=20, domain=Domain.integers(0, 30))
    own = np.rint(stay[ward == "north"])
    one = found.rows[0].figures["quantile 0.5"]
    assert one.value == np.quantile(own, 0.5, method="inverted_cdf")
    assert one.lower == int(one.lower)


@pytest.mark.parametrize(("n", "epsilon"), [(60, 1), (1000, "0.2"), (5000, "2")])
def test_intervals_of_means_and_quantiles_cover(n, epsilon):
    """200 groups with the same truth, all drawn at once. Of 200 intervals of 95 % more than 26 miss once in 500,000 times."""
    generator = np.random.default_rng(1)
    population = stays(generator, 2_000_000) / 30
    rows, y = Rows.of(np.repeat(np.arange(200), n)), stays(generator, 200 * n) / 30
    ends = np.broadcast_to([[-0.5, 0.5], [0.0, 0.25]], (200, 2, 2))
    amount, edges = Fraction(epsilon), np.linspace(0, 1, 65)
    sums = draw_numbers(SumsBudget(amount), [y - 0.5, np.square(y - 0.5)], ends, rows, amount)
    cells = np.minimum((y * 64).astype(np.int64), 63)
    counts = draw_histograms(SumsBudget(amount), cells, np.column_stack([edges[:-1], edges[1:]]), rows, amount)
    found = {"mean": ([_mean(sums, group, Domain(0, 1)) for group in range(200)], population.mean())}
    for part in (0.1, 0.5, 0.9):
        found[part] = [_quantile(counts, group, part) for group in range(200)], np.quantile(population, part)
    for name, (figures, truth) in found.items():
        assert sum(not one.lower <= truth <= one.upper for one in figures) <= 26, name
        assert all(one.lower <= one.value <= one.upper for one in figures), name


def test_a_report_of_private_labels_covers_the_means_and_costs_nothing(visits):
    folder, ward, stay = visits
    source = LabelSource(folder / "visits.parquet", "stay", "visit")
    privatize(source, LabelRandomizer(2, (0, 30)), folder / "message")
    found = report(Message.open(folder / "message"), by="ward", features=folder / "visits.parquet", id="visit")
    for row in found.rows[:2]:
        one = row.figures["mean"]
        assert one.lower <= stay[ward == row.group].mean() <= one.upper
    assert found.epsilon == 2
    whole = report(Message.open(folder / "message"))
    assert whole.rows[0].records == 4000
    for wrong in ({"epsilon": 1}, {"out": "r"}, {"by": "ward"}):
        with pytest.raises(InvalidInput):
            report(Message.open(folder / "message"), **wrong)


def test_groups_of_later_batches_are_not_taken_for_counted_labels(tmp_path):
    """The first batch has short stays only. Its counts would rule out the long ones of a later batch."""
    generator = np.random.default_rng(0)
    stay, ward = (
        np.r_[generator.uniform(0, 5, 4000), generator.uniform(24, 28, 1000)],
        np.repeat(["old", "new"], (4000, 1000)),
    )
    table = pa.table({"visit": np.arange(5000), "ward": ward, "stay": stay})
    for name, part in (("first", table.slice(0, 4000)), ("later", table.slice(4000)), ("features", table.slice(10))):
        pq.write_table(part, tmp_path / f"{name}.parquet")
    first, later = (LabelSource(tmp_path / f"{name}.parquet", "stay", "visit") for name in ("first", "later"))
    privatize(first, LabelRandomizer(0.5, (0, 30)), tmp_path / "message", key_file=tmp_path / "key")
    apply(tmp_path / "message", later, key_file=tmp_path / "key")
    found = report(Message.open(tmp_path / "message"), by="ward", features=tmp_path / "features.parquet", id="visit")
    for row in found.rows:
        one = row.figures["mean"]
        assert one.lower <= stay[ward == row.group].mean() <= one.upper
    assert (found.without_label, found.without_features) == (0, 10)


def test_the_folder_proves_itself_and_the_ledger_is_charged_once(visits):
    folder, *_ = visits
    ledger = Ledger.create(folder / "ledger.db")
    ledger.add_dataset("visits", 1)
    found = made(folder, epsilon="0.4", quantiles=(0.5, 0.9), ledger=ledger, dataset="visits")
    assert ledger.remaining("visits") == Fraction("0.6")
    opened = Report.open(folder / "report")
    assert opened.to_json() == found.to_json()
    assert Fraction("0.39999") < opened.proof().total <= Fraction("0.4")
    record = json.loads(found.to_json()) | {"epsilon": "0.3"}
    with pytest.raises(PrivacyRefused):
        Report.from_json(json.dumps(record))
    assert made(folder, out="means", quantiles=()).proof().lines[0].epsilon > Fraction("0.999")
    assert found.plot().get_title() == "mean by ward"


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"by": "stay"}, "holds the labels"),
        ({"by": "visit"}, "4,000 different values.*an id"),
        ({"by": "wards"}, "no column 'wards'"),
        ({"quantiles": (0.5, 1.0)}, "between 0 and 1"),
        ({"quantiles": ("a",)}, "between 0 and 1"),
        ({"smallest_group": 1}, "at least 2"),
        ({"smallest_group": 4000}, "no group of 'ward' has 4,000 records"),
        ({"domain": (0, 2)}, "outside"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": None}, "needs epsilon"),
        ({"features": "x"}, "report of a message"),
        ({"file": "absent.parquet"}, "no file"),
    ],
)
def test_bad_input_is_refused_before_the_charge(visits, more, match):
    folder, *_ = visits
    ledger = Ledger.create(folder / "ledger.db")
    ledger.add_dataset("visits", 1)
    with pytest.raises(InvalidInput, match=match):
        made(folder, ledger=ledger, dataset="visits", **more)
    assert ledger.remaining("visits") == 1
    assert not (folder / "report").exists()
