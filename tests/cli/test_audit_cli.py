"""`labeldp audit` as typed."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from labeldp import Domain
from labeldp.mechanisms import Laplace, RROnBins
from labeldp.paper.data import criteo_prior

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
    assert "not refuted" in run("audit", mechanism_file, "--samples", 50_000, *SURE)[1]


def test_an_edited_mechanism_is_refused(run, mechanism_file):
    mechanism_file.write_text(mechanism_file.read_text().replace('"epsilon": "1"', '"epsilon": "0.9"', 1))
    code, _, err = run("audit", mechanism_file)
    assert code == 2
    assert "not 0.9-DP" in err


@pytest.mark.parametrize("text", ["", '{"format": "labeldp-mechanism"}'])
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
