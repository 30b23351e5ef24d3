"""What `labeldp advise` predicts beside what models reach: test errors of private labels, the paper's bins and noisy sums.

Run: python benchmarks/advice.py [--data criteo,rand-hie,fertility] [--records 10000,50000,400000] [--epsilon 0.5,1,2,4,8]
                                 [--seeds 3] [--first-seed 0] [--without bins,sums] [--explained 0.64]
     python benchmarks/advice.py --measured results.json more.json
     python benchmarks/advice.py --classes docs/research/benchmarks/classes.json

Models are those of `training.py --learner default` and of `LabelDPRegressor(method="sums")`. `--measured` trains nothing and takes the
figures of files that `sums.py --out` or `training.py --out` wrote. Predictions for Criteo-like data take the calibrated prior and
`--explained`; 0.64 is the R² of 400,000 true labels. For real data they take the histogram of all labels, and the share with which a model without
privacy is predicted as it was measured: this is a check of predictions and not a release. `--classes` takes the log losses that `classes.py --json`
wrote, and the share with which the better one of two models without privacy is predicted as it was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import training
from labeldp import Domain, LabelDPRegressor, Prior, advise
from labeldp.evaluate import Advice
from labeldp.paper.data import criteo_prior
from labeldp.priors import BudgetWarning

CLOSE = 0.15
NAMES = {"auto": "labels", "rr-on-bins": "bins", "not private (default)": "not private"}
METHODS = ("labels", "bins", "sums", "not private")
UNUSED = "debiased,laplace,unbiased,bias-variance"

Cells = dict[tuple[str, int], dict[float, dict[str, list[float]]]]


def main() -> None:
    arguments = parse()
    if arguments.classes:
        show_classes(arguments.classes)
        return
    if arguments.measured:
        cells = read(arguments.measured)
    else:
        os.environ["OMP_NUM_THREADS"] = "1"
        cells = measure(arguments)
    for (data, records), errors in cells.items():
        show(data, records, errors, arguments.explained)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="criteo")
    parser.add_argument("--records", default="10000,50000,400000", help="sizes of Criteo-like data")
    parser.add_argument("--epsilon", default="0.5,1,2,4,8")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--without", default="", help="bins or sums, to save time")
    parser.add_argument("--explained", type=float, default=0.64, help="what features of Criteo-like data explain")
    parser.add_argument("--measured", type=Path, nargs="+", help="files of sums.py --out or training.py --out")
    parser.add_argument("--classes", type=Path, help="a file of classes.py --json: compare log losses of two classes")
    return parser.parse_args()


def show_classes(path: Path) -> None:
    """Print measured log losses beside those that follow from advice, and the ratio of their excess over no privacy."""
    rows = json.loads(path.read_text(encoding="utf-8"))["tables"][0]["rows"]
    print("set             ε    not private  measured  predicted  predicted excess / measured")
    close = within = positive = total = 0
    for name in dict.fromkeys(row["set"] for row in rows):
        own = {(row["ε"] or 0.0, row["who"]): row for row in rows if row["set"] == name}
        best = min(row["log loss"] for (epsilon, who), row in own.items() if not epsilon and who != "mean rate")
        records, rate = own[0.0, "mean rate"]["records"], own[0.0, "mean rate"]["rate"]
        prior = Prior(np.array([0.0, 1.0]), np.array([1 - rate, rate]))

        def advice(explained: float, epsilons: list[float], records: int = records, prior: Prior = prior) -> Advice:
            return advise(
                Domain.of_classes(["no", "yes"]), records, epsilons=epsilons, prior=prior, explained=explained
            )

        def off(explained: float, best: float = best) -> float:
            found = advice(explained, [1.0])
            return found.log_loss(found.not_private) - best

        explained = brentq(off, 0.001, 0.999, xtol=1e-4)
        for epsilon in sorted({key[0] for key in own} - {0.0}):
            found = advice(explained, [epsilon])
            outlook, measured = found.outlooks[0], own[epsilon, "labeldp"]["log loss"]
            predicted = min(found.log_loss(outlook.sums), found.log_loss(outlook.labels))
            ratio = (predicted - best) / (measured - best) if measured > best else float("nan")
            print(f"{name:14}  {epsilon:<3g}  {best:11.4f}  {measured:8.4f}  {predicted:9.4f}  {ratio:8.2f}")
            total, positive = total + 1, positive + (measured > best)
            close, within = close + (0.8 <= ratio <= 1.25), within + (abs(predicted / measured - 1) <= 0.02)
    print(f"excess within 0.8 to 1.25 of the measured one: {close} of {positive} rows with an excess")
    print(f"log loss within 2 %: {within} of {total} rows")


def measure(arguments: argparse.Namespace) -> Cells:
    """Train on the rows of each seed."""
    warnings.simplefilter("ignore", BudgetWarning)
    epsilons = [float(e) for e in arguments.epsilon.split(",")]
    cells: Cells = {}
    for data in arguments.data.split(","):
        for size in [int(n) for n in arguments.records.split(",")] if data == "criteo" else [0]:
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                started = time.perf_counter()
                split = training.rows_of(data, size, seed)
                clean = training.error(split, split["labels"], 1.0, "default")
                cell = cells.setdefault((data, split["labels"].size), {})
                for epsilon in epsilons:
                    found = {"not private": clean} | trained(split, epsilon, arguments.without.split(","))
                    for name, value in found.items():
                        cell.setdefault(epsilon, {}).setdefault(name, []).append(value)
                print(f"seed {seed} of {data}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return cells


def trained(split: dict, epsilon: float, without: list[str]) -> dict[str, float]:
    """The test error of each method on one seed's rows."""
    unused = UNUSED.split(",") + (["rr-on-bins"] if "bins" in without else [])
    found = {NAMES[name]: error for name, error in training.trial(split, epsilon, "default", unused).items()}
    if "sums" not in without:
        model = LabelDPRegressor(epsilon=epsilon, domain=split["domain"], method="sums")
        answers = model.fit(split["train"].features, split["labels"]).predict(split["test"].features)
        found["sums"] = float(np.mean((answers - split["test_labels"]) ** 2))
    return found


