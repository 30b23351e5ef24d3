"""Any mechanism of the catalogue can join an experiment, if its values are valid for the experiment's loss."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from labeldp.cli import app
from labeldp.errors import InvalidInput
from labeldp.mechanisms import MECHANISMS, DiscreteLaplace
from labeldp.mechanisms.registry import Entry
from labeldp.paper.experiments import Reproduction, Scale, get_task
from labeldp.paper.experiments import figures as report
from labeldp.paper.experiments.tasks import get_method


@pytest.fixture
def newcomer():
    """A mechanism that only the catalogue knows: discrete Laplace noise."""
    entry = Entry(
        "newcomer", "Newcomer", "for a test", make=lambda r: DiscreteLaplace(r.domain, r.epsilon), colour="#abc"
    )
    MECHANISMS.add(entry)
    yield entry
    MECHANISMS.discard("newcomer")


@pytest.fixture
def below_zero():
    """A mechanism whose outputs reach below the label range."""
    MECHANISMS.add(
        Entry("below-zero", "Below zero", "for a test", make=lambda r: DiscreteLaplace(r.domain, r.epsilon, window=5))
    )
    yield
    MECHANISMS.discard("below-zero")


def test_a_new_mechanism_of_the_catalogue_has_exact_figures_and_can_be_trained_on(newcomer, tmp_path):
    task = get_task("criteo").with_methods(["laplace", newcomer.name])
    assert task.methods == (*get_task("criteo").methods, "newcomer")
    work = Reproduction.load(task, data=None, rows=2000, trained=True)
    work.compute_exact([2.0])
    expected = DiscreteLaplace(task.domain, 2).expected_loss(work.labels.prior)
    assert work.exact["newcomer", 2.0].mean == pytest.approx(expected)
    scale = Scale(rows=2000, epochs=1, runs=1, epsilons=(2.0,))
    work.train(tmp_path, scale, ["newcomer"], model="boosting", workers=1, on_message=lambda text: None)
    assert work.tested["newcomer", 2.0].runs == 1
    assert work.sampled["newcomer", 2.0].mean == pytest.approx(expected, rel=0.2)


def test_a_new_mechanism_is_an_option_of_the_command_line(newcomer, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "write_reproduction", lambda work, folder, command: [folder / "report.html"])
    arguments = [
        "criteo",
        "--mechanism-only",
        "--mechanisms",
        "newcomer",
        "--epsilon",
        "2",
        "--json",
        "--out",
        tmp_path,
    ]
    result = CliRunner().invoke(app, ["reproduce", *map(str, arguments)])
    assert result.exit_code == 0
    assert "newcomer" in {figure["method"] for figure in json.loads(result.stdout)["figures"]}


@pytest.mark.usefixtures("below_zero")
def test_values_that_the_loss_does_not_take_are_refused():
    with pytest.raises(
        InvalidInput, match=r"below-zero cannot be used for app-ads: .* down to -.*poisson loss .*\[0, inf"
    ):
        get_task("app-ads").with_methods(["below-zero"])
    assert "below-zero" in get_task("census").with_methods(["below-zero"]).methods


@pytest.mark.parametrize("name", ["debiased", "unbiased", "laplace-unclipped"])
def test_values_below_zero_are_not_for_counts(name):
    with pytest.raises(InvalidInput, match=f"{name} cannot be used for app-ads"):
        get_task("app-ads").with_methods([name])


def test_an_unknown_mechanism_is_refused_with_those_of_the_experiment_and_all_others():
    with pytest.raises(
        InvalidInput, match=r"'laplase'; criteo compares rr-on-bins, laplace, .* any of .*rr-with-prior"
    ):
        get_task("criteo").with_methods(["laplase"])


@pytest.mark.parametrize("name", MECHANISMS.names)
def test_every_mechanism_of_the_catalogue_can_join_a_task_with_squared_loss(name):
    task = get_task("census").with_methods([name])
    assert task.calibrated is not None
    loss = get_method(name).expected_loss(task.calibrated.prior, task.domain, 2.0, task.calibrated.records)
    assert 0 < loss < np.inf


def test_models_are_sized_for_methods_beyond_the_paper_only():
    ours = {name for name in (*get_task("criteo").methods, "positive") if get_method(name).ours}
    assert ours == {"debiased", "positive", "unbiased", "auto"}
