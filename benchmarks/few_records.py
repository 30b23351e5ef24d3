"""What private labels of few records are worth, over n·ε² from 30 to 3,000.

Run: python benchmarks/few_records.py [--shapes prices,bell] [--mechanisms auto,rr-on-bins] [--seeds 0 1 2] [--epsilons 0.5]

For each n·ε² and each shape of labels, the table shows two ratios, averaged over seeds:

- error: the test MSE of a model trained on the private labels, over the MSE of answering the true mean;
- mean: the average private value, over the average true label (the average over seeds, then the root mean square distance from 1).

Features explain about half of the label's variance. Seeds decide the data; the noise that protects labels has no seed, so figures
differ a little from run to run.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy.stats import norm

from labeldp import LabelDPRegressor, LabelRandomizer
from labeldp.mechanisms.decoding import code_values

WORTHS = (30, 60, 120, 200, 290, 310, 450, 700, 1000, 1700, 3000)
"""Values of n·ε². The default grid used to grow from two to three cells between 290 and 310."""
TEST = 3000
SHAPES = {
    "prices": ((0, 2_000_000), lambda u: 4.7e5 * np.exp(0.5 * norm.ppf(u))),
    "bell": ((0, 100), lambda u: 50 + 15 * norm.ppf(u)),
    "waiting": ((0, 400), lambda u: -40 * np.log1p(-u)),
    "narrow": ((0, 8_000_000), lambda u: 4.7e5 * np.exp(0.5 * norm.ppf(u))),
    "weeks": ((0, 52), lambda u: np.round(52 * np.clip(1.8 * u - 0.6, 0, 1))),
    "sales": ((0, 300), lambda u: np.where(u < 0.8, 0.0, 40 * np.exp(norm.ppf(np.clip((u - 0.8) / 0.2, 1e-9, 1))))),
    "scores": ((0, 100), lambda u: 100 - 12 * np.exp(0.6 * norm.ppf(1 - u))),
    "degrees": ((-30, 50), lambda u: 12 + 9 * norm.ppf(u)),
}
"""Bounds, and labels as a function of a uniform number."""


def draw(shape: str, records: int, seed: int) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Features and labels of training and test records, and the bounds."""
    generator = np.random.default_rng([seed, records])
    bounds, label = SHAPES[shape]
    X = generator.normal(size=(records + TEST, 5))
    signal = (X[:, 0] + 0.7 * X[:, 1] + 0.5 * np.abs(X[:, 2])) / 1.26
    score = np.sqrt(0.5) * signal + np.sqrt(0.5) * generator.normal(size=len(X))
    ranks = norm.cdf((score - score.mean()) / score.std())
    return X, np.clip(label(np.clip(ranks, 1e-6, 1 - 1e-6)), *bounds), bounds


def measure(shape: str, mechanism: str, records: int, epsilon: float, seed: int) -> tuple[float, float]:
    """The two ratios of one release."""
    X, y, bounds = draw(shape, records, seed)
    model = LabelDPRegressor(epsilon=epsilon, domain=bounds, mechanism=mechanism, method="labels").fit(
        X[:records], y[:records]
    )
    truth = y[records:]
    error = np.mean((model.predict(X[records:]) - truth) ** 2) / np.mean((truth - y[:records].mean()) ** 2)
    made = LabelRandomizer(epsilon, bounds, mechanism=mechanism).fit(y[:records])
    means, _ = made.conditional_moments(np.sort(y[:records]), code_values(made))
    return float(error), float(means.mean() / y[:records].mean())


def main() -> None:
    """Print a table for each mechanism and ε."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--mechanisms", default="auto,rr-on-bins,unbiased")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5])
    parser.add_argument("--worths", type=float, nargs="+", default=WORTHS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    shapes = options.shapes.split(",")
    for mechanism in options.mechanisms.split(","):
        for epsilon in options.epsilons:
            print(f"\n{mechanism} at epsilon = {epsilon:g}: error / average of the mean ± its distance from 1")
            print(f"{'n·ε²':>6} {'n':>6} " + " ".join(f"{shape:>18}" for shape in shapes))
            for worth in options.worths:
                records = max(20, round(worth / epsilon**2))
                cells = []
                for shape in shapes:
                    found = np.array([measure(shape, mechanism, records, epsilon, seed) for seed in options.seeds])
                    away = np.sqrt(np.mean((found[:, 1] - 1) ** 2))
                    cells.append(f"{found[:, 0].mean():5.2f} /{found[:, 1].mean():5.2f} ±{away:4.2f}")
                print(f"{worth:>6g} {records:>6} " + " ".join(f"{cell:>18}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
