"""What each part of `auto`'s recipe is worth: its two guesses, its prior, and post-processing that it does without.

Run: python benchmarks/recipe.py [--part guesses,designs,priors,shapes,values] [--seeds 20] [--jobs 2]

Test MSE of gradient boosting sized by `boosting_settings`. Seeds, rows and test rows are those of benchmarks/training.py.

- guesses: other values of τ·n and `visible` than 30 and 0.7 (Criteo-like, n = 10,000, ε = 0.5);
- designs: without the 2 % of records whose features tell the label, and with ε/25 for the prior at every ε, no training:
  bias² and variance of the values under the true distribution of the labels (a quarter of the seeds);
- priors: the same noisy histogram clipped, projected on the simplex, or taken to have one mode (ε = 0.5);
- shapes: the same three priors for labels of known shapes, without training: the excess error that a design's mechanism
  is expected to bring (`visible_bias_and_variance`), over that of a design from the true distribution at the whole ε;
- values: posterior means, and means refined by the model's own predictions, instead of the values as sent (n = 10,000);
- epochs (only if asked for, half an hour with 4 seeds): the network on `auto`'s values and on true labels, trained for
  other numbers of epochs than `network_settings` says. Seeds that no other table uses.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from itertools import product
from multiprocessing import get_context

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_predict

from labeldp import Domain, LabelRandomizer, Prior
from labeldp.design import visibility
from labeldp.learn.boosting import boosting_settings
from labeldp.mechanisms import Request, RROnBins
from labeldp.mechanisms import auto as rule
from labeldp.mechanisms.auto import split_for_training
from labeldp.mechanisms.bias_variance import CAPACITY, VISIBLE, BiasVariance, Unbiased, visible_bias_and_variance
from labeldp.mechanisms.decoding import code_values, posterior_means, refined_means
from labeldp.mechanisms.finite import FiniteMechanism
from labeldp.mechanisms.prediction import label_share
from labeldp.paper.network.network_regressor import network_settings
from labeldp.priors import histogram, noisy_counts, project_counts, split_budget, unimodal_masses
from training import error, rows_of

PRIORS = {
    "clipped": lambda noisy, records, scale: np.maximum(noisy, 0) + float(not (noisy > 0).any()),  # noqa: ARG005
    "projected": lambda noisy, records, scale: project_counts(noisy, records),  # noqa: ARG005
    "one mode": unimodal_masses,
}


EPOCHS = {
    10_000: (3, 6, 10, 18, 25, 35, 50),
    50_000: (2, 3, 5, 8, 12, 18, 25, 50),
    400_000: (1, 2, 3, 4, 6, 8),
}


def bump(center: float, width: float) -> np.ndarray:
    """A mode at `center`, as a share of the range."""
    return np.exp(-(((np.linspace(0, 1, 201) - center) / width) ** 2) / 2)


SHAPES = {
    "falling": np.exp(-15 * np.linspace(0, 1, 201)),
    "two close": bump(0.1, 0.03) + bump(0.3, 0.03),
    "two far": bump(0.15, 0.04) + bump(0.85, 0.04),
    "three": bump(0.1, 0.03) + bump(0.5, 0.03) + bump(0.9, 0.03),
    "U": np.exp(-20 * np.linspace(0, 1, 201)) + np.exp(-20 * np.linspace(1, 0, 201)),
    "zero and bump": np.r_[200.0, bump(0.6, 0.05)[1:]],
    "round numbers": np.where(np.arange(201) % 10 == 0, np.exp(-6 * np.linspace(0, 1, 201)), 0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="guesses,designs,priors,shapes,values")
    parser.add_argument("--seeds", type=int, default=20, help="two or more")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of the workers: seeds run side by side, not threads
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:

        def run(title: str, trial: Callable[[int], dict[str, float]]) -> None:
            found = list(pool.map(trial, range(arguments.seeds)))
            print(f"\n{title}, {arguments.seeds} seeds. Test MSE ± standard error:")
            for name in found[0]:
                errors = np.array([seed[name] for seed in found])
                print(f"  {name:<40}{errors.mean():>12,.2f} ± {errors.std(ddof=1) / np.sqrt(errors.size):,.2f}")

        if "guesses" in arguments.part:
            run("guesses: criteo-like, n = 10,000, ε = 0.5", guesses)
        if "designs" in arguments.part:
            seeds = max(2, arguments.seeds // 4)
            print(f"\ndesigns: bias² that features see, bias² at each label, variance, excess error; {seeds} seeds:")
            settings = product((("criteo", 10_000), ("rand-hie", 0)), (2, 8), ((0.02, 0.1), (0.0, 0.1), (0.02, 1.0)))
            for (data, records), epsilon, (revealed, most) in settings:
                trial = partial(designs, data, records, epsilon, revealed, most)
                seen, each, variance, excess = np.mean(list(pool.map(trial, range(seeds))), axis=0)
                print(
                    f"  {data:<10} ε = {epsilon:g}, revealed {revealed:g}, prior at most {most:g}:"
                    f"{seen:>12.4g}{each:>12.4g}{variance:>12.4g}{excess:>12.4g}",
                    flush=True,
                )
        if "priors" in arguments.part:
            for data, epsilon in (("criteo", 0.5), ("rand-hie", 0.5), ("rand-hie", 2), ("fertility", 0.5)):
                run(f"priors: {data}, ε = {epsilon:g}", partial(priors, data, epsilon))
        if "shapes" in arguments.part:
            print(f"\nshapes: 201 labels, excess over that of the true distribution, {arguments.seeds} seeds:")
            print(f"  {'':<14}{'n':>8}{'ε':>5}" + "".join(f"{name:>11}" for name in PRIORS))
            for (shape, masses), n, epsilon in product(SHAPES.items(), (3_000, 20_000, 100_000), (0.5, 2)):
                found = np.mean(list(pool.map(partial(shaped, masses, n, epsilon), range(arguments.seeds))), axis=0)
                print(f"  {shape:<14}{n:>8,}{epsilon:>5g}" + "".join(f"{ratio:>11.2f}" for ratio in found), flush=True)
        if "values" in arguments.part:
            for epsilon in (0.5, 2):
                run(f"values: criteo-like, n = 10,000, ε = {epsilon:g}", partial(values, epsilon))
        if "epochs" in arguments.part:
            for records in EPOCHS:
                run(f"epochs of the network: criteo-like, n = {records:,}", partial(epochs, records))


def guesses(seed: int, epsilon: float = 0.5) -> dict[str, float]:
    """`auto`'s design with other guesses about models and data, all from one private prior."""
    split = rows_of("criteo", 10_000, seed)
    labels, grid = split["labels"], split["domain"].resolve(10_000, epsilon)
    budget = split_for_training(Request(grid, epsilon, records=labels.size))
    masses = unimodal_masses(noisy_counts(histogram(labels, grid), budget.scale), labels.size, budget.scale)
    prior = Prior(grid.grid, masses, budget.epsilon_prior)
    found = {}
    for visible in (0.5, VISIBLE, 0.85, 1.0):
        for capacity in (10, CAPACITY, 60):
            mechanism = BiasVariance.optimal(
                prior, budget.epsilon_labels, capacity / labels.size, visible=visible, domain=grid
            )
            found[f"visible = {visible}, τ·n = {capacity:g}"] = trained(split, mechanism, mechanism.outputs, prior)
    return found


