"""`labeldp advise` as people call it: tables, sentences, JSON, messages, and what it refuses."""

from __future__ import annotations

import io
import json
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len
from rich.console import Console

from labeldp import LabelRandomizer, LabelSource, Prior, advise, privatize
from labeldp.cli import console

BASE = ("advise", "--lower", "0", "--upper", "400", "--records", "50000")
SHAPE = ("--shape", "exponential:mean=90")


@pytest.fixture(scope="module")
def message(tmp_path_factory):
    folder = tmp_path_factory.mktemp("advise")
    labels = np.minimum(np.random.default_rng(0).exponential(90, 3_000), 400)
    pq.write_table(pa.table({"order": range(3_000), "amount": labels}), folder / "labels.parquet")
    source = LabelSource(folder / "labels.parquet", "amount", "order")
    privatize(source, LabelRandomizer(1, (0, 400)), folder / "message")
    privatize(source, LabelRandomizer(1, (0, 400), mechanism="discrete-laplace"), folder / "laplace")
    return folder


def test_the_figures_are_those_of_the_library(run):
    code, out, err = run(*BASE, *SHAPE, "--epsilon", "0.5,2", "--json")
    assert (code, err) == (0, "")
    found, advice = json.loads(out), advise((0, 400), 50_000, shape=SHAPE[1], epsilons=[0.5, 2])
    assert [row["epsilon"] for row in found["predictions"]] == [0.5, 2]
    for row, outlook in zip(found["predictions"], advice.outlooks, strict=True):
        assert row["labels"]["mse"] == pytest.approx(outlook.labels.mse)
        assert row["paper"]["r2"] == pytest.approx(outlook.paper.r2)
        assert row["sums"]["rmse"] == pytest.approx(outlook.sums.rmse)
        assert row["risk"]["odds_factor"] == pytest.approx(outlook.risk.odds_factor)
    assert found["not_private"]["mse"] == pytest.approx(advice.not_private.mse)
    assert found["recommended_epsilon"] == advice.recommended.epsilon
    assert found["target"] is None
    assert not found["rough"]


def test_without_a_distribution_it_says_that_this_is_a_rough_guide(run):
    code, out, err = run(*BASE, "--epsilon", "1", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["rough"]
    _, _, err = run(*BASE, "--epsilon", "1")
    assert "rough guide" in err
    assert "--shape" in err


def test_a_target_gives_the_least_epsilon_and_the_least_records(run):
    code, out, _ = run(*BASE, *SHAPE, "--target-r2", "0.4", "--epsilon", "0.5,1")
    target = advise((0, 400), 50_000, shape=SHAPE[1], target_r2=0.4, epsilons=[0.5, 1]).target
    assert code == 0
    text = " ".join(out.split())
    assert f"ε = {target.epsilon_labels:g} is the least with private labels" in text
    assert f"{target.records_labels[0]:,}" in text
    again = json.loads(run(*BASE, *SHAPE, "--target-error", f"{target.rmse}", "--epsilon", "0.5,1", "--json")[1])
    assert again["target"]["epsilon_labels"] == target.epsilon_labels
    assert again["target"]["records_sums"] == list(target.records_sums)


def test_an_impossible_target_is_called_impossible_and_is_no_error(run):
    code, out, _ = run(*BASE, *SHAPE, "--target-r2", "0.9", "--epsilon", "1")
    assert code == 0
    assert "Even without privacy it is out of reach: features are taken to explain 0.5" in " ".join(out.split())
    assert "Least number of records" not in out


def test_a_prior_from_a_file(run, tmp_path):
    Prior([0, 10, 50], [2, 1, 1]).to_csv(tmp_path / "prior.csv")
    code, out, _ = run(*BASE, "--prior", tmp_path / "prior.csv", "--epsilon", "1", "--json")
    assert code == 0
    assert json.loads(out)["mean_only"]["mse"] == pytest.approx(425)


def test_a_message_brings_bounds_records_and_prior(run, message):
    code, out, err = run("advise", "--message", message / "message", "--epsilon", "1", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["records"] == 3_000
    assert not found["rough"]
    assert 3_000 < found["mean_only"]["mse"] < 12_000
    more = json.loads(
        run("advise", "--message", message / "message", "--records", "90000", "--epsilon", "1", "--json")[1]
    )
    assert more["predictions"][0]["labels"]["mse"] < found["predictions"][0]["labels"]["mse"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("advise", "--records", "100"), "give the public bounds"),
        (("advise", "--lower", "0", "--upper", "400"), "--records N"),
        (("advise", "--lower", "0", "--upper", "400", "--integers", "0:9", "--records", "9"), "either --integers"),
        (("advise", "--lower", "0", "--upper", "4", "--records", "0"), "records must be a whole number from 1"),
        ((*BASE, "--explained", "2"), "explained must be a share"),
        ((*BASE, "--epsilon", "0"), "epsilon must be greater than 0"),
        ((*BASE, "--shape", "log-normal"), "is written log-normal:mean=…,sd=…"),
        ((*BASE, *SHAPE, "--prior", "p.csv"), "one distribution of the labels"),
        ((*BASE, "--message", "nowhere"), "a message has its own bounds"),
        (("advise", "--message", "nowhere"), "is not a message"),
        ((*BASE, "--target-r2", "0"), "target R² must be greater than 0"),
        ((*BASE, "--target-error", "1000"), "target error must be at least 0 and less than"),
        ((*BASE, "--target-r2", "0.3", "--target-error", "60"), "one target"),
        ((*BASE, "--rows-per-person", "0"), "rows per person"),
        ((*BASE, "--value", "400"), "value must lie within the bounds"),
        ((*BASE, "--plot", "advice.doc"), ".png or .svg"),
    ],
)
def test_bad_input_is_refused_with_a_reason(run, tmp_path, monkeypatch, arguments, part):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert part in err
    assert list(tmp_path.iterdir()) == []


