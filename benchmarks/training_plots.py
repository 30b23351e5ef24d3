"""The two pictures of docs/concepts/beyond-the-paper.md: error against ε, and what the error is made of.

Run: python benchmarks/training_plots.py [RESULTS …] --out docs/plots

RESULTS are files of `training.py --out`, or pages with the tables that it printed: docs/research/measurements.md by default.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import numpy as np

from labeldp import Domain, plots
from labeldp.mechanisms import alternatives
from labeldp.paper.data import criteo_prior
from labeldp.paper.experiments import figures as report
from labeldp.paper.experiments.tasks import get_method

LINES = {
    "rr-on-bins": "RR-on-Bins (the paper)",
    "debiased": "same message, debiased",
    "unbiased": "unbiased",
    "auto": "auto",
    "not private": "not private",
}
COLUMNS = {"RR-on-Bins": "rr-on-bins"}
"""The tables' names for lines that they call otherwise."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*", default=[Path("docs/research/measurements.md")])
    parser.add_argument("--out", type=Path, default=Path("docs/plots"))
    arguments = parser.parse_args()
    draw([row for path in arguments.results for row in read(path)], arguments.out)


def read(path: Path) -> list[dict]:
    """The results in a file of `training.py`, or in the first table of a page that has a column for n."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".md":
        return json.loads(text)
    head, body = re.search(r"^(\| n \| ε .*)\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE).groups()
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    rows = []
    for line in body.splitlines():
        cells = dict(
            zip(columns, (cell.strip(" *").replace(",", "") for cell in line.strip("|").split("|")), strict=True)
        )
        errors = {COLUMNS.get(name, name): cells[name] for name in columns if COLUMNS.get(name, name) in LINES}
        rows.append(
            {
                "data": "criteo",
                "records": int(cells["n"]),
                "epsilon": float(cells["ε"]),
                "errors": {name: [float(error)] for name, error in errors.items()},
            }
        )
    return rows


def draw(results: list[dict], folder: Path) -> None:
    """Write `training-error.svg` and `bias-and-variance.svg` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    errors([row for row in results if row["data"] == "criteo"], folder / "training-error.svg")
    parts(folder / "bias-and-variance.svg")


def errors(results: list[dict], path: Path) -> None:
    """Test error against ε, a panel for each number of records."""
    sizes = sorted({row["records"] for row in results})
    figure = plots.new_figure(height=2.4 * len(sizes) + 0.8)
    colours = {
        title: plots.QUIET if name == "not private" else get_method(name).colour for name, title in LINES.items()
    }
    for axes, size in zip(figure.subplots(len(sizes), sharey=True, squeeze=False)[:, 0], sizes, strict=True):
        rows = sorted((row for row in results if row["records"] == size), key=lambda row: row["epsilon"])
        plots.curves(
            [row["epsilon"] for row in rows],
            {title: [np.mean(row["errors"][name]) for row in rows] for name, title in LINES.items()},
            colours=colours,
            dashed=["not private"],
            ylabel="test error",
            title=f"{size:,} records",
            ax=axes,
        )
        axes.get_legend().remove()
        if size != sizes[-1]:
            axes.set_xlabel("")
    plots.legend_below(axes)
    save(figure, path)


def parts(path: Path, epsilon: float = 0.5) -> None:
    """The predicted test error of each mechanism, taken apart, for few and for many records."""
    figure = plots.new_figure(height=5.2)
    upper, lower = figure.subplots(2, sharex=True)
    names = {name: name for name in ("rr-on-bins", "rr-on-bins, debiased", "unbiased", "bias-variance", "auto")}
    for axes, records in ((upper, 10_000), (lower, 400_000)):
        choices = alternatives(criteo_prior(), epsilon, records, domain=Domain.integers(0, 400))
        title = f"{records:,} records, ε = {epsilon:g}"
        report.error_parts(choices, names=names, title=title, legend=axes is lower, ax=axes)
    upper.set_xlabel("")
    save(figure, path)


def save(figure, path: Path) -> None:
    """Write the picture, and print what it shows."""
    words = plots.in_words(figure)
    plots.save(figure, path, alt=words)
    print(f"{path}: {path.stat().st_size:,} bytes. {words}")


if __name__ == "__main__":
    main()