def designs(data: str, records: int, epsilon: float, revealed: float, most: float, seed: int) -> list[float]:
    """What `auto`'s mechanism does to the true labels, with other constants in its recipe."""
    warnings.simplefilter("ignore")
    split = rows_of(data, records, seed)
    labels, grid = split["labels"], split["domain"].resolve(split["labels"].size, epsilon)
    visibility.REVEALED_SHARE, rule.MOST_FOR_PRIOR = revealed, Fraction(repr(most))
    auto = LabelRandomizer(epsilon, grid, mechanism="auto").fit(labels)
    visibility.REVEALED_SHARE = 0.0
    truth = Prior(grid.grid, histogram(labels, grid))
    seen, each = (visible_bias_and_variance(auto, code_values(auto, "auto"), truth, v) for v in (VISIBLE, 1.0))
    return [seen[0], *each, seen[0] + CAPACITY / labels.size * seen[1]]


def priors(data: str, epsilon: float, seed: int) -> dict[str, float]:
    """Three mechanisms, each designed from the same noisy counts in three ways."""
    warnings.simplefilter("ignore")
    split = rows_of(data, 10_000, seed)
    labels = split["labels"]
    grid = split["domain"].resolve(labels.size, epsilon)
    found = {}
    budget = split_for_training(Request(grid, epsilon, records=labels.size))
    noisy = noisy_counts(histogram(labels, grid), budget.scale)
    for name, masses in PRIORS.items():
        prior = Prior(grid.grid, masses(noisy, labels.size, budget.scale), budget.epsilon_prior)
        bins = RROnBins.optimal(prior, budget.epsilon_labels)
        found[f"{name}: RR-on-Bins, debiased"] = trained(split, bins, code_values(bins, "debiased"), prior)
        unbiased = Unbiased.optimal(prior, budget.epsilon_labels, domain=grid)
        found[f"{name}: unbiased"] = trained(split, unbiased, unbiased.outputs, prior)
        weight = CAPACITY / labels.size
        auto = BiasVariance.optimal(prior, budget.epsilon_labels, weight, visible=VISIBLE, domain=grid)
        found[f"{name}: auto's design"] = trained(split, auto, auto.outputs, prior)
    return found


