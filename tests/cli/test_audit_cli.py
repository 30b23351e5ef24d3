"""`labeldp audit` and `labeldp compare` as typed."""

from __future__ import annotations

import csv
import json
from fractions import Fraction

import pytest

from labeldp import Domain, Laplace, RROnBins
from labeldp.data import criteo_prior

SURE = ("--confidence", 1 - 1e-11)  # draws are fresh: the default would accuse one run in a million


@pytest.fixture
def mechanism_file(tmp_path):
    path = tmp_path / "mechanism.json"
    path.write_text(RROnBins.optimal(criteo_prior(), 1).to_json())
    return path


def test_audit_prints_the_exact_ratio(run, mechanism_file):
    code, out, _ = run("audit", mechanism_file, "--json")
    record = json.loads(out)
    assert code == 0
    assert record["holds"]
    assert Fraction(record["worst_ratio"]) <= Fraction("2.71828182845904523536028747135266249775724709369995958")


def test_audit_with_samples_bounds_epsilon_from_below(run, mechanism_file):
    code, out, _ = run("audit", mechanism_file, "--samples", 200_000, *SURE, "--json")
    sampled = json.loads(out)["sampled"]
    assert code == 0
    assert 0.8 < sampled["epsilon_at_least"] <= 1
    assert not sampled["refuted"]


def test_audit_in_words(run, mechanism_file):
    code, out, _ = run("audit", mechanism_file, "--samples", 50_000, *SURE)
    assert code == 0
    assert "proven" in out
    assert "not refuted" in out


def test_an_edited_mechanism_is_refused(run, mechanism_file):
    mechanism_file.write_text(mechanism_file.read_text().replace('"epsilon": "1"', '"epsilon": "0.9"', 1))
    code, _, err = run("audit", mechanism_file)
    assert code == 2
    assert "not 0.9-DP" in err


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"format": "labeldp-mechanism"}'])
def test_what_is_not_a_mechanism_is_refused(run, tmp_path, text):
    path = tmp_path / "mechanism.json"
    path.write_text(text)
    assert run("audit", path)[0] == 2
    assert run("audit", tmp_path / "absent")[0] == 2


def test_float_mechanisms_cannot_be_proven(run, tmp_path):
    path = tmp_path / "mechanism.json"
    path.write_text(Laplace(Domain(0, 1), 1).to_json())
    code, _, err = run("audit", path)
    assert code == 2
    assert "float" in err


def test_compare_finds_rr_on_bins_lowest_everywhere(run, tmp_path):
    code, out, _ = run("compare", "--dataset", "criteo", "--epsilon", "0.5,2", "--json", "--out", tmp_path / "c")
    assert code == 0
    rows = json.loads(out)
    for epsilon in (0.5, 2):
        losses = {row["mechanism"]: row["expected_loss"] for row in rows if row["epsilon"] == epsilon}
        assert min(losses, key=losses.get) == "rr-on-bins"
        assert losses["laplace"] == pytest.approx(losses["discrete-laplace"], rel=1e-3)
    for row in rows:
        assert row["expected_loss"] == pytest.approx(row["bias"] ** 2 + row["variance"], rel=1e-9)
    with (tmp_path / "c" / "comparison.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    assert (tmp_path / "c" / "comparison.png").stat().st_size > 10_000
    assert (tmp_path / "c" / "comparison.svg").exists()


def test_compare_predicts_training_errors(run):
    arguments = (
        "compare",
        "--dataset",
        "criteo",
        "--epsilon",
        "0.5",
        "--mechanisms",
        "rr-on-bins",
        "--records",
        50_000,
    )
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    predicted = {row["choice"]: row["predicted_test_error"] for row in json.loads(out)["training"]}
    assert predicted["auto"] == pytest.approx(min(predicted.values()), rel=0.02)
    assert predicted["auto"] < 0.6 * predicted["rr-on-bins"]
    code, out, _ = run(*arguments)
    assert "predicted test MSE" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either --prior CSV or --dataset"),
        (["--dataset", "mnist"], "unknown dataset"),
        (["--dataset", "criteo", "--epsilon", "0"], "greater than 0"),
        (["--dataset", "criteo", "--epsilon", "a"], "positive number"),
        (["--dataset", "criteo", "--loss", "squard"], "Did you mean"),
        (["--dataset", "criteo", "--mechanisms", "rr"], "unknown mechanism"),
        (["--prior", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_compare_says_what_is_wrong(run, arguments, words):
    code, out, err = run("compare", *arguments)
    assert code == 2
    assert words in err.replace("\n", " ")
    assert out == ""
