"""The demo on few rows: everything that it promises is in the folder and in the report."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from labeldp import Ledger
from labeldp.cli import app
from labeldp.message.reader import Message
from labeldp.paper import demo

EPSILONS = ("0.5", "2", "8")  # five would take longer


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
    for kind in ("bins", "debiased", "auto"):
        assert getattr(last, kind) < getattr(first, kind)
        assert getattr(last, kind) > 0.9 * result.not_private
    assert first.auto < first.bins
    assert first.label_error > last.label_error


def test_errors_of_the_labels_are_those_that_the_message_s_mechanism_makes(result):
    labels = pq.read_table(result.folder / "labels.parquet")["amount"].to_numpy()
    for row, epsilon in zip(result.by_epsilon, EPSILONS, strict=True):
        mechanism = Message.open(result.folder / f"message-rr-on-bins-{epsilon}").mechanism
        losses = (mechanism.outputs - labels[:, None]) ** 2
        chances = mechanism.matrix(labels)
        expected = (chances * losses).sum(axis=1)
        variance = (chances * losses**2).sum(axis=1) - expected**2
        assert abs(row.label_error - expected.mean()) < 6 * np.sqrt(variance.sum()) / labels.size


def test_published_errors_are_those_of_the_same_epsilon(result):
    assert [row.published_label_error for row in result.by_epsilon] == [10_977.09, 7_260.05, 176.47]
    assert [row.published_test_error for row in result.by_epsilon] == [10_901.33, 7_294.93, 4_333.12]


def test_every_message_was_paid_for(result):
    ledger = Ledger(result.folder / "ledger.db")
    spent = sum(float(Message.open(path).epsilon_exact) for path in result.folder.glob("message-*"))
    assert spent == pytest.approx(2 * sum(map(float, EPSILONS)))
    assert float(ledger.remaining(demo.DATASET)) == pytest.approx(0, abs=1e-9)


def test_the_table_has_the_errors_and_their_ratio(result):
    rows = list(demo.table_rows(result))
    assert [row[0] for row in rows] == list(EPSILONS)
    assert all(len(row) == len(demo.COLUMNS) for row in rows)
    row = result.by_epsilon[0]
    assert rows[0][1:5] == (
        f"{row.bins:,.0f}",
        f"{row.debiased:,.0f}",
        f"{row.auto:,.0f}",
        f"{row.auto / row.bins:.2f}",
    )
    assert rows[0][6] == "10,901"


def test_the_report_shows_tables_plots_and_the_privacy_card(result):
    page = demo.report(result).html()
    assert page.count("<svg") == 3
    for row in demo.table_rows(result):
        for cell in row:
            assert f">{cell}</td>" in page
    for label in ("same message, debiased", "RR-on-Bins (the paper), published", "private label", "bin borders"):
        assert f">{label}<" in page
    assert "message-rr-on-bins-2" not in page
    card = (result.folder / "message-rr-on-bins-2" / "PRIVACY.md").read_text(encoding="utf-8")
    assert card.splitlines()[0] in page


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