def read(paths: list[Path]) -> Cells:
    """The errors in files of other benchmarks, put together by data, records and ε."""
    cells: Cells = {}
    for row in (row for path in paths for row in json.loads(path.read_text(encoding="utf-8"))):
        cell = cells.setdefault((row["data"], row["records"]), {}).setdefault(row["epsilon"], {})
        errors = {NAMES.get(name, name): values for name, values in row["errors"].items()}  # "(default)" comes last
        for name in METHODS:
            cell.setdefault(name, []).extend(np.atleast_1d(errors.get(name, [])).tolist())
    return cells


def show(data: str, records: int, errors: dict[float, dict[str, list[float]]], explained: float) -> None:
    """One table: predicted / measured ± two standard errors, and how far the prediction is off."""
    advice = predicted(data, records, sorted(errors), explained, errors)
    print(
        f"\n{data}, {records:,} records, features explain {advice.explained:.2f}. Test MSE, predicted / measured ± 2 se:"
    )
    for outlook in advice.outlooks:
        both = {
            "labels": outlook.labels,
            "bins": outlook.paper,
            "sums": outlook.sums,
            "not private": advice.not_private,
        }
        parts = []
        for name in METHODS:
            if values := errors[outlook.epsilon].get(name):
                mean, spread = np.mean(values), 2 * np.std(values) / np.sqrt(max(1, len(values) - 1))
                off = both[name].mse / mean - 1
                mark = "" if abs(off) <= CLOSE else " !"
                parts.append(f"{name} {both[name].mse:,.5g} / {mean:,.5g} ± {spread:,.3g} ({off:+.1%}){mark}")
        print(f"  ε = {outlook.epsilon:g}: " + "; ".join(parts))


def predicted(data: str, records: int, epsilons: list[float], explained: float, errors: dict) -> Advice:
    """The advice for one data set."""
    if data == "criteo":
        return advise((0, 400), records, explained=explained, epsilons=epsilons, prior=criteo_prior())
    split = training.rows_of(data, records, 0)
    labels, domain = np.concatenate([split["labels"], split["test_labels"]]), split["domain"]
    prior = Prior(domain.grid, np.bincount(domain.cell(labels), minlength=domain.count))
    measured = np.mean([value for cell in errors.values() for value in cell["not private"]])
    low, high = 0.0, 1.0
    for _ in range(20):  # the share with which a model without privacy is predicted as it was measured
        explained = (low + high) / 2
        if advise(domain, records, explained=explained, epsilons=[8], prior=prior).not_private.mse > measured:
            low = explained
        else:
            high = explained
    return advise(domain, records, explained=explained, epsilons=epsilons, prior=prior)


if __name__ == "__main__":
    main()