def shaped(masses: np.ndarray, records: int, epsilon: float, seed: int) -> list[float]:
    """Excess errors for one noisy histogram of labels with these masses, over that of the best design."""
    domain = Domain.integers(0, 200)
    truth = Prior(domain.grid, masses)
    budget = split_for_training(Request(domain, epsilon, records=records))
    counts = np.random.default_rng(seed).multinomial(records, truth.masses)
    noisy = noisy_counts(counts, budget.scale)
    weight = CAPACITY / records

    def excess(prior: Prior, labels: Fraction) -> float:
        mechanism = BiasVariance.optimal(prior, labels, weight, visible=VISIBLE, domain=domain)
        bias, variance = visible_bias_and_variance(mechanism, mechanism.outputs, truth, VISIBLE)
        return bias + weight * variance

    least = excess(truth, budget.epsilon)
    found = [Prior(domain.grid, make(noisy, records, budget.scale)) for make in PRIORS.values()]
    return [excess(prior, budget.epsilon_labels) / least for prior in found]


def values(epsilon: float, seed: int) -> dict[str, float]:
    """The same codes under four kinds of values."""
    warnings.simplefilter("ignore")
    split = rows_of("criteo", 10_000, seed)
    labels, grid = split["labels"], split["domain"].resolve(10_000, epsilon)
    budget = split_budget(epsilon, grid.count, labels.size)
    counts = histogram(labels, grid)
    clipped = PRIORS["clipped"](noisy_counts(counts, budget.scale), labels.size, budget.scale)
    bins = RROnBins.optimal(Prior(grid.grid, clipped, budget.epsilon_prior), budget.epsilon_labels)
    auto = LabelRandomizer(epsilon, grid, mechanism="auto").fit(labels)
    found, codes = {}, {bins: bins.codes(labels), auto: auto.codes(labels)}
    for name, mechanism, sent in (
        ("RR-on-Bins", bins, bins.outputs),
        ("RR-on-Bins, debiased", bins, code_values(bins, "debiased")),
        ("auto", auto, auto.outputs),
    ):
        settings = boosting_settings(labels.size, label_share(mechanism, sent))
        model = HistGradientBoostingRegressor(random_state=0, **settings)
        drawn = codes[mechanism]

        def test_error(targets: np.ndarray, model: HistGradientBoostingRegressor = model) -> float:
            predictions = model.fit(split["matrix"], targets).predict(split["test_matrix"])
            return float(np.mean((predictions - split["test_labels"]) ** 2))

        targets = sent[drawn]
        found[f"{name}: as sent"] = test_error(targets)
        found[f"{name}: posterior means"] = test_error(posterior_means(mechanism)[drawn])
        for times in ("once", "twice"):
            targets = refined_means(mechanism, drawn, cross_val_predict(model, split["matrix"], targets, cv=5))
            found[f"{name}: refined {times}"] = test_error(targets)
    return found


def epochs(records: int, seed: int) -> dict[str, float]:
    """Networks trained for longer and shorter than `network_settings` says."""
    from labeldp.paper.network import NetworkRegressor

    split = rows_of("criteo", records, 1000 + seed)
    labels, found = split["labels"], {}
    for epsilon in (0.5, 1, 2, 4, 8, np.inf):
        targets, share = labels, 1.0
        if np.isfinite(epsilon):
            grid = split["domain"].resolve(records, epsilon)
            auto = LabelRandomizer(epsilon, grid, mechanism="auto").fit(labels)
            decoded = code_values(auto, "auto")
            targets, share = decoded[auto.codes(labels)], label_share(auto, decoded)
        tried = {f"{number} epochs": number for number in EPOCHS[records]}
        for name, number in (tried | {"by the rule": network_settings(records, share)["epochs"]}).items():
            model = NetworkRegressor(random_state=0, epochs=number, threads=1).fit(split["train"].features, targets)
            wrong = model.predict(split["test"].features) - split["test_labels"]
            found[f"ε = {epsilon:g}, {name}"] = float(np.mean(wrong**2))
    return found


def trained(split: dict, mechanism: FiniteMechanism, targets: np.ndarray, prior: Prior) -> float:
    """The test error of a model trained on `targets` for this mechanism's codes."""
    labels = split["labels"]
    return error(split, targets[mechanism.codes(labels)], label_share(mechanism, targets, prior), "boosting")


if __name__ == "__main__":
    main()
