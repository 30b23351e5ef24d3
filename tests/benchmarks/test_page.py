"""The page of benchmarks shows what its results say, and stops where a peer is ahead and no sentence says so."""

from __future__ import annotations

import sys

import pytest

import page
import run
from bench.results import Column, Contest, Result, Table, Target
from bench.standing import MissingSentenceError, read_sentences

PAGE = (
    "# Speed\n\n<!-- begin speed -->\nold\n<!-- end speed -->\n\nBy hand.\n\n<!-- begin other -->\n<!-- end other -->\n"
)


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    made = Result("speed", "Speed", "python benchmarks/speed.py", seconds=12.0)
    made.tables = [
        Table("rows", "Rows.", [Column("name", "name"), Column("rate", "rate", ",.0f")], [{"name": "a", "rate": 1e6}])
    ]
    made.targets = [Target("time", 2, 3.0, "×", why="The disk is slow.")]
    made.peers = {"nobody": "no figures: nobody could not be installed", "them": "them 1.2"}
    made.contests = [Contest("sums", "low", {"ours": 2.0}, {"them": 3.0})]
    made.write(folder / "speed.json")
    return folder


def run_page(monkeypatch, results, path, *more):
    monkeypatch.setattr(sys, "argv", ["page.py", "--results", str(results), "--page", str(path), *more])
    return page.main()


def test_blocks_are_written_and_the_rest_stays(results):
    text = page.rendered(PAGE, results)
    assert "old" not in text
    assert text.startswith("# Speed\n\n<!-- begin speed -->\n`python benchmarks/speed.py`, 20")
    assert "In environments of their own: them 1.2." in text
    assert "| a | 1,000,000 |" in text
    assert "- Target, time: at most 2×, measured 3×: missed by a factor of 1.50. The disk is slow." in text
    assert "- nobody: no figures: nobody could not be installed" in text
    assert "No peer is ahead of us in any row of this part." in text
    assert "<!-- end speed -->\n\nBy hand.\n" in text
    assert "<!-- begin other -->\nNot measured yet.\n<!-- end other -->" in text
    assert page.rendered(text, results) == text


def test_the_overview_counts_rows_leads_and_targets(tmp_path):
    made = Result("files", "Files", "python benchmarks/files.py")
    made.contests = [
        Contest("a", "low", {"ours": 2.0}, {"them": 3.0, "others": 8.0}),
        Contest("b", "low", {"ours": 2.0}, {"them": 1.0}),
        Contest("c", "high", {"ours": 5.0}, {"them": 1.0}),
        Contest("level", "high", {"ours": 5.0}, {"them": 5.01}),
        Contest("no peer ran", "high", {"ours": 5.0}, {}),
    ]
    made.targets = [Target("time", 2, 3.0, why="The disk is slow."), Target("memory", 1, 0.4)]
    made.write(tmp_path / "files.json")
    text = page.rendered("<!-- begin overview -->\n<!-- end overview -->\n", tmp_path)
    assert "| 4 | 2 | 1 | 1 | them | 1 of 2 |" in text


def test_every_part_has_a_heading_on_the_page():
    headings = {
        line[3:].lower().replace(" ", "-")
        for line in page.PAGE.read_text("utf-8").splitlines()
        if line.startswith("## ")
    }
    assert tuple(page.PARTS) == run.PARTS
    assert {anchor for anchor, _ in page.PARTS.values()} <= headings


def test_a_page_that_is_not_up_to_date_is_noticed(results, tmp_path, monkeypatch, capsys):
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    assert run_page(monkeypatch, results, path, "--check") == 1
    assert "is not what its results say" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == PAGE
    assert run_page(monkeypatch, results, path) == 0
    assert run_page(monkeypatch, results, path, "--check") == 0


def test_a_peer_that_is_ahead_without_a_sentence_stops_the_page(results, tmp_path, monkeypatch, capsys):
    made = Result.read(results / "speed.json")
    made.contests = [Contest("sums", "low", {"ours": 2.0}, {"them": 1.0})]
    made.write(results / "speed.json")
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    assert run_page(monkeypatch, results, path) == 1
    assert "speed: them by 2.00 in sums" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == PAGE


def test_a_missed_target_without_a_reason_stops_the_page(results):
    made = Result.read(results / "speed.json")
    made.targets = [Target("time", 2, 3.0)]
    made.write(results / "speed.json")
    with pytest.raises(MissingSentenceError, match="targets of speed are missed and no reason is given: time"):
        page.rendered(PAGE, results)


def test_the_page_of_the_docs_is_what_its_results_say():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.rendered(text, page.RESULTS) == text
    assert [found[2] for found in page.BLOCK.finditer(text)] == ["overview", *run.PARTS]
    assert {sentence.part for sentence in read_sentences()} <= set(run.PARTS)


def test_a_part_that_does_not_exist_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "optimizer"])
    with pytest.raises(SystemExit, match="2"):
        run.main()
    assert "no part called optimizer: there are optimiser," in capsys.readouterr().err


def test_a_part_that_fails_or_takes_too_long_is_named(tmp_path, monkeypatch, capsys):
    for name, text in {"good": "", "bad": "raise SystemExit(3)", "slow": "import time; time.sleep(600)"}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(run, "HERE", tmp_path)
    assert run.run(["bad", "good"], tmp_path, quick=True, minutes=10) == ["bad"]
    assert "failed with exit code 3" in capsys.readouterr().out
    assert run.run(["slow"], tmp_path, quick=True, minutes=0.01) == ["slow"]
    assert "the budget of time is spent" in capsys.readouterr().out
