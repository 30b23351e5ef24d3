"""`labeldp demo`, which `make demo` runs: its table, its report, its messages and its ledger."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from labeldp import Ledger, Message
from labeldp.cli import app
from labeldp.paper.data import published_criteo

EPSILONS = ["0.5", "1", "2", "4", "8"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder and the output of the smallest demo."""
    folder = tmp_path_factory.mktemp("demo") / "story"
    result = CliRunner().invoke(app, ["demo", "--rows", "10000", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result


@pytest.fixture(scope="module")
def table(demo):
    """The figures of the printed table, a row for each ε."""
    rows = [re.findall(r"[\d,.]+", line) for line in demo[1].stdout.splitlines() if re.match(r" +[\d.]+ +\d", line)]
    return np.array([[float(cell.replace(",", "")) for cell in row] for row in rows])


@pytest.fixture(scope="module")
def report(demo):
    """Title, headings, table cells and figures of the page, and every reference in it."""
    page = Page()
    page.feed((demo[0] / "report.html").read_text(encoding="utf-8"))
    return page


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.headings, self.cells, self.figures, self.references, self.tags = [], [], [], [], set()
        self._open = []

    def handle_starttag(self, tag, attributes):
        self._open.append(tag)
        self.tags.add(tag)
        if tag == "svg":
            self.figures.append([])
        self.references += [value for name, value in attributes if name.split(":")[-1] in ("href", "src", "data")]

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        inside = self._open[-1] if self._open else ""
        if inside in ("h1", "h2"):
            self.headings.append(data)
        elif inside in ("td", "th"):
            self.cells.append(data)
        elif inside == "text" and "svg" in self._open:
            self.figures[-1].append(data)


def test_the_table_has_a_row_for_each_budget_with_the_published_figure_beside(table):
    assert table[:, 0].tolist() == [float(epsilon) for epsilon in EPSILONS]
    published = {row.epsilon: row.test_rr_on_bins for row in published_criteo()}
    assert table[:, 6].tolist() == [round(published[epsilon]) for epsilon in table[:, 0]]
    np.testing.assert_allclose(table[:, 4], table[:, 3] / table[:, 1], atol=0.006)
    assert len(set(table[:, 5])) == 1


def test_the_table_tells_the_story(table):
    bins, debiased, auto, not_private = (table[:, column] for column in (1, 2, 3, 5))
    assert (np.diff(bins) < 0).all()
    assert (debiased[:3] < bins[:3]).all()
    assert (auto[:3] < bins[:3]).all()
    assert bins[-1] < 1.2 * not_private[-1]


def test_every_message_can_be_opened_and_the_ledger_has_paid_for_it(demo):
    folder, _ = demo
    ids = sorted(pq.read_table(folder / "labels.parquet")["order"].to_pylist())
    for kind in ("rr-on-bins", "auto"):
        for epsilon in EPSILONS:
            message = Message.open(folder / f"message-{kind}-{epsilon}")
            assert message.epsilon_exact == pytest.approx(float(epsilon))
            assert sorted(i for batch, _ in message.batches() for i in batch.to_pylist()) == ids
    (dataset,) = Ledger(folder / "ledger.db").datasets()
    assert (dataset.releases, dataset.uncommitted, dataset.remaining) == (10, 0, 0)


def test_the_report_shows_the_printed_figures_under_its_headings(report, table):
    assert report.headings == ["Training on private labels", "What it costs", "What was sent", "What is promised"]
    for row in table:
        assert f"{row[1]:,.0f}" in report.cells
        assert f"{row[3]:,.0f}" in report.cells


def test_the_report_has_three_figures_with_their_labels_as_text(report):
    curves, mechanism, joint = map(set, report.figures)
    assert {"RR-on-Bins (the paper)", "RR-on-Bins (the paper), published"} <= curves
    assert {"same message, debiased", "auto", "not private", "test MSE", "ε"} <= curves
    assert {"prior", "outputs", "bin borders", "label", "density"} <= mechanism
    assert {"true label", "private label", "RR-on-Bins, ε = 3 in all", "Laplace, ε = 3 in all"} <= joint


def test_the_report_fetches_nothing(report, demo):
    assert [reference for reference in report.references if not reference.startswith("#")] == []
    assert report.tags.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert not re.search(r"@import|url\((?!#)", (demo[0] / "report.html").read_text(encoding="utf-8"))


def test_the_output_says_where_everything_is(demo):
    folder, result = demo
    for name in ("report.html", "message-auto-1", "ledger.db"):
        assert str(folder / name) in result.stdout
        assert (folder / name).exists()
    assert "ε = 8" in result.output


def test_only_the_folder_of_an_earlier_demo_is_replaced(run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for more in ((), ("--force",)):
        code, _, err = run("demo", "--out", tmp_path, *more)
        assert code == 2
        assert "give another --out" in err
    assert (tmp_path / "mine.txt").read_text() == "mine"
