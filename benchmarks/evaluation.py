"""Does the noise-corrected test error tell the truth? Coverage of its interval, and its accuracy on many records.

Run: python benchmarks/evaluation.py [--seeds 200] [--records 5000] [--large 400000] [--epsilon 2] [--only criteo|heavy]

Generated Criteo-like data, a ridge regression on the numeric features, five-fold cross-validation on private labels only.
The truth is the error of the model trained on all private values, on 100,000 other rows with their true labels.

The heavy-tailed case is log-normal cents from 0 to 50,000, many of them zero: coverage of the mean label, of the error of a
fixed model and of its gain over always answering the mean, a quarter as many seeds for each setting.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from labeldp import Domain, LabelRandomizer, estimate_error
from labeldp.evaluate import cross_validated_error, estimate_gain, estimate_mean
from labeldp.mechanisms import PrivateLabels, Request, design
from labeldp.mechanisms.auto import prior_for_training, split_for_training
from labeldp.paper.data import criteo_like
from labeldp.priors import BudgetWarning, histogram

TEST_ROWS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--large", type=int, default=400_000)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--only", choices=("criteo", "heavy"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", BudgetWarning)
    if arguments.only != "criteo":
        heavy_tailed(max(1, arguments.seeds // 4))
    if arguments.only != "heavy":
        criteo(arguments)


def criteo(arguments: argparse.Namespace) -> None:
    """Coverage and accuracy for cross-validated models on Criteo-like data."""
    rows = max(arguments.large, arguments.records * 20)
    whole = criteo_like(rows + TEST_ROWS, seed=11)
    features, labels = whole.matrix()[0][:, : len(whole.numeric)], whole.labels
    # Prices are skewed; a spline of their logarithm is what a linear model needs.
    features = np.log1p(np.maximum(features, 0))
    data = features[:rows], labels[:rows], features[rows:], labels[rows:]

    for kind in ("unbiased", "auto"):
        random = np.random.default_rng(0)
        found = [trial(data, kind, arguments.epsilon, arguments.records, random) for _ in range(arguments.seeds)]
        covered = sum(low <= truth <= high for _, low, high, truth in found)
        width = np.mean([high - low for _, low, high, _ in found])
        print(
            f"{kind}, n = {arguments.records:,}, ε = {arguments.epsilon:g}: the 95 % interval covers the true test error "
            f"in {covered} of {arguments.seeds} seeds (mean width {width:,.0f}, true error {found[-1][3]:,.0f})",
            flush=True,
        )
    print(
        f"\nn = {arguments.large:,}: {'ε':>5} {'mechanism':>10} {'estimate':>10} {'interval':>18} {'truth':>8} {'off by':>8}"
    )
    for epsilon in (2.0, 4.0, 8.0):
        for kind in ("unbiased", "auto"):
            estimate, low, high, truth = trial(data, kind, epsilon, arguments.large, np.random.default_rng(1))
            print(
                f"{'':>14}{epsilon:>5g} {kind:>10} {estimate:>10,.0f} {low:>9,.0f} … {high:,.0f} {truth:>9,.0f} "
                f"{abs(estimate / truth - 1):>7.1%}",
                flush=True,
            )


def heavy_tailed(seeds: int, records: int = 20_000) -> None:
    """Coverage on labels whose rare large values carry most of the mean; each seed draws labels, prior and noise anew."""
    labels, feature = cents(np.random.default_rng(0), 4_000_000)
    line = np.poly1d(np.polyfit(feature, labels, 1))
    error = np.mean((line(feature) - labels) ** 2)
    truth = np.array([labels.mean(), error, np.mean((line(feature).mean() - labels) ** 2) - error])
    print(f"log-normal cents, n = {records:,}: each figure's typical interval, the truth, and how often it was covered")
    for kind in ("unbiased", "auto"):
        for epsilon in (1.0, 4.0):
            random = np.random.default_rng(1)
            found = np.array([heavy_trial(random, kind, epsilon, records, line) for _ in range(seeds)])
            covered = ((found[:, :, 0] <= truth) & (truth <= found[:, :, 1])).sum(axis=0)
            for name, (low, high), true, count in zip(
                ("mean", "error", "gain"), np.median(found, axis=0), truth, covered, strict=True
            ):
                print(
                    f"{kind:>10} ε = {epsilon:g} {name:>6} {low:>12,.3g} … {high:<10,.3g} {true:>10,.3g} {count:>6} of {seeds}",
                    flush=True,
                )


def cents(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Amounts from 0 to 50,000, a third of them zero, and a feature that explains some of their logarithm."""
    feature = random.normal(size=size)
    amounts = np.exp(5.3 + 0.8 * feature + 1.4 * random.normal(size=size))
    return np.minimum(np.rint(amounts * (random.random(size) > 1 / 3)), 50_000), feature


def heavy_trial(
    random: np.random.Generator, kind: str, epsilon: float, records: int, line: Callable[[np.ndarray], np.ndarray]
) -> list[tuple[float, float]]:
    """The intervals for mean, error and gain from one draw of labels and noise."""
    labels, feature = cents(random, records)
    private = LabelRandomizer(epsilon, Domain(0, 50_000), mechanism=kind).randomize(labels)
    predictions = line(feature)
    estimates = estimate_mean(private), estimate_error(private, predictions), estimate_gain(private, predictions)
    return [(estimate.lower, estimate.upper) for estimate in estimates]


def trial(data: tuple, kind: str, epsilon: float, records: int, random: np.random.Generator) -> tuple:
    """Estimate, interval and truth for one draw of rows, prior and private labels."""
    features, labels, test_features, test_labels = data
    chosen = random.choice(labels.size, records, replace=False)
    mine = labels[chosen]
    grid = Domain(0, 400).resolve(records, epsilon)
    request = Request(grid, epsilon, records=records)
    split = split_for_training(request)
    prior = prior_for_training(histogram(mine, grid), split.scale, request)
    mechanism = design(kind, Request(grid, split.epsilon_labels, prior=prior, records=records))
    private = PrivateLabels(mechanism.codes(mine), mechanism)
    model = make_pipeline(StandardScaler(), SplineTransformer(5), Ridge(1.0))
    estimate = cross_validated_error(model, features[chosen], private)
    model.fit(features[chosen], private.values())
    truth = float(np.mean((model.predict(test_features) - test_labels) ** 2))
    return estimate.mean_squared_error, estimate.lower, estimate.upper, truth


if __name__ == "__main__":
    main()
