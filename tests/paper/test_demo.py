"""The demo on few rows: everything that it promises is in the folder and in the report."""

from __future__ import annotations

import re
from html import escape, unescape

import pytest
from typer.testing import CliRunner

from labeldp import Ledger
from labeldp.artifact.reader import Message
from labeldp.cli import app
from labeldp.paper import demo

pytestmark = pytest.mark.slow

EPSILONS = ("0.5", "1", "4")  # four would take longer


@pytest.fixture(scope="module")
def steps():
    return []


@pytest.fixture(scope="module")
def result(tmp_path_factory, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "EPSILONS", EPSILONS)
        return demo.run_demo(tmp_path_factory.mktemp("demo"), rows=10_000, on_step=steps.append)


def test_every_step_is_announced(result, steps):
    assert steps[0] == "generating 10,000 Criteo-like sales"
    assert sum(step.startswith("ε = ") for step in steps) == len(EPSILONS) == len(result.by_epsilon)


def test_models_get_better_with_epsilon_and_none_beats_the_one_without_privacy_by_much(result):
    first, *_, last = result.by_epsilon
    for kind in ("bins", "auto"):
        assert getattr(last, kind) < getattr(first, kind)
        assert getattr(last, kind) > 0.9 * result.not_private
    assert first.auto < first.bins


def test_the_story_has_one_epsilon_and_auto_wins_it(result):
    (row,) = (row for row in result.by_epsilon if row.epsilon == float(demo.EPSILON))
    assert (result.errors[demo.PAPER], result.errors[demo.AUTO]) == (row.bins, row.auto)
    assert list(result.errors) == [demo.PAPER, demo.DEBIASED, demo.AUTO, demo.NOT_PRIVATE]
    assert result.not_private < result.errors[demo.AUTO] < result.errors[demo.PAPER] < 1.1 * result.mean_only


def test_published_errors_are_those_of_the_same_epsilon(result):
    assert [row.published for row in result.by_epsilon] == [10_901.33, 9_744.08, 4_769.61]


def test_every_message_was_paid_for(result):
    ledger = Ledger(result.folder / "ledger.db")
    spent = sum(float(Message.open(path).epsilon_exact) for path in result.folder.glob("message-*"))
    assert spent == pytest.approx(2 * sum(map(float, EPSILONS)))
    assert float(ledger.remaining(demo.DATASET)) == pytest.approx(0, abs=1e-9)


def test_the_table_has_the_errors_and_what_privacy_costs(result):
    rows = demo.table_rows(result)
    assert all(len(row) == len(demo.COLUMNS) for row in rows)
    assert [row[0] for row in rows] == [demo.MEAN_ONLY, *result.errors]
    for name, error, above in rows[1:]:
        assert error == f"{result.errors[name]:,.0f}"
        assert above == ("" if name == demo.NOT_PRIVATE else f"{result.errors[name] / result.not_private - 1:+.0%}")


def test_the_report_shows_tables_plots_and_the_privacy_card_of_auto(result):
    page = demo.report(result).html()
    assert page.count("<svg") == page.count(' role="img" aria-label="') == 4
    for row in demo.table_rows(result):
        for cell in row:
            assert f">{escape(cell)}</td>" in page
    for name in (demo.PAPER, demo.DEBIASED, demo.AUTO):  # the picture has the numbers of the table
        assert page.split("<h2>Other values of")[0].count(f">{result.errors[name]:,.0f}<") == 2
    for label in (
        "same, debiased",
        "paper&#x27;s bins, published",
        "mean of its private values",
        "prior of the labels",
    ):
        assert f">{label}<" in page or f">{unescape(label)}<" in page
    card = (result.folder / f"message-auto-{demo.EPSILON}" / "PRIVACY.md").read_text(encoding="utf-8")
    assert f"<h3>{card.splitlines()[0].removeprefix('# ')}</h3>" in page
    assert "<strong>ε-label differentially" in page
    assert "## What" not in page
    assert "**" not in page


def test_one_epsilon_is_told_and_one_picture_compares_several(result):
    page = demo.report(result).html()
    before, after = page.split("<h2>Other values of ε</h2>")
    told = before + after.split("<h2>", 1)[1]
    assert set(re.findall(r"(?<!\^)ε = ([\d.]+\d|\d)", told)) == {demo.EPSILON}


def test_the_command_writes_the_report_and_prints_the_table(tmp_path, monkeypatch, result):
    def quick(folder, *, rows, on_step):
        (folder / "ledger.db").touch()
        on_step(f"{rows} rows")
        return result

    monkeypatch.setattr(demo, "run_demo", quick)
    folder = tmp_path / "story"
    first = CliRunner().invoke(app, ["demo", "--out", str(folder), "--rows", "10000"])
    assert first.exit_code == 0, first.output
    assert "Training on private labels" in (folder / "report.html").read_text(encoding="utf-8")
    for row in demo.table_rows(result):
        assert all(cell in first.stdout for cell in row)
    again = CliRunner().invoke(app, ["demo", "--out", str(folder), "--rows", "10000", "--force"])
    assert again.exit_code == 0
    refused = CliRunner().invoke(app, ["demo", "--out", str(folder), "--rows", "10000"])
    assert refused.exit_code != 0
