"""The picture of README.md: what the error of a model is made of, for four ways to train on private labels.

Run: python benchmarks/readme_picture.py [--out docs/plots/what-the-error-is-made-of.svg]      (a few seconds)

It also prints what the picture shows, for the text beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from labeldp import Domain, plots
from labeldp.mechanisms import alternatives
from labeldp.paper.data import criteo_prior
from labeldp.paper.experiments import figures as report

EPSILON, RECORDS = 1, 10_000
NAMES = {
    "rr-on-bins": "the paper's bins",
    "rr-on-bins, debiased": "same, debiased",
    "unbiased": "unbiased",
    "auto": "auto",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/plots/what-the-error-is-made-of.svg"))
    path = parser.parse_args().out
    drawn = report.error_parts(
        alternatives(criteo_prior(), EPSILON, RECORDS, domain=Domain.integers(0, 400)),
        names=NAMES,
        title=f"{RECORDS:,} purchase values, ε = {EPSILON}",
    )
    words = plots.in_words(drawn)
    plots.save(drawn, path, alt=words)
    print(f"{path}: {path.stat().st_size:,} bytes\n{words}")


if __name__ == "__main__":
    main()
