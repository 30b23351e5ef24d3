"""`labeldp compare` as people call it: the distributions that come with labeldp, and what it refuses."""

from __future__ import annotations

import csv
import json
import re

import pytest

from labeldp import advise
from labeldp.evaluate.comparison import REFERENCES, comparable
from labeldp.mechanisms import MECHANISMS, DiscreteLaplace, RROnBins
from labeldp.mechanisms.auto import alternatives, choose
from labeldp.paper.data import CALIBRATED, census_prior, criteo_prior

SOME = "rr-on-bins,rr-with-prior,discrete-laplace,laplace"


@pytest.mark.parametrize("name", CALIBRATED.names)
def test_every_calibrated_distribution_can_be_compared_on_its_experiments_range(run, name):
    arguments = ("--dataset", name, "--epsilon", "2", "--mechanisms", "rr-on-bins,discrete-laplace", "--json")
    code, out, _ = run("compare", *arguments)
    assert code == 0
    found = {row["mechanism"]: row["expected_loss"] for row in json.loads(out)}
    prior, domain = CALIBRATED[name].prior(), CALIBRATED[name].domain
    assert found["rr-on-bins"] == pytest.approx(RROnBins.optimal(prior, 2).expected_loss(prior))
    assert found["discrete-laplace"] == pytest.approx(DiscreteLaplace(domain, 2).expected_loss(prior))


def rows_of(out):
    """The rows of the tables: mechanism, error of a model, error of a label and so on."""
    names = (*MECHANISMS.names, *REFERENCES)
    return [
        line.replace(" *", "").split()
        for line in out.splitlines()
        if line.startswith(" ") and line.split()[:1] in [[n] for n in names]
    ]


def test_what_to_choose_for_a_model_stands_first_and_the_mean_shows_what_is_useless(run):
    code, out, err = run("compare", "--dataset", "criteo", "--epsilon", "0.5", "--records", 20_000)
    assert (code, err) == (0, "")
    table = rows_of(out)
    names = [row[0] for row in table]
    assert names[:2] == ["not-private", "auto"]
    assert set(names) == set(comparable())
    errors = [float(row[1].replace(",", "")) for row in table]
    assert errors == sorted(errors)
    assert names.index("rr-on-bins") < names.index("mean-only") < names.index("laplace")
    said = " ".join(out.split())
    assert (
        "training on 20,000 records, if features explain 0.5 of the labels' variance; --records and --explained change it"
        in said
    )
    assert "To train a model choose auto" in said


def test_a_dataset_is_compared_for_as_many_records_as_it_has(run):
    code, out, _ = run("compare", "--dataset", "census", "--epsilon", "1", "--mechanisms", "auto,bias-variance")
    assert code == 0
    assert "training on 40,466,154 records (the dataset's own)" in " ".join(out.split())
    assert sorted(row[0] for row in rows_of(out)) == ["auto", "bias-variance", "mean-only", "not-private"]


def test_a_prior_from_a_file_is_compared_for_a_stated_number_of_records(run, tmp_path):
    (tmp_path / "prior.csv").write_text("value,mass\n0,2\n10,1\n50,1\n", encoding="utf-8")
    arguments = ("compare", "--prior", tmp_path / "prior.csv", "--epsilon", "1", "--mechanisms", "auto")
    assert "training on 100,000 records (assumed)" in " ".join(run(*arguments)[1].split())
    assert {row["records"] for row in json.loads(run(*arguments, "--json")[1])} == {100_000}


