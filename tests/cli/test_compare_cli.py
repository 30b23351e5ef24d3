"""`labeldp compare` as people call it: the distributions that come with labeldp, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from rich.console import Console

from labeldp.cli import console
from labeldp.mechanisms import DiscreteLaplace, RROnBins
from labeldp.mechanisms.auto import alternatives
from labeldp.mechanisms.comparison import comparable
from labeldp.paper.data import CALIBRATED, census_prior


@pytest.mark.parametrize("name", CALIBRATED.names)
def test_every_calibrated_distribution_can_be_compared_on_its_experiments_range(run, name):
    arguments = ("--dataset", name, "--epsilon", "2", "--mechanisms", "rr-on-bins,discrete-laplace", "--json")
    code, out, _ = run("compare", *arguments)
    assert code == 0
    found = {row["mechanism"]: row["expected_loss"] for row in json.loads(out)}
    prior, domain = CALIBRATED[name].prior(), CALIBRATED[name].domain
    assert found["rr-on-bins"] == pytest.approx(RROnBins.optimal(prior, 2).expected_loss(prior))
    assert found["discrete-laplace"] == pytest.approx(DiscreteLaplace(domain, 2).expected_loss(prior))


def test_census_as_typed(run):
    code, out, err = run("compare", "--dataset", "census", "--epsilon", "8", "--mechanisms", "rr-on-bins,rr-with-prior")
    assert (code, err) == (0, "")
    assert rows_of(out) == [["rr-on-bins", "8", "2.53785"], ["rr-with-prior", "8", "11.5727"]]


def rows_of(out):
    """The first three cells of each row: mechanism, ε and expected loss."""
    return [line.split()[:3] for line in out.splitlines() if re.match(r" rr-", line)]


def test_training_on_census_labels_is_predicted_on_the_same_range(run):
    arguments = ("--dataset", "census", "--epsilon", "2", "--mechanisms", "rr-on-bins", "--records", 50_000, "--json")
    code, out, _ = run("compare", *arguments)
    assert code == 0
    expected = alternatives(census_prior(), 2, 50_000, domain=CALIBRATED["census"].domain)
    found = {row["choice"]: row["predicted_test_error"] for row in json.loads(out)["training"]}
    assert found == pytest.approx({choice.name: choice.predicted_error for choice in expected})


def test_rr_on_bins_is_lowest_and_the_files_hold_what_was_printed(run, tmp_path):
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
        written = [(row["mechanism"], float(row["expected_loss"])) for row in csv.DictReader(file)]
    assert written == [(row["mechanism"], row["expected_loss"]) for row in rows]
    assert "expected squared loss" in (tmp_path / "c" / "comparison.svg").read_text(encoding="utf-8")
    assert (tmp_path / "c" / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_infinite_losses_are_null_in_json_and_in_words_in_the_table(run, tmp_path):
    """An output of 0 has an infinite Poisson loss for every label above 0."""
    arguments = ("compare", "--dataset", "census", "--epsilon", "2", "--loss", "poisson", "--out", tmp_path)
    code, out, err = run(*arguments, "--json")
    assert code == 0
    losses = {row["mechanism"]: row["expected_loss"] for row in json.loads(out)}
    assert losses["randomized-response"] is None
    best = RROnBins.optimal(census_prior(), 2, "poisson").expected_loss(census_prior(), "poisson")
    assert losses["rr-on-bins"] == pytest.approx(best)
    assert "infinite or undefined are null" in err
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert re.search(r"randomized-response +2 +infinite ", out)
    assert re.search(rf"rr-on-bins +2 +{best:.5g}", out)


def test_nothing_is_cut_on_a_terminal_of_80_columns(run, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=screen, force_terminal=True, width=80, color_system=None))
    assert run("compare", "--dataset", "census", "--epsilon", "0.125,2", "--records", 50_000)[0] == 0
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in screen.getvalue()
    first_words = {line.split()[0] for line in lines if line.strip()}
    assert set(comparable()) <= first_words


def test_training_errors_are_predicted(run):
    chosen = ("--epsilon", "0.5", "--mechanisms", "rr-on-bins", "--records", 50_000)
    code, out, _ = run("compare", "--dataset", "criteo", *chosen, "--json")
    assert code == 0
    predicted = {row["choice"]: row["predicted_test_error"] for row in json.loads(out)["training"]}
    assert predicted["auto"] == pytest.approx(min(predicted.values()), rel=0.02)
    assert predicted["auto"] < 0.6 * predicted["rr-on-bins"]
    code, out, _ = run("compare", "--dataset", "criteo", *chosen)
    (shown,) = re.findall(r" auto .* ([\d,.]+) *\n", out)
    assert float(shown.replace(",", "")) == pytest.approx(predicted["auto"], rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--dataset", "adult"), "unknown dataset 'adult'. Known: census, criteo."),
        (("--dataset", "sensus"), "Did you mean 'census'?"),
        ((), "one of --prior CSV, --dataset census, --dataset criteo"),
        (("--dataset", "census", "--prior", "prior.csv"), "one of --prior CSV"),
        (("--dataset", "criteo", "--epsilon", "0"), "greater than 0"),
        (("--dataset", "criteo", "--epsilon", "a"), "positive number"),
        (("--dataset", "criteo", "--epsilon", ","), "at least one value"),
        (("--dataset", "criteo", "--loss", "squard"), "Did you mean"),
        (("--dataset", "criteo", "--mechanisms", "rr"), "unknown mechanism"),
        (("--prior", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_wrong_input_is_refused_with_what_to_do(run, arguments, words):
    code, out, err = run("compare", *arguments)
    assert (code, out) == (2, "")
    assert words in " ".join(err.split())
