"""The two pictures of docs/beyond-the-paper.md: error against ε, and what the error is made of.

Run: python benchmarks/training_plots.py RESULTS.json [MORE.json …] --out docs/plots      (files of training.py --out)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np

from labeldp import Domain, alternatives
from labeldp.mechanisms.bias_variance import weight_of_variance
from labeldp.paper.data import criteo_prior

COLOURS = {
    "rr-on-bins": "#b3432b",
    "debiased": "#d98f2b",
    "unbiased": "#3b6ea5",
    "auto": "#1d7a4c",
    "not private": "#777777",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("docs/plots"))
    arguments = parser.parse_args()
    draw([row for path in arguments.results for row in json.loads(path.read_text(encoding="utf-8"))], arguments.out)


def draw(results: list[dict], folder: Path) -> None:
    """Write `training-error.svg` and `bias-and-variance.svg` into `folder`."""
    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "labeldp", "font.size": 9, "axes.spines.top": False})
    mpl.rcParams["axes.spines.right"] = False
    folder.mkdir(parents=True, exist_ok=True)
    errors([row for row in results if row["data"] == "criteo"], folder / "training-error.svg")
    parts(folder / "bias-and-variance.svg")


def errors(results: list[dict], path: Path) -> None:
    """Test error against ε, a panel for each number of records."""
    from matplotlib import pyplot as plt

    sizes = sorted({row["records"] for row in results})
    figure, axes = plt.subplots(1, len(sizes), figsize=(3.2 * len(sizes), 3), sharey=True, squeeze=False)
    for axis, size in zip(axes[0], sizes, strict=True):
        rows = sorted((row for row in results if row["records"] == size), key=lambda row: row["epsilon"])
        for name, colour in COLOURS.items():
            means = [np.mean(row["errors"][name]) for row in rows]
            style = "--" if name == "not private" else "-"
            axis.plot([row["epsilon"] for row in rows], means, style, color=colour, marker="o", ms=3, label=name)
        axis.set_xscale("log", base=2)
        axis.set_xticks([row["epsilon"] for row in rows], [f"{row['epsilon']:g}" for row in rows])
        axis.minorticks_off()
        axis.set_title(f"{size:,} records")
        axis.set_xlabel("ε")
    axes[0][0].set_ylabel("test mean squared error")
    axes[0][0].set_ylim(bottom=0)
    save(figure, path, legend=axes[0][0].get_legend_handles_labels())


def parts(path: Path, epsilon: float = 0.5) -> None:
    """The predicted test error of each mechanism, taken apart, for few and for many records."""
    from matplotlib import pyplot as plt

    prior = criteo_prior()
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 2.6), sharex=True, sharey=True)
    for axis, records in zip(axes, (10_000, 400_000), strict=True):
        choices = alternatives(prior, epsilon, records, domain=Domain.integers(0, 400))
        place = np.arange(len(choices))[::-1]
        bias = np.array([choice.excess.squared_bias for choice in choices])
        floor = np.array(
            [choice.predicted_error - choice.excess.test_error(weight_of_variance(records)) for choice in choices]
        )
        noise = np.array([choice.predicted_error for choice in choices]) - floor - bias
        axis.barh(place, floor, color="#cccccc", label="what nobody could predict")
        axis.barh(place, bias, left=floor, color="#b3432b", label="bias that features see")
        axis.barh(place, noise, left=floor + bias, color="#3b6ea5", label="noise that the model fits")
        axis.set_yticks(place, [choice.name for choice in choices])
        axis.set_title(f"{records:,} records, ε = {epsilon:g}")
        axis.set_xlabel("predicted test error")
    save(figure, path, legend=axes[0].get_legend_handles_labels())


def save(figure: mpl.figure.Figure, path: Path, legend: tuple[list, list]) -> None:
    """One legend below all panels, and no date in the file, so that the same figures give the same bytes."""
    figure.legend(*legend, frameon=False, loc="lower center", ncol=len(legend[0]))
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(path, format=path.suffix[1:], metadata={"Date": None} if path.suffix == ".svg" else None)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