def test_errors_of_models_are_those_of_alternatives(run):
    arguments = ("--dataset", "census", "--epsilon", "2", "--records", 50_000, "--json")
    code, out, _ = run("compare", *arguments)
    assert code == 0
    found = {row["mechanism"]: row["model_error"] for row in json.loads(out)}
    expected = {
        c.name: c.predicted_error for c in alternatives(census_prior(), 2, 50_000, domain=CALIBRATED["census"].domain)
    }
    del expected["rr-on-bins"]  # as the paper trains; `compare` goes by the values that training takes by default
    expected["rr-on-bins"] = expected.pop("rr-on-bins, debiased")
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_the_references_are_the_labels_themselves_and_their_mean(run):
    code, out, _ = run(
        "compare", "--dataset", "criteo", "--epsilon", "1", "--mechanisms", "auto", "--records", 3000, "--json"
    )
    assert code == 0
    auto, true, mean = json.loads(out)
    prior = criteo_prior()
    variance = float(prior.masses @ (prior.values - prior.mean) ** 2)
    assert (true["mechanism"], true["expected_loss"], true["exact"]) == ("not-private", 0, False)
    assert (mean["mechanism"], mean["exact"]) == ("mean-only", True)
    assert mean["expected_loss"] == pytest.approx(variance)
    assert mean["model_error"] == pytest.approx(variance, rel=1e-3)  # of merged labels
    floor = 0.5 * variance
    assert true["model_error"] == pytest.approx(advise((0, 400), 3000, prior=prior).not_private.mse)
    assert floor < true["model_error"] < auto["model_error"] < mean["model_error"]
    assert auto["model_error"] == pytest.approx(
        choose(prior, 1, 3000, domain=CALIBRATED["criteo"].domain).predicted_error
    )


def test_other_losses_are_ordered_by_the_error_of_the_labels(run):
    code, out, _ = run("compare", "--dataset", "census", "--epsilon", "1", "--loss", "absolute")
    assert code == 0
    errors = [float(row[1].replace(",", "")) for row in rows_of(out)]
    assert errors == sorted(errors)
    assert "To train a model choose auto all the same" in " ".join(out.split())


def test_rr_on_bins_is_lowest_and_the_files_hold_what_was_printed(run, tmp_path):
    code, out, _ = run(
        "compare", "--dataset", "criteo", "--epsilon", "0.5,2", "--mechanisms", SOME, "--json", "--out", tmp_path / "c"
    )
    assert code == 0
    rows = json.loads(out)
    for epsilon in (0.5, 2):
        losses = {row["mechanism"]: row["expected_loss"] for row in rows if row["epsilon"] == epsilon}
        assert losses.pop("not-private") == 0
        assert min(losses, key=losses.get) == "rr-on-bins"
        assert losses["laplace"] == pytest.approx(losses["discrete-laplace"], rel=1e-3)
    for row in rows:
        assert row["expected_loss"] == pytest.approx(row["bias"] ** 2 + row["variance"], rel=1e-9)
    with (tmp_path / "c" / "comparison.csv").open() as file:
        written = [(row["mechanism"], float(row["expected_loss"])) for row in csv.DictReader(file)]
    assert written == [(row["mechanism"], row["expected_loss"]) for row in rows]
    drawn = (tmp_path / "c" / "comparison.svg").read_text(encoding="utf-8")
    assert all(text in drawn for text in ("expected squared loss", "error of a model", *SOME.split(",")))
    assert (tmp_path / "c" / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_infinite_losses_are_null_in_json_and_in_words_in_the_table(run):
    """An output of 0 has an infinite Poisson loss for every label above 0."""
    arguments = ("compare", "--dataset", "census", "--epsilon", "2", "--loss", "poisson")
    code, out, err = run(*arguments, "--json")
    assert code == 0
    losses = {row["mechanism"]: row["expected_loss"] for row in json.loads(out)}
    assert losses["randomized-response"] is None
    best = RROnBins.optimal(census_prior(), 2, "poisson").expected_loss(census_prior(), "poisson")
    assert losses["rr-on-bins"] == pytest.approx(best)
    assert "infinite or undefined are null" in err
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert re.search(r"randomized-response +infinite ", out)
    assert re.search(rf"rr-on-bins +{best:.5g}", out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--dataset", "sensus"), "Did you mean 'census'?"),
        ((), "one of --prior CSV, --dataset census, --dataset criteo"),
        (("--dataset", "census", "--prior", "prior.csv"), "one of --prior CSV"),
        (("--dataset", "criteo", "--epsilon", "0"), "greater than 0"),
        (("--dataset", "criteo", "--epsilon", ","), "at least one value"),
        (("--dataset", "criteo", "--mechanisms", "rr"), "unknown mechanism"),
        (("--prior", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_wrong_input_is_refused_with_what_to_do(run, arguments, words):
    code, out, err = run("compare", *arguments)
    assert (code, out) == (2, "")
    assert words in " ".join(err.split())
