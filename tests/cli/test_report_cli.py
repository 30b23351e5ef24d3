"""`labeldp report` as both parties type it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def visits(tmp_path):
    generator = np.random.default_rng(0)
    ward, stay = generator.choice(["north", "south"], 4000), np.minimum(generator.gamma(2, 3, 4000), 40)
    pq.write_table(pa.table({"visit": np.arange(4000), "ward": ward, "stay": stay}), tmp_path / "visits.parquet")
    return tmp_path


LABELS = ("--label", "stay", "--lower", 0, "--upper", 30, "--by", "ward")


def test_the_labels_party_gets_a_table_a_folder_a_csv_and_a_picture(run, visits):
    files = "--out", visits / "report", "--csv", visits / "means.csv", "--picture", visits / "means.svg"
    code, out, _ = run("report", visits / "visits.parquet", *LABELS, "--epsilon", 1, "--quantiles", "0.5,0.9", *files)
    assert code == 0
    for word in ("north", "south", "median", "quantile 0.9", "records"):
        assert word in out
    assert (visits / "means.csv").read_bytes() == (visits / "report/figures.csv").read_bytes()
    assert "<svg" in (visits / "means.svg").read_text()
    code, out, _ = run("audit", visits / "report")
    assert code == 0
    assert "proven" in out


def test_the_features_party_reports_a_message(run, visits):
    labels = "--label", "stay", "--id", "visit", "--lower", 0, "--upper", 30
    assert (
        run("privatize", visits / "visits.parquet", *labels, "--epsilon", 2, "--out", visits / "message", "-q")[0] == 0
    )
    groups = "--features", visits / "visits.parquet", "--id", "visit", "--by", "ward"
    code, out, _ = run("report", visits / "message", *groups)
    assert code == 0
    assert "this report costs nothing" in out
    assert len(json.loads(run("report", visits / "message", *groups, "--json")[1])["figures"]) == 2
    assert run("report", visits / "message", *groups, "--epsilon", 1)[0] == 2
    table = pq.read_table(visits / "visits.parquet")
    pa_csv.write_csv(
        table, visits / "visits.csv", pa_csv.WriteOptions(delimiter="^")
    )  # a delimiter that is not recognised
    groups = "--features", visits / "visits.csv", "--id", "visit", "--by", "ward"
    assert run("report", visits / "message", *groups, "--delimiter", "^")[1] == out
    assert run("report", visits / "message", "--by", "ward")[0] == 2


def test_what_is_not_known_is_marked(run, visits):
    code, out, err = run("report", visits / "visits.parquet", *LABELS, "--epsilon", "0.001", "--out", visits / "report")
    assert code == 0
    assert "not known" in out
    assert "larger ε" in err


@pytest.mark.parametrize(
    ("option", "value"), [("--lower", "0"), ("--quantiles", "0.9"), ("--sign-key", "k.pem"), ("--unit", "hours")]
)
def test_options_for_labels_are_refused_for_a_message(run, visits, option, value):
    (visits / "message").mkdir()
    (visits / "message" / "manifest.json").write_text("{}")
    code, _, error = run("report", visits / "message", option, value)
    assert code == 2
    assert f"{option} is for a report of labels" in error


def test_wrong_options_are_refused_before_anything_is_written(run, visits):
    for more in (
        ("--out", visits / "r", "--id", "visit"),
        ("--out", visits / "r", "--quantiles", "2"),
        (),
        ("--out", visits / "r", "--picture", "a.txt"),
    ):
        assert run("report", visits / "visits.parquet", *LABELS, "--epsilon", 1, *more)[0] == 2
    assert not (visits / "r").exists()
