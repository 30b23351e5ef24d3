"""One team, both sides: models from noisy sums beside noisy labels. Test error of each method, paired by seed.

Run: python benchmarks/sums.py [--data criteo,fertility,rand-hie] [--records 10000,50000,400000] [--epsilon 0.25,0.5,1,2,4,8]
                               [--seeds 20] [--first-seed 0] [--jobs 2] [--without dp-ebm,ridge] [--peers 110000]
                               [--out results.json]
     python benchmarks/sums.py --judge results.json more.json
     python benchmarks/sums.py --timing [--records 100000,400000]

The rows of a seed are those of `training.py`; noise is fresh in every run. Methods:

- not private, not private (default): boosting of `training.py` on true labels, and the library's own default learner;
- mean: answering the true mean of the training labels;
- labels: LabelDPRegressor(method="labels"), noisy labels with the default learner;
- labels (boosting): `auto` of `training.py`, the same mechanism with the learner of "not private";
- sums: LabelDPRegressor(method="sums");
- plain: LabelDPRegressor without a method. It is the same fit as that of the method it chose;
- adassp, ridge, dp-ebm: see `adassp.py` and `dp_ebm.py`. DP-EBM runs on at most `--peers` records.

`--judge` prints tables and judgement again from files of `--out`. Seeds of several files are put together.
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
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import adassp
import dp_ebm
import sums_tables
import sums_timing
import training
from labeldp import LabelDPRegressor, LabelRandomizer
from labeldp.mechanisms.decoding import code_values
from labeldp.mechanisms.prediction import label_share
from labeldp.priors import BudgetWarning


def main() -> None:
    arguments = parse()
    if arguments.timing:
        sums_timing.run([int(n) for n in (arguments.records or "100000,400000").split(",")])
        return
    if arguments.judge:
        rows = [row for path in arguments.judge for row in json.loads(path.read_text(encoding="utf-8"))]
        for data, size in sorted({(row["data"], row["records"]) for row in rows}):
            sums_tables.show(rows, data, size)
    else:
        rows = measure(arguments)
    sums_tables.judge(rows)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="criteo,fertility,rand-hie")
    parser.add_argument("--records", default="", help="sizes of Criteo-like data, by default 10000,50000,400000")
    parser.add_argument("--epsilon", default="0.25,0.5,1,2,4,8")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0, help="rules were fixed on other seeds than these")
    parser.add_argument("--jobs", type=int, default=2, help="seeds to run at the same time")
    parser.add_argument("--without", default="", help=f"to leave out, with commas: {', '.join(sums_tables.METHODS)}")
    parser.add_argument("--peers", type=int, default=110_000, help="the most records for DP-EBM; 0 leaves it out")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--judge", type=Path, nargs="+", help="files of --out: print what they say, measure nothing")
    parser.add_argument("--timing", action="store_true", help="time and memory of one fit instead of errors")
    arguments = parser.parse_args()
    arguments.without = {name.strip() for name in arguments.without.split(",") if name.strip()}
    unknown = arguments.without - set(sums_tables.METHODS) | arguments.without & {"not private", "plain"}
    if unknown:
        parser.error(f"cannot leave out {', '.join(sorted(unknown))}")
    return arguments


def measure(arguments: argparse.Namespace) -> list[dict]:
    """A row for each seed, ε and data set. The file is written after every seed, so that a run cut short is not lost."""
    os.environ["OMP_NUM_THREADS"] = "1"  # of the workers: seeds run side by side, not threads
    python = dp_ebm.environment() if arguments.peers and "dp-ebm" not in arguments.without else None
    rows: list[dict] = []
    for data in arguments.data.split(","):
        given = arguments.records or "10000,50000,400000"
        for records in [int(n) for n in given.split(",")] if data == "criteo" else [0]:
            started = time.perf_counter()
            for found in seeds(data, records, python, arguments):
                rows += found
                if arguments.out:
                    arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
                seconds = time.perf_counter() - started
                print(f"seed {found[0]['seed']} of {data}, {seconds:.0f} s", file=sys.stderr, flush=True)
            sums_tables.show(rows, data, rows[-1]["records"])
    return rows


def seeds(data: str, records: int, python: Path | None, arguments: argparse.Namespace) -> Iterator[list[dict]]:
    """The rows of each seed, in order, `--jobs` of them at a time."""
    epsilons = [float(e) for e in arguments.epsilon.split(",")]
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(one_seed, data, records, seed, epsilons, arguments.without, python, arguments.peers)
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        ]
        for task in waiting:
            yield task.result()


def one_seed(
    data: str,
    records: int,
    seed: int,
    epsilons: list[float],
    without: set[str],
    python: Path | None = None,
    peers: int = 0,
) -> list[dict]:
    """All methods at all ε on the rows of one seed."""
    warnings.simplefilter("ignore", BudgetWarning)
    split = training.rows_of(data, records, seed)
    labels = split["labels"]
    same = {"not private": training.error(split, labels, 1.0, "boosting")}
    if "not private (default)" not in without:
        same["not private (default)"] = training.error(split, labels, 1.0, "default")
    if "mean" not in without:
        same["mean"] = squared(split, labels.mean())
    rows = []
    for epsilon in epsilons:
        found, method = ours(split, epsilon, without)
        if not {"adassp", "ridge"} <= without:
            models = adassp.predictions(*numbers(split), epsilon)
            found |= {name: squared(split, model) for name, model in models.items() if name not in without}
        rows.append(
            {
                "data": data,
                "records": labels.size,
                "epsilon": epsilon,
                "seed": seed,
                "method": method,
                "errors": same | found,
            }
        )
    if python and "dp-ebm" not in without and labels.size <= peers:
        for row, answers in zip(rows, dp_ebm.predictions(python, *numbers(split), epsilons), strict=True):
            row["errors"]["dp-ebm"] = squared(split, answers)
    return rows


def ours(split: dict, epsilon: float, without: set[str]) -> tuple[dict[str, float], str]:
    """The library's methods on one seed's rows, and the method that the plain call chose."""
    features, labels = split["train"].features, split["labels"]

    def fitted(**settings: str) -> tuple[float, str]:
        model = LabelDPRegressor(epsilon=epsilon, domain=split["domain"], **settings).fit(features, labels)
        return squared(split, model.predict(split["test"].features)), model.method_.name

    plain, method = fitted()
    found = {"plain": plain, method: plain}
    for other in {"labels", "sums"} - {method} - without:
        found[other] = fitted(method=other)[0]
    if "labels (boosting)" not in without:
        grid = split["domain"].resolve(labels.size, epsilon)
        auto = LabelRandomizer(epsilon, grid, mechanism="auto").fit(labels)
        values = code_values(auto, "auto")
        share = label_share(auto, values, auto.prior)
        found["labels (boosting)"] = training.error(split, values[auto.codes(labels)], share, "boosting")
    return found, method


def numbers(split: dict) -> tuple:
    """What peers get: the matrix of numbers and codes, without columns of more than 255 categories."""
    domain = split["domain"]
    return split["matrix"], split["codes"], split["labels"], split["test_matrix"], (domain.lower, domain.upper)


def squared(split: dict, predictions: np.ndarray | float) -> float:
    """The mean squared error against the true test labels."""
    return round(float(np.mean((predictions - split["test_labels"]) ** 2)), 4)


if __name__ == "__main__":
    main()
