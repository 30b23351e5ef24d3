"""The pictures of docs/concepts/optimal-bins.md and docs/concepts/beyond-the-paper.md.

Run: python benchmarks/concept_pictures.py [--out docs/plots]      (a few seconds)

It also prints what each picture shows, for the text beside it.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from math import exp
from pathlib import Path

import numpy as np

from labeldp import plots
from labeldp.mechanisms import BiasVariance
from labeldp.paper.data import criteo_prior

LABELS = np.array([0.0, 10, 20, 60, 100])
MASSES = np.array([0.30, 0.25, 0.20, 0.15, 0.10])
"""The five labels of why-bins.md."""
BUDGETS = (0.5, 1, 2, 3, 4, 5, 6)
DIAL = np.geomspace(1e-4, 1, 13)
EPSILON, RECORDS, FREEDOM = 1, 10_000, 30
"""Those of bias-and-variance.md: a model with 30 degrees of freedom on 10,000 records."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/plots"))
    folder = parser.parse_args().out
    for name, axes in {"number-of-bins.svg": number_of_bins(), "dial.svg": dial()}.items():
        words = plots.in_words(axes)
        plots.save(axes, folder / name, alt=words)
        print(f"{name}: {words}")


def number_of_bins():
    """The least expected loss with 1 to 5 bins, against ε."""
    lines = {f"{bins} bin{'s' if bins > 1 else ''}": [least(bins, e) for e in BUDGETS] for bins in range(1, 6)}
    return plots.curves(BUDGETS, lines, title="Five labels: the best mechanism with so many bins")


def least(bins: int, epsilon: float) -> float:
    """The least expected squared loss of randomized response on so many bins, over all ways to cut the labels."""
    found = []
    for cuts in combinations(range(1, len(LABELS)), bins - 1):
        total = 0.0
        for members in np.split(np.arange(len(LABELS)), cuts):
            weights = MASSES.copy()
            weights[members] *= exp(epsilon)
            total += weights @ (LABELS - weights @ LABELS / weights.sum()) ** 2
        found.append(total / (exp(epsilon) + bins - 1))
    return min(found)


def dial():
    """Bias and noise that a model keeps, against τ."""
    prior = criteo_prior()
    biases, noises = [], []
    for tau in DIAL:
        mechanism = BiasVariance.optimal(prior, EPSILON, float(tau))
        table = mechanism.matrix(prior.values)
        means = table @ mechanism.outputs
        biases.append(float(prior.masses @ (means - prior.values) ** 2))
        noises.append(FREEDOM / RECORDS * float(prior.masses @ (table @ mechanism.outputs**2 - means**2)))
    axes = plots.new_axes(height=3.6)
    lines = {"bias² (kept)": biases, "noise (averaged)": noises, "both": np.add(biases, noises)}
    for number, (name, values) in enumerate(lines.items()):
        axes.plot(DIAL, values, color=plots.CURVES[number], marker=plots.marker(number), ms=5, label=name)
    axes.set(xscale="log", yscale="log", ylim=(0.5, 20_000), xlabel="τ, the dial", ylabel="added to the model's error")
    plots.heading(axes, f"{RECORDS:,} purchase values, ε = {EPSILON}")
    plots.plain_log_ticks(axes)
    return plots.tidy(axes, legend=True)


if __name__ == "__main__":
    main()
