"""The two pictures of docs/research/reproduction.md, drawn again from the figures in its tables, without training a network.

Run: python benchmarks/reproduction_plots.py [--page docs/research/reproduction.md] [--out docs/plots]      (a few seconds)

`labeldp reproduce criteo` draws the same pictures, as figure-mechanisms and figure-ours, after hours of training. The errors of
the labels themselves are computed here; those of the models are read from the page.
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path

from labeldp import plots
from labeldp.paper.experiments import figures as report
from labeldp.paper.experiments import get_task
from labeldp.paper.experiments.reproduction import Measured
from labeldp.paper.experiments.tasks import NOT_PRIVATE, get_method

TASK = get_task("criteo")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, default=Path("docs/research/reproduction.md"))
    parser.add_argument("--out", type=Path, default=Path("docs/plots"))
    arguments = parser.parse_args()
    text = arguments.page.read_text(encoding="utf-8")
    of_paper, ours = table(text, "All methods:"), table(text, "### Past the paper")
    budgets = sorted({epsilon for _, epsilon in of_paper} - {math.inf})
    prior, records = TASK.calibrated.prior, TASK.calibrated.records
    names = [name for name in TASK.methods if (name, budgets[0]) in of_paper]
    exact = {
        (name, epsilon): Measured(get_method(name).expected_loss(prior, TASK.domain, epsilon, records))
        for name in names
        for epsilon in budgets
    }
    clipped = [name for name in names if get_method(name).clip]
    save(report.panels(exact, of_paper, clipped, TASK), arguments.out / "reproduction-criteo.svg")
    of_ours = ("rr-on-bins", "debiased", "unbiased", "auto")
    save(report.panels({}, ours, of_ours, TASK), arguments.out / "reproduction-ours.svg")


def table(text: str, after: str) -> report.Figures:
    """The figures of the first table after these words: mean and standard deviation by method and ε."""
    titles = {get_method(name).title: name for name in TASK.methods} | {"debiased": "debiased", "auto": "auto"}
    head, body = re.search(r"^(\| ε .*)\n\|[-|]+\n((?:\|.*\n)+)", text[text.index(after) :], re.MULTILINE).groups()
    columns = [titles.get(cell.strip(), cell.strip()) for cell in head.strip("|").split("|")][1:]
    found = {}
    for line in body.splitlines():
        budget, *cells = (cell.strip().replace(",", "") for cell in line.strip().strip("|").split("|"))
        for name, cell in zip(columns, cells, strict=True):
            if mean_and_sd := re.match(r"([\d.]+) ± ([\d.]+)", cell):
                key = (NOT_PRIVATE, math.inf) if budget == "∞" else (name, float(budget))
                found[key] = Measured(*map(float, mean_and_sd.groups()))
    return found


def save(figure, path: Path) -> None:
    """Write the picture, and print what it shows."""
    words = plots.in_words(figure)
    plots.save(figure, path, alt=words)
    print(f"{path}: {path.stat().st_size:,} bytes. {words}")


if __name__ == "__main__":
    main()