def test_a_message_without_a_prior_says_what_to_give_instead(run, message):
    code, _, err = run("advise", "--message", message / "laplace")
    assert code == 2
    assert "--shape" in err


def test_tables_and_sentences_fit_a_narrow_screen(run, monkeypatch, tmp_path):
    width = 40
    shown = io.StringIO()
    screen = Console(file=shown, force_terminal=True, width=width, color_system=None)
    monkeypatch.setattr(console, "out", screen)
    monkeypatch.setattr(import_module("labeldp.cli.advise"), "out", screen)
    shown_too = ("--rows-per-person", "3", "--value", "200", "--plot", tmp_path / "advice.svg")
    assert run(*BASE, *SHAPE, "--target-r2", "0.4", "--epsilon", "0.5,2", *shown_too)[0] == 0
    assert (tmp_path / "advice.svg").stat().st_size > 1_000
    text = shown.getvalue()
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    words = " ".join(text.split())
    for name in (
        "labels",
        "sums",
        "RMSE",
        "likely R²",
        "Least number of records",
        "no privacy",
        "What ε risks",
        "the 3 rows of one person",
    ):
        assert name in words


def test_two_classes_have_a_rate(run):
    code, out, _ = run("advise", "--rate", "0.03", "--records", 50_000, "--explained", "0.06", "--json")
    assert code == 0
    figures = json.loads(out)
    assert figures["mean_only"]["mse"] == pytest.approx(0.03 * 0.97, rel=1e-6)
    entropy = -0.03 * np.log(0.03) - 0.97 * np.log(0.97)
    assert figures["mean_only"]["log_loss"] == pytest.approx(entropy, rel=1e-6)
    losses = [one["labels"]["log_loss"] for one in figures["predictions"]]
    assert losses == sorted(losses, reverse=True)
    assert figures["not_private"]["log_loss"] < losses[-1] < losses[0] < entropy
    code, out, _ = run("advise", "--classes", "no,yes", "--rate", "0.03", "--records", 50_000, "--epsilon", 1)
    assert (code, "labels log loss" in out, 'considers "yes" 50 % likely' in " ".join(out.split())) == (0, True, True)
    code, _, err = run("advise", "--classes", "no,yes", "--records", 50_000, "--epsilon", 1)
    assert (code, "equally frequent" in err) == (0, True)
    assert "two classes" in run("advise", "--classes", "a,b,c", "--records", 50_000)[2]
    for wrong in (("--rate", "3"), ("--rate", "0.03", "--integers", "0:1"), ("--rate", "0.03", "--shape", "uniform")):
        assert run("advise", *wrong, "--records", 50_000)[0] == 2
