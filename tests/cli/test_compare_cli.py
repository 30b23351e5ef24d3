"""`labeldp compare` as people call it: the distributions that come with labeldp, and what it refuses."""

from __future__ import annotations

import json

import pytest

from labeldp.mechanisms import DiscreteLaplace, RROnBins
from labeldp.mechanisms.auto import alternatives
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
    figures = [line.split("│")[1:4] for line in out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in figures] == [
        ["rr-on-bins", "8", "2.53785"],
        ["rr-with-prior", "8", "11.5727"],
    ]


def test_training_on_census_labels_is_predicted_on_the_same_range(run):
    arguments = ("--dataset", "census", "--epsilon", "2", "--mechanisms", "rr-on-bins", "--records", 50_000, "--json")
    code, out, _ = run("compare", *arguments)
    assert code == 0
    expected = alternatives(census_prior(), 2, 50_000, domain=CALIBRATED["census"].domain)
    found = {row["choice"]: row["predicted_test_error"] for row in json.loads(out)["training"]}
    assert found == pytest.approx({choice.name: choice.predicted_error for choice in expected})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--dataset", "adult"), "unknown dataset 'adult'. Known: census, criteo."),
        (("--dataset", "sensus"), "Did you mean 'census'?"),
        ((), "one of --prior CSV, --dataset census, --dataset criteo"),
        (("--dataset", "census", "--prior", "prior.csv"), "one of --prior CSV"),
    ],
)
def test_a_distribution_that_is_not_there_is_refused_with_those_that_are(run, arguments, words):
    code, out, err = run("compare", *arguments)
    assert (code, out) == (2, "")
    assert words in " ".join(err.split())
