"""How often do the intervals of `labeldp train` cover the truth, and how wide are they?

Run: python benchmarks/interval_coverage.py [--seeds 200] [--records 50000] [--epsilon 1] [--shape normal|skewed|counts] [--assume-nothing]

Three shapes of labels, each privatized by `auto` with its private prior: normal amounts clipped to 0 … 400 (like the README's,
R² 0.73), skewed amounts (log-normal, clipped to 0 … 400) and counts of which many are zero (0 … 60). Every seed draws labels,
prior and noise anew. A fixed predictor stands for the model, so that its true error, gain and R² are known: they are measured
on 4,000,000 other records. The intervals are those that `train` prints: error, gain over answering the mean prediction, R².
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np

from labeldp import Domain, LabelRandomizer, estimate_error
from labeldp.evaluate import estimate_gain, estimate_r2
from labeldp.evaluate.intervals import ASSUMPTIONS
from labeldp.priors import BudgetWarning

FIGURES = ("error", "gain", "R²")
Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--shape", choices=tuple(SHAPES))
    parser.add_argument("--assume-nothing", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", BudgetWarning)
    assume = () if arguments.assume_nothing else tuple(ASSUMPTIONS)
    print(f"n = {arguments.records:,}, ε = {arguments.epsilon:g}, 95 % intervals, assuming {list(assume) or 'nothing'}")
    print(f"{'shape':<8} {'figure':<6} {'truth':>8} {'median interval':>20} {'covered':>12} {'above zero':>11}")
    for name in [arguments.shape] if arguments.shape else SHAPES:
        report(name, arguments.seeds, arguments.records, arguments.epsilon, assume)


def report(name: str, seeds: int, records: int, epsilon: float, assume: tuple[str, ...]) -> None:
    """Print the coverage of each figure for one shape of labels."""
    domain, draw = SHAPES[name]
    labels, predictions = draw(np.random.default_rng(1), 4_000_000)
    error = np.mean((predictions - labels) ** 2)
    gain = np.mean((predictions.mean() - labels) ** 2) - error
    truth = error, gain, 1 - error / labels.var()
    begun, found = time.perf_counter(), np.empty((seeds, 3, 2))
    for seed in range(seeds):
        labels, predictions = draw(np.random.default_rng(1000 + seed), records)
        private = LabelRandomizer(epsilon, domain, mechanism="auto").randomize(labels)
        for place, estimate in enumerate(
            (
                estimate_error(private, predictions, visible=1.0, assume=assume),
                estimate_gain(private, predictions, assume=assume),
                estimate_r2(private, predictions, assume=assume),
            )
        ):
            found[seed, place] = estimate.lower, estimate.upper
    for place, figure in enumerate(FIGURES):
        low, high = found[:, place].T
        middle = f"{np.median(low):,.3g} … {np.median(high):,.3g}" if place == 2 else interval(low, high)
        covered = int(((low <= truth[place]) & (truth[place] <= high)).sum())
        print(
            f"{name:<8} {figure:<6} {truth[place]:>8,.4g} {middle:>20} {covered:>5} of {seeds:<3} {int((low > 0).sum()):>11}",
            flush=True,
        )
    print(f"{'':<8} {(time.perf_counter() - begun) / seeds:.1f} s for each seed", flush=True)


def interval(low: np.ndarray, high: np.ndarray) -> str:
    """The medians of both ends."""
    digits = 0 if np.median(high) >= 100 else 1
    return f"{np.median(low):,.{digits}f} … {np.median(high):,.{digits}f}"


def normal(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal amounts, some of them clipped at 0."""
    feature = random.normal(size=size)
    center = 90 + 60 * feature
    return np.clip(center + random.normal(0, 35, size), 0, 400), np.clip(center, 0, 400)


def skewed(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-normal amounts."""
    feature = random.normal(size=size)
    labels = np.exp(3.6 + 0.7 * feature + 0.45 * random.normal(size=size))
    return np.minimum(labels, 400), np.minimum(np.exp(3.7 + 0.7 * feature), 400)


def counts(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Poisson counts, 40 % of them replaced by zero."""
    rate = np.exp(1.5 + 0.6 * random.normal(size=size))
    labels = np.minimum(random.poisson(rate) * (random.random(size) > 0.4), 60)
    return labels.astype(np.float64), np.minimum(0.6 * rate, 60)


SHAPES: dict[str, tuple[Domain, Draw]] = {
    "normal": (Domain(0, 400), normal),
    "skewed": (Domain(0, 400), skewed),
    "counts": (Domain.integers(0, 60), counts),
}

if __name__ == "__main__":
    main()
