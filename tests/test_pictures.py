"""The pictures in docs/plots are those that their scripts draw today, from the tables on the pages."""

from __future__ import annotations

import re
import sys
from html import unescape
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = {
    "concept_pictures": ["number-of-bins.svg", "dial.svg"],
    "readme_picture": ["what-the-error-is-made-of.svg"],
    "reproduction_plots": ["reproduction-criteo.svg", "reproduction-ours.svg"],
    "training_plots": ["bias-and-variance.svg", "training-error.svg"],
}


def words(path):
    return unescape(re.search(r'aria-label="([^"]*)"', path.read_text(encoding="utf-8"))[1])


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_picture_shows_what_its_script_draws(script, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    out = tmp_path / SCRIPTS[script][0] if script == "readme_picture" else tmp_path
    monkeypatch.setattr(sys, "argv", [script, "--out", str(out)])
    spec = spec_from_file_location(script, ROOT / "benchmarks" / f"{script}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
    number = re.compile(r"\d[\d,]*(?:\.\d+)?")
    for name in SCRIPTS[script]:
        kept, drawn = words(ROOT / "docs" / "plots" / name), words(tmp_path / name)
        assert number.sub("#", kept) == number.sub("#", drawn)
        figures = [[float(figure.replace(",", "")) for figure in number.findall(text)] for text in (kept, drawn)]
        assert figures[0] == pytest.approx(figures[1], rel=0.01, abs=0.5)


def test_every_picture_of_the_docs_has_its_script():
    drawn = {name for names in SCRIPTS.values() for name in names}
    assert drawn == {path.name for path in (ROOT / "docs" / "plots").iterdir()}


def test_the_curves_start_at_the_figures_of_the_page_s_table():
    page = (ROOT / "docs" / "concepts" / "beyond-the-paper.md").read_text(encoding="utf-8")
    shown = words(ROOT / "docs" / "plots" / "training-error.svg")
    for records in ("10,000", "50,000", "400,000"):
        cells = re.search(rf"^\| {records} \| 0.5 \|(.*)$", page, re.MULTILINE)[1].replace("*", "").split("|")
        auto = cells[7].strip()
        assert f"auto from {auto} at 0.5" in shown.split(f"{records} records")[1]
