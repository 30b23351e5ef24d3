"""`labeldp demo`, which `make demo` runs: its table, its report, its messages and its ledger."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from labeldp import Ledger, Message
from labeldp.cli import app
from labeldp.paper.data import published_criteo

pytestmark = pytest.mark.slow

EPSILONS = ["0.5", "1", "2", "4"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder and the output of the smallest demo."""
    folder = tmp_path_factory.mktemp("demo") / "story"
    result = CliRunner().invoke(app, ["demo", "--rows", "10000", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result


@pytest.fixture(scope="module")
def table(demo):
    """The errors of the printed table, by what a model was trained on."""
    rows = re.findall(r"^ (\w.*?)  +([\d,]+)(?: +([+-]\d+)%)? *$", demo[1].stdout, re.MULTILINE)
    return {name: (float(error.replace(",", "")), float(above or 0)) for name, error, above in rows}


@pytest.fixture(scope="module")
def report(demo):
    """Title, headings, table cells and figures of the page, and every reference in it."""
    page = Page()
    page.feed((demo[0] / "report.html").read_text(encoding="utf-8"))
    return page


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.headings, self.cells, self.references, self.tags = [], [], [], set()
        self.figures = 0
        self._open = []

    def handle_starttag(self, tag, attributes):
        self._open.append(tag)
        self.tags.add(tag)
        if tag == "svg":
            self.figures += 1
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


def test_the_table_tells_the_story_at_one_epsilon(demo, table):
    assert "test error of the model, ε = 1" in demo[1].stdout
    mean, bins, debiased, auto, not_private = (error for error, _ in table.values())
    assert list(table)[-2:] == ["auto", "without privacy"]
    assert not_private < auto < bins < 1.1 * mean
    assert debiased < bins
    for error, above in table.values():
        assert above == pytest.approx(100 * (error / not_private - 1), abs=0.6)


def test_every_message_can_be_opened_and_the_ledger_has_paid_for_it(demo):
    folder, _ = demo
    ids = sorted(pq.read_table(folder / "labels.parquet")["order"].to_pylist())
    for kind in ("rr-on-bins", "auto"):
        for epsilon in EPSILONS:
            message = Message.open(folder / f"message-{kind}-{epsilon}")
            assert message.epsilon_exact == pytest.approx(float(epsilon))
            assert sorted(i for batch, _ in message.batches() for i in batch.to_pylist()) == ids
    (dataset,) = Ledger(folder / "ledger.db").datasets()
    assert (dataset.releases, dataset.uncommitted, dataset.remaining) == (8, 0, 0)


def test_the_report_shows_the_printed_figures_under_its_headings(report, table):
    assert report.headings[0] == "Training on private labels"
    assert report.figures == 4
    for error, _ in table.values():
        assert f"{error:,.0f}" in report.cells
    published = {row.epsilon: row.test_rr_on_bins for row in published_criteo()}
    for epsilon in EPSILONS:
        assert f"{published[float(epsilon)]:,.0f}" in report.cells


def test_the_report_fetches_nothing(report, demo):
    assert [reference for reference in report.references if not reference.startswith("#")] == []
    assert report.tags.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert not re.search(r"@import|url\((?!#)", (demo[0] / "report.html").read_text(encoding="utf-8"))


def test_only_the_folder_of_an_earlier_demo_is_replaced(run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for more in ((), ("--force",)):
        code, _, err = run("demo", "--out", tmp_path, *more)
        assert code == 2
        assert "give another --out" in err
    assert (tmp_path / "mine.txt").read_text() == "mine"
